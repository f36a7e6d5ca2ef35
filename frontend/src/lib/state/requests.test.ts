import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Entry } from '../api/types';
import { visibleRange } from '../../features/requests/windowing';
import { requests } from './requests.svelte';

const entry = (id: string, second: number, more: Partial<Entry> = {}): Entry => ({
  trace_id: id,
  state: 'decoding',
  client: 'curl',
  started_at: new Date(1_800_000_000_000 + second * 1000).toISOString(),
  ...more,
});

beforeEach(() => {
  vi.stubGlobal('requestAnimationFrame', (run: () => void) => run());
});

describe('requests', () => {
  it('keeps rows newest first, once each, and never goes back to a state before the end', () => {
    requests.receive(entry('a', 1));
    requests.receive(entry('c', 3));
    requests.receive(entry('b', 2));
    requests.receive(entry('b', 2, { state: 'done', outcome: 'completed' }));
    requests.receive(entry('b', 2, { tokens_so_far: 5 }));
    expect(requests.list.map((e) => e.trace_id)).toEqual(['c', 'b', 'a']);
    expect(requests.get('b')?.outcome).toBe('completed');
  });

  it('filters by client and outcome', () => {
    requests.receive(entry('z', 9, { client: 'Zed', state: 'done', outcome: 'error' }));
    requests.client = 'Zed';
    expect(requests.shown.map((e) => e.trace_id)).toEqual(['z']);
    requests.client = '';
    requests.outcome = 'failed';
    expect(requests.shown.map((e) => e.trace_id)).toEqual(['z']);
    requests.outcome = 'running';
    expect(requests.shown.map((e) => e.trace_id)).toEqual(['c', 'a']);
    requests.outcome = 'all';
  });

  it('asks the journal for what fits, page by page, without a hole in the whole list', async () => {
    const asked: URLSearchParams[] = [];
    vi.stubGlobal('fetch', async (path: string) => {
      const query = new URLSearchParams(path.split('?')[1]);
      asked.push(query);
      const old = query.get('before') ? entry('old-1', -20, done) : entry('old-2', -10, done);
      return new Response(JSON.stringify({ requests: [old], more: !query.get('before') }));
    });
    const done = { client: 'Zed', state: 'done', outcome: 'completed', model_used: 'm' } as const;
    requests.model = 'm';
    requests.text = ' zed ';
    await requests.find();
    expect(Object.fromEntries(asked[0]!)).toEqual({ limit: '100', model: 'm', q: 'zed' });
    expect(requests.shown.map((e) => e.trace_id)).toEqual(['old-2']);
    expect(requests.hasMore).toBe(true);
    await requests.loadMore();
    expect(asked[1]!.get('before')).toBe(entry('', -10).started_at);
    expect(requests.shown.map((e) => e.trace_id)).toEqual(['old-2', 'old-1']);
    expect(requests.get('old-1')?.model_used).toBe('m');
    expect(requests.hasMore).toBe(false);
    requests.clearFilter();
    expect(requests.shown.map((e) => e.trace_id)).toEqual(['z', 'c', 'b', 'a']);
  });

  it('finds words in the decision and the error, as the journal does', () => {
    requests.receive(entry('y', 12, { route_reason: 'The prompt is longer than the NPU takes.' }));
    requests.text = 'LONGER than';
    expect(requests.shown.map((e) => e.trace_id)).toEqual(['y']);
    requests.clearFilter();
  });
});

it.each([
  [0, 380, 10_000, 0, 18],
  [38_000, 380, 10_000, 992, 1018],
  [379_620, 380, 10_000, 9982, 10_000],
  [0, 380, 3, 0, 3],
  [9999, 380, 3, 3, 3],
])('at %d px of %d rows are %#', (top, height, total, first, end) => {
  expect(visibleRange(top, height, 38, total)).toEqual({ first, end });
});
