import type { Entry, Status } from './types';

export interface EventHandlers {
  status(status: Status): void;
  request(entry: Entry): void;
  /** up: true with the first event of a connection, false when it was lost. */
  connection(up: boolean): void;
}

const pauses = [500, 1000, 2000, 4000, 8000];

/**
 * Follows the listener's events until close() is called, and connects again when they end. EventSource's own retry gives up for
 * ever after an answer that is not 200 (a restarted listener, a proxy), so each attempt is a new one.
 */
export function follow(handlers: EventHandlers): { close(): void; retry(): void } {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let failures = 0;
  let closed = false;

  function connect() {
    clearTimeout(timer);
    source?.close();
    const current = new EventSource('/ui/events');
    source = current;
    const on = <T>(name: string, handle: (data: T) => void) =>
      current.addEventListener(name, (event) => {
        if (current !== source) return;
        failures = 0;
        handlers.connection(true);
        handle(JSON.parse((event as MessageEvent<string>).data) as T);
      });
    on<Status>('status', handlers.status);
    on<Entry>('request', handlers.request);
    current.onerror = () => {
      if (current !== source) return;
      current.close();
      handlers.connection(false);
      if (closed) return;
      timer = setTimeout(connect, pauses[Math.min(failures++, pauses.length - 1)]);
    };
  }

  connect();
  return {
    close() {
      closed = true;
      clearTimeout(timer);
      source?.close();
    },
    retry() {
      failures = 0;
      connect();
    },
  };
}
