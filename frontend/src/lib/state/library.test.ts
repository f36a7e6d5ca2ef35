import { afterEach, describe, expect, it, vi } from 'vitest';
import { optional } from '../api/http';
import { cardSentence, contextLength } from '../words';
import { libraryState, Pull } from './library.svelte';
import { models } from './models.svelte';

afterEach(() => vi.unstubAllGlobals());

/** Answers requests by "METHOD path"; 501 for others. Returns what was asked. */
function listener(routes: { [route: string]: () => Response }) {
  const asked: string[] = [];
  vi.stubGlobal('fetch', async (path: string, init: RequestInit) => {
    const key = `${init.method} ${path}`;
    asked.push(key);
    return routes[key]?.() ?? new Response('{"error":"not supported yet"}', { status: 501 });
  });
  return asked;
}

const json = (value: unknown) =>
  new Response(JSON.stringify(value), { headers: { 'Content-Type': 'application/json; charset=utf-8' } });
const frames = (...lines: object[]) => new Response(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));

describe('a pull', () => {
  it('adds up the files and never goes back', () => {
    const pull = new Pull('m');
    const seen: number[] = [];
    for (const [digest, completed] of [
      ['a', 10],
      ['b', 0],
      ['a', 90],
      ['b', 50],
      ['a', 20],
    ] as const) {
      pull.take({ status: 'pulling', digest, total: 100, completed });
      seen.push(pull.completed);
    }
    expect(seen).toEqual([10, 10, 90, 140, 140]);
    expect(pull.total).toBe(200);
    pull.take({ status: 'verifying sha256 digest' });
    expect(pull.status).toBe('verifying sha256 digest');
  });

  it('is done with success, and failed with an error or without an end', async () => {
    listener({ 'POST /api/pull': () => frames({ status: 'pulling manifest' }, { status: 'success' }) });
    const done = new Pull('m');
    expect(await done.run()).toBe(true);
    listener({ 'POST /api/pull': () => frames({ status: 'pulling manifest' }, { error: 'no space' }) });
    const failed = new Pull('m');
    expect(await failed.run()).toBe(false);
    expect(failed.error).toBe('no space');
    listener({ 'POST /api/pull': () => frames({ status: 'pulling manifest' }) });
    const cut = new Pull('m');
    await cut.run();
    expect(cut.error).toContain('before the model was there');
  });
});

it('takes what a build does not have for absent, and a refusal for one', async () => {
  listener({
    'GET /ui/downloads': () => new Response('<!doctype html>', { headers: { 'Content-Type': 'text/html' } }),
    'GET /ui/disk': () => json({ free: 1 }),
    'GET /api/search': () => new Response('{"error":"the hub cannot be reached"}', { status: 503 }),
  });
  expect(await optional('GET', '/ui/downloads')).toBeUndefined();
  expect(await optional('GET', '/api/models/known')).toBeUndefined();
  expect(await optional('GET', '/ui/disk')).toEqual({ free: 1 });
  await expect(optional('GET', '/api/search')).rejects.toThrow('cannot be reached');
});

it('shows no control for what the build cannot do', async () => {
  const asked = listener({
    'DELETE /api/delete': () => new Response('{"error":"name is invalid"}', { status: 400 }),
    'GET /api/models/known': () => json({ models: [{ name: 'qwen3:8b' }] }),
  });
  await libraryState.discover();
  expect([libraryState.canPull, libraryState.canRemove]).toEqual([false, true]);
  expect(libraryState.known?.map((k) => k.name)).toEqual(['qwen3:8b']);
  const before = asked.length;
  await libraryState.discover();
  expect(asked).toHaveLength(before);
});

it.each([
  [{ quarantined: 'it said “!!!”', loads: true }, 'Kept off this device: it said “!!!”'],
  [{ load_error: 'out of memory' }, 'Did not load: out of memory'],
  [{ assumed: true, prompt_limit: 1024 }, 'Not tried yet; prompts up to 1,024 tokens'],
  [{ loads: true, prompt_limit: 1024, verdict: 'right' }, 'Prompts up to 1,024 tokens; known answers came out right'],
  [{ loads: true }, 'Runs'],
])('a card %j says %j', (card, text) => {
  expect(cardSentence({ model: 'm', device: 'npu:0', label: 'NPU', ...card })).toBe(text);
});

it('finds the context length whatever the architecture is called', () => {
  expect(contextLength({ model_info: { 'qwen3.context_length': 40960, 'general.architecture': 'qwen3' } })).toBe(40960);
  expect(contextLength({ model_info: { 'qwen3.context_length': 0 } })).toBeUndefined();
  expect(contextLength(undefined)).toBeUndefined();
});

it('offers no damaged model to chat with', () => {
  const model = (name: string, more: object) => ({ name, size: 1, digest: '', modified_at: '', ...more });
  models.all = [
    model('away', { capabilities: [], damaged: 'The folder with its files is not there.' }),
    model('embedder', { capabilities: ['embedding'] }),
    model('fine', { capabilities: ['completion'] }),
  ];
  expect(models.chat.map((m) => m.name)).toEqual(['fine']);
  expect(models.pick('away')).toBe('fine');
});
