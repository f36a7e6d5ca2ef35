import { SvelteMap } from 'svelte/reactivity';
import * as backend from '../api/backend';
import type { Entry, RequestFilter } from '../api/types';
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
  model = $state('');
  device = $state('');
  text = $state('');
  /** The rule that decided, or the reason of a fallback. */
  reason = $state('');
  /** Not older than so many hours; 0: of any age. */
  hours = $state(0);
  outcome = $state<OutcomeFilter>('all');
  /** What the journal has beyond the list for the filter that is set. */
  private found = $state.raw<Entry[]>([]);
  private foundMore = $state(false);
  private foundFor = $state('');
  /** When a running request entered its state or phase, as this page saw it. */
  readonly since = new SvelteMap<string, number>();

  private readonly byId = new Map<string, Entry>();
  private incoming: Entry[] = [];
  private scheduled = false;
  private listeners = new Set<(entry: Entry) => void>();

  clients = $derived(distinct(this.list, clientName));
  models = $derived(distinct(this.list, (entry) => entry.model_used || entry.model_asked || ''));
  devices = $derived(distinct(this.list, (entry) => entry.execution_device || ''));
  reasons = $derived(distinct(this.list, (entry) => entry.route_rule || ''));
  /** The moment that hours began when it was chosen: one that moves would ask the journal again and again. */
  private sinceThen = $derived(this.hours ? new Date(Date.now() - this.hours * 3_600_000).toISOString() : '');

  /** The filter as the journal knows it: outcomes in groups are for the page. */
  filter = $derived<RequestFilter>({
    client: this.client,
    model: this.model,
    device: this.device,
    q: this.text.trim(),
    outcome: this.outcome === 'cancelled' ? 'cancelled' : '',
    reason: this.reason,
    since: this.sinceThen,
  });
  /** The journal is asked for what fits, page by page. */
  narrowed = $derived(Object.values(this.filter).some((value) => value !== ''));
  filtered = $derived(this.narrowed || this.outcome !== 'all');
  shown = $derived.by(() => {
    if (!this.filtered) return this.list;
    const fits = this.list.filter((entry) => this.matches(entry));
    if (!this.narrowed || this.foundFor !== JSON.stringify(this.filter)) return fits;
    const known = new Set(fits.map((entry) => entry.trace_id));
    const older = this.found.filter((entry) => !known.has(entry.trace_id) && matches(entry, this.outcome));
    return [...fits, ...older].sort(newestFirst);
  });
  hasMore = $derived(this.narrowed ? this.foundMore : this.more);

  get(traceId: string): Entry | undefined {
    return (
      this.list.find((entry) => entry.trace_id === traceId) ?? this.found.find((entry) => entry.trace_id === traceId)
    );
  }

  private matches(entry: Entry): boolean {
    const { client, model, device, reason, since, q = '' } = this.filter;
    return (
      (!client || clientName(entry) === client) &&
      (!model || entry.model_used === model || entry.model_asked === model) &&
      (!device || entry.execution_device === device || entry.endpoint_id === device) &&
      (!reason || entry.route_rule === reason || entry.fallback_reason === reason) &&
      (!since || Date.parse(entry.started_at) >= Date.parse(since)) &&
      matches(entry, this.outcome) &&
      (!q || searched(entry).includes(q.toLowerCase()))
    );
  }

  clearFilter(): void {
    [this.client, this.model, this.device, this.text, this.reason, this.hours] = ['', '', '', '', '', 0];
    this.outcome = 'all';
  }

  /** Asks the journal for what fits the filter; older adds the next page to it. */
  async find(older = false): Promise<void> {
    const wanted = JSON.stringify(this.filter);
    if (!older) [this.found, this.foundMore, this.foundFor] = [[], false, wanted];
    if (!this.narrowed) return;
    const before = older ? this.found[this.found.length - 1]?.started_at : undefined;
    this.loading = true;
    try {
      const page = await backend.requests(pageSize, before, this.filter);
      if (this.foundFor !== wanted) return;
      this.found = [...this.found, ...page.requests];
      this.foundMore = page.more && page.requests.length > 0;
      this.error = '';
    } catch (err) {
      this.error = (err as Error).message;
    } finally {
      this.loading = false;
    }
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
    if (this.narrowed) return this.find(true);
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
    if (added) list.sort(newestFirst);
    this.list = list;
  }
}

/** The client as a short name: what the server found out, else the first word of its User-Agent. */
export function clientName(entry: Entry): string {
  return entry.client || entry.user_agent?.split(/[/ ]/)[0] || 'unknown';
}

const newestFirst = (a: Entry, b: Entry) => Date.parse(b.started_at) - Date.parse(a.started_at);

const distinct = (list: Entry[], of: (entry: Entry) => string) =>
  [...new Set(list.map(of))].filter((value) => value !== '').sort();

/** Where words are looked for: as the journal does. */
const searched = (entry: Entry) =>
  [
    clientName(entry),
    entry.model_used,
    entry.model_asked,
    entry.route,
    entry.execution_device,
    entry.route_reason,
    entry.error,
    entry.trace_id,
  ]
    .join('\n')
    .toLowerCase();

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
