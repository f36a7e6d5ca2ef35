// The only place that calls fetch. Everything is same origin: the page is served by the listener it talks to.

/** An answer that was not 2xx, in the server's own words. */
export class ApiError extends Error {
  readonly status: number;
  /** What to do next, when the server said so separately. */
  readonly hint: string;
  readonly code: string;

  constructor(status: number, message: string, hint = '', code = '') {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.hint = hint;
    this.code = code;
  }
}

/** The listener could not be reached at all: it ended, or it was restarted under another address. */
export class OfflineError extends Error {
  constructor() {
    super('Signalbox does not answer.');
    this.name = 'OfflineError';
  }
}

/**
 * Reads any dialect's error body: {"error":"text"}, {"error":{"message","hint"}} or plain text.
 */
export function errorFrom(status: number, body: string): ApiError {
  const fallback = body.trim().slice(0, 400) || `The server answered ${status} without a reason.`;
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return new ApiError(status, fallback);
  }
  return errorFromJSON(status, parsed) ?? new ApiError(status, fallback);
}

/** Like errorFrom for JSON that was parsed already; null when there is no error in it. */
export function errorFromJSON(status: number, parsed: unknown): ApiError | null {
  if (typeof parsed !== 'object' || parsed === null || !('error' in parsed) || !parsed.error) return null;
  const outer = parsed as { error: unknown; hint?: unknown; code?: unknown };
  const inner = (typeof outer.error === 'object' && outer.error !== null ? outer.error : outer) as {
    message?: unknown;
    hint?: unknown;
    code?: unknown;
  };
  const message = typeof outer.error === 'string' ? outer.error : text(inner.message);
  return new ApiError(status, message || `The server answered ${status}.`, text(inner.hint), text(inner.code));
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Sends a request and returns its response. Throws ApiError for anything but 2xx, OfflineError when nobody answers. */
export async function send(
  method: string,
  path: string,
  init: RequestInit & { json?: unknown } = {},
): Promise<Response> {
  const { json, ...rest } = init;
  const headers = new Headers(rest.headers);
  if (json !== undefined) headers.set('Content-Type', 'application/json');
  let response: Response;
  try {
    response = await fetch(path, {
      ...rest,
      method,
      headers,
      body: json === undefined ? rest.body : JSON.stringify(json),
      credentials: 'same-origin',
      redirect: 'error',
    });
  } catch (err) {
    if (rest.signal?.aborted) throw err;
    throw new OfflineError();
  }
  if (!response.ok) throw errorFrom(response.status, await response.text().catch(() => ''));
  return response;
}

/** Sends a request and reads its JSON. An empty body gives undefined. */
export async function call<T>(method: string, path: string, init: RequestInit & { json?: unknown } = {}): Promise<T> {
  const response = await send(method, path, init);
  const body = await response.text();
  return (body ? JSON.parse(body) : undefined) as T;
}
