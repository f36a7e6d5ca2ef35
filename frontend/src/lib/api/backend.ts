// The listener's JSON endpoints, one function each.
import { ApiError, call, errorFromJSON, send } from './http';
import { readNDJSON } from './ndjson';
import type {
  Chat,
  ChatSummary,
  Connect,
  Entry,
  Explanation,
  Model,
  ReplayLine,
  RequestFilter,
  Rule,
  Settings,
  Status,
  Totals,
} from './types';

export const status = () => call<Status>('GET', '/ui/status');

export const setServer = (running: boolean) => call<Status>('POST', '/ui/server', { json: { running } });

export const settings = () => call<Settings>('GET', '/ui/settings');

/** Saves and returns what is in force afterwards. */
export async function saveSettings(next: Settings): Promise<Settings> {
  return (await call<Settings | undefined>('PUT', '/ui/settings', { json: next })) ?? settings();
}

export async function models(): Promise<Model[]> {
  return (await call<{ models: Model[] | null }>('GET', '/api/tags')).models ?? [];
}

/** How clients are connected; with the settings for one model, or for that of new chats. */
export const connect = (model = '') =>
  call<Connect>('GET', `/ui/connect${model ? `?${new URLSearchParams({ model })}` : ''}`);

export async function chats(): Promise<ChatSummary[]> {
  return (await call<{ chats: ChatSummary[] | null }>('GET', '/ui/chats')).chats ?? [];
}

export async function chat(id: string): Promise<Chat> {
  const found = await call<Chat>('GET', `/ui/chats/${encodeURIComponent(id)}`);
  return { ...found, messages: found.messages ?? [] };
}

/** keepalive lets the save outlive the page, for small chats: browsers cap such bodies at 64 KiB. */
export const saveChat = (c: Chat, keepalive = false) =>
  send('PUT', `/ui/chats/${encodeURIComponent(c.id)}`, { json: c, keepalive });

export const deleteChat = (id: string) => send('DELETE', `/ui/chats/${encodeURIComponent(id)}`);

/** The filter as a query, without what is empty. */
const narrowed = (filter: RequestFilter) => Object.fromEntries(Object.entries(filter).filter(([, value]) => value));

export async function requests(
  limit: number,
  before?: string,
  filter: RequestFilter = {},
): Promise<{ requests: Entry[]; more: boolean }> {
  const query = new URLSearchParams({ limit: String(limit), ...(before ? { before } : {}), ...narrowed(filter) });
  const page = await call<{ requests: Entry[] | null; more?: boolean }>('GET', `/ui/requests?${query}`);
  return { requests: page.requests ?? [], more: page.more ?? false };
}

export const cancelRequest = (traceId: string) => send('POST', `/ui/requests/${encodeURIComponent(traceId)}/cancel`);

export const request = (traceId: string) => call<Entry>('GET', `/ui/requests/${encodeURIComponent(traceId)}`);

/** What was used since a moment. */
export const totals = (since: Date) => call<Totals>('GET', `/ui/requests/totals?since=${since.toISOString()}`);

export const exportPath = (format: 'jsonl' | 'csv', filter: RequestFilter) =>
  `/ui/requests/export?${new URLSearchParams({ format, ...narrowed(filter) })}`;

/** Whether the prompt of a request was kept, so that it can be run again. */
export async function bodyKept(traceId: string): Promise<boolean> {
  try {
    await send('GET', `/ui/requests/${encodeURIComponent(traceId)}/body`);
    return true;
  } catch (err) {
    if (err instanceof ApiError && err.status === 404) return false;
    throw err;
  }
}

/**
 * Runs a request again on a device: what was kept of it comes first, then the new answer piece by piece, at last the whole of it.
 * Throws when the answer breaks off before that.
 */
export async function* replay(traceId: string, device: string, signal: AbortSignal): AsyncGenerator<ReplayLine> {
  const path = `/ui/requests/${encodeURIComponent(traceId)}/replay`;
  const response = await send('POST', path, { json: { device }, signal });
  for await (const line of readNDJSON(response.body!)) {
    const failed = errorFromJSON(200, line);
    if (failed) throw failed;
    yield line as ReplayLine;
    if ((line as ReplayLine).replay) return;
  }
  throw new Error('The answer was cut off: the connection ended before its last line.');
}

/** The routing rules in order, with what the settings say. */
export const rules = async () => (await call<{ rules: Rule[] | null }>('GET', '/ui/rules')).rules ?? [];

/** Says where a message would run, without running it. */
export const explain = (model: string, prompt: string, device: string) =>
  call<Explanation>('POST', '/api/route/explain', {
    json: { model, messages: [{ role: 'user', content: prompt }], ...(device ? { options: { device } } : {}) },
  });
