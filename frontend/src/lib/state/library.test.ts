import { afterEach, expect, it, vi } from 'vitest';
import { cardSentence, contextLength } from '../words';
import { libraryState } from './library.svelte';
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

it('asks once for what hardly changes, and again where nobody answered', async () => {
  listener({});
  await libraryState.discover();
  expect(libraryState.known).toBeUndefined();
  const asked = listener({
    'GET /api/models/known': () => json({ models: [{ name: 'qwen3:8b' }] }),
    'GET /ui/hub': () => json({ endpoint: 'https://hub.example' }),
  });
  await libraryState.discover();
  expect(libraryState.known?.map((k) => k.name)).toEqual(['qwen3:8b']);
  expect(libraryState.source?.endpoint).toBe('https://hub.example');
  await libraryState.discover();
  expect(asked).toHaveLength(2);
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
