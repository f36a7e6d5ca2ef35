export type Route =
  | { view: 'chat'; id: string }
  | { view: 'requests'; traceId: string }
  | { view: 'models'; name: string }
  | { view: 'connect'; client: string }
  | { view: 'settings' };

/** Reads the part after #: "", chat/ID, requests, requests/TRACE, models, models/NAME, connect, connect/CLIENT, settings. */
export function parseRoute(hash: string): Route {
  const [view = '', id = ''] = hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  if (view === 'requests') return { view, traceId: id };
  if (view === 'models') return { view, name: id };
  if (view === 'connect') return { view, client: id };
  if (view === 'settings') return { view };
  return { view: 'chat', id: view === 'chat' ? id : '' };
}

class RouteState {
  current = $state.raw<Route>(parseRoute(location.hash));
  /** Grows with each wish for a new chat, also when an empty one is open: its box takes the focus. */
  fresh = $state(0);

  private hash = location.hash;

  constructor() {
    addEventListener('hashchange', () => this.follow());
  }

  go(path: string): void {
    location.hash = `#/${path}`;
    this.follow();
  }

  /** The event comes a moment after our own change: the same address is no new one, and what is typed meanwhile stays. */
  private follow(): void {
    if (location.hash === this.hash) return;
    this.hash = location.hash;
    this.current = parseRoute(this.hash);
  }

  newChat(): void {
    this.go('');
    this.fresh++;
  }

  /** Gives the open new chat its address without a step in the history. */
  rename(path: string): void {
    history.replaceState(null, '', `#/${path}`);
    this.follow();
  }
}

export const route = new RouteState();
