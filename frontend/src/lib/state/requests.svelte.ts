import { SvelteMap } from 'svelte/reactivity';
import * as backend from '../api/backend';
import type { Entry } from '../api/types';
import { running } from '../words';

const pageSize = 100;

export type OutcomeFilter = 'all' | 'running' | 'completed' | 'cancelled' | 'failed';

/**
 * All requests the page knows: live ones from the events, older ones by page. Events are put in at most once per animation
 * frame, so a hundred busy clients cost one redraw.
 */
class RequestsState {
  /** Newest first. */
  list = $state.raw<Entry[]>([]);
  more = $state(false);
  loading = $state(false);
  error = $state('');
  client = $state('');
  outcome = $state<OutcomeFilter>('all');
  /** When a running request entered its state or phase, as this page saw it. */
  readonly since = new SvelteMap<string, number>();

  private readonly byId = new Map<string, Entry>();
  private incoming: Entry[] = [];
  private scheduled = false;
  private listeners = new Set<(entry: Entry) => void>();

  clients = $derived([...new Set(this.list.map((entry) => clientName(entry)))].sort());
  shown = $derived(
    this.list.filter((entry) => (!this.client || clientName(entry) === this.client) && matches(entry, this.outcome)),
  );

  get(traceId: string): Entry | undefined {
    return this.list.find((entry) => entry.trace_id === traceId);
  }

  /** Calls heard with each entry that the events bring, until the returned function is called. */
  listen(heard: (entry: Entry) => void): () => void {
    this.listeners.add(heard);
    return () => this.listeners.delete(heard);
  }

  receive(entry: Entry): void {
    this.incoming.push(entry);
    for (const heard of this.listeners) heard(entry);
    if (this.scheduled) return;
    this.scheduled = true;
    // No frames come while the page is hidden; rows must not pile up for ever.
    if (document.hidden) setTimeout(() => this.apply(), 250);
    else requestAnimationFrame(() => this.apply());
  }

  private apply(): void {
    this.scheduled = false;
    const entries = this.incoming;
    this.incoming = [];
    this.merge(entries);
  }

  /** First page, again after a lost connection: what ended meanwhile sent no event. */
  async refresh(): Promise<void> {
    this.loading = true;
    try {
      const page = await backend.requests(pageSize);
      // A page that does not reach what was known leaves a hole: begin anew.
      const newest = this.list[0];
      const joins = !newest || !page.more || page.requests.some((entry) => entry.trace_id === newest.trace_id);
      if (!joins) this.byId.clear();
      this.merge(page.requests);
      if (!newest || !joins) this.more = page.more;
      this.error = '';
    } catch (err) {
      this.error = (err as Error).message;
    } finally {
      this.loading = false;
    }
  }

  async loadMore(): Promise<void> {
    const oldest = this.list[this.list.length - 1];
    if (this.loading || !this.more || !oldest) return;
    this.loading = true;
    try {
      const page = await backend.requests(pageSize, oldest.started_at);
      const before = this.list.length;
      this.merge(page.requests);
      this.more = page.more && this.list.length > before;
      this.error = '';
    } catch (err) {
      this.error = (err as Error).message;
    } finally {
      this.loading = false;
    }
  }

  private merge(entries: Entry[]): void {
    let added = false;
    const now = Date.now();
    for (const entry of entries) {
      const known = this.byId.get(entry.trace_id);
      // A page that was read before the end arrives after it.
      if (known && !running(known) && running(entry)) continue;
      added ||= !known;
      this.byId.set(entry.trace_id, entry);
      if (!running(entry)) this.since.delete(entry.trace_id);
      else if (!known || known.state !== entry.state || known.phase !== entry.phase)
        this.since.set(entry.trace_id, now);
    }
    const list = added ? [...this.byId.values()] : this.list.map((entry) => this.byId.get(entry.trace_id) ?? entry);
    if (added) list.sort((a, b) => Date.parse(b.started_at) - Date.parse(a.started_at));
    this.list = list;
  }
}

/** The client as a short name: what the server found out, else the first word of its User-Agent. */
export function clientName(entry: Entry): string {
  return entry.client || entry.user_agent?.split(/[/ ]/)[0] || 'unknown';
}

function matches(entry: Entry, filter: OutcomeFilter): boolean {
  switch (filter) {
    case 'all':
      return true;
    case 'running':
      return running(entry);
    case 'completed':
      return entry.outcome === 'completed' || entry.outcome === 'length';
    case 'cancelled':
      return entry.outcome === 'cancelled';
    case 'failed':
      return entry.outcome === 'error' || entry.outcome === 'timeout' || entry.outcome === 'rejected';
  }
}

export const requests = new RequestsState();
