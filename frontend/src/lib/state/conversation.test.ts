import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Chat } from '../api/types';
import { Conversation, Message, titleFrom } from './conversation.svelte';
import { requests } from './requests.svelte';

/** The listener, as one function: answers chats from a script and keeps what is saved. */
function listener(script: string[] | (() => ReadableStream<Uint8Array>), status = 200) {
  const saved: Chat[] = [];
  const asked: { model: string; messages: { role: string; content: string }[] }[] = [];
  vi.stubGlobal('fetch', async (path: string, init: RequestInit) => {
    if (path.startsWith('/ui/chats/')) {
      saved.push(JSON.parse(String(init.body)));
      return new Response(null, { status: 204 });
    }
    asked.push(JSON.parse(String(init.body)));
    const body = Array.isArray(script) ? script.map((line) => `${line}\n`).join('') : script();
    return new Response(body, { status });
  });
  return { saved, asked };
}

const piece = (text: string) => JSON.stringify({ message: { content: text }, done: false });
const done =
  '{"message":{"content":""},"done":true,"done_reason":"stop","llmeu":{"trace_id":"t","outcome":"completed"}}';

beforeEach(() => vi.stubGlobal('requestAnimationFrame', (run: () => void) => setTimeout(run)));
afterEach(() => vi.unstubAllGlobals());

describe('Conversation', () => {
  it('streams an answer, keeps its record, and saves both turns', async () => {
    const { saved } = listener([piece('Hel'), piece('lo'), done]);
    const c = new Conversation('c1');
    await c.send('Say hello\nplease', { model: 'm' });
    expect(c.messages.map((m) => [m.role, m.content])).toEqual([
      ['user', 'Say hello\nplease'],
      ['assistant', 'Hello'],
    ]);
    expect(c.messages[1]?.record?.trace_id).toBe('t');
    expect(c.title).toBe('Say hello');
    expect(saved.at(-1)?.messages).toHaveLength(2);
  });

  it('keeps the partial text of a failed answer and does not send it again as a whole one', async () => {
    listener([piece('Half'), '{"error":"the engine ended"}']);
    const c = new Conversation('c1');
    await c.send('x', { model: 'm' });
    expect(c.messages[1]).toMatchObject({ content: 'Half', error: 'the engine ended', streaming: false });
    const { asked } = listener([piece('Whole'), done]);
    await c.regenerate({ model: 'm' });
    expect(asked[0]?.messages).toEqual([{ role: 'user', content: 'x' }]);
    expect(c.messages).toHaveLength(2);
    expect(c.messages[1]).toMatchObject({ content: 'Whole', error: '' });
  });

  it('keeps thoughts and tool calls beside the answer, and sends neither again', async () => {
    const think = (thinking: string) => JSON.stringify({ message: { content: '', thinking }, done: false });
    const call = { id: 'c', function: { name: 'read', arguments: { path: 'a' } } };
    const { saved } = listener([
      think('Two and '),
      think('two.'),
      piece('Four'),
      JSON.stringify({ message: { content: '', tool_calls: [call] }, done: false }),
      done,
    ]);
    const c = new Conversation('c1');
    await c.send('2+2', { model: 'm' });
    expect(c.messages[1]).toMatchObject({ thinking: 'Two and two.', content: 'Four' });
    expect(c.messages[1]?.thoughtMs).toBeGreaterThanOrEqual(0);
    const kept = saved.at(-1)?.messages[1];
    expect(kept).toMatchObject({ thinking: 'Two and two.', tool_calls: [{ name: 'read', arguments: { path: 'a' } }] });
    expect(new Message(kept!).thoughtMs).toBeUndefined();
    const { asked } = listener([done]);
    await c.send('and?', { model: 'm' });
    expect(asked[0]?.messages[1]).toEqual({ role: 'assistant', content: 'Four' });
  });

  it('keeps an answer that was stopped while the model thought', async () => {
    const { saved } = listener(['{"message":{"thinking":"Hm"}}', '{"error":"the engine ended"}']);
    const c = new Conversation('c1');
    await c.send('x', { model: 'm' });
    expect(c.messages[1]?.thoughtMs).not.toBeNull();
    expect(saved.at(-1)?.messages[1]).toMatchObject({ content: '', thinking: 'Hm' });
  });

  it('marks a stopped answer and keeps its text', async () => {
    const c = new Conversation('c1');
    listener(() => {
      let n = 0;
      return new ReadableStream({
        pull(controller) {
          if (n++ === 0) controller.enqueue(new TextEncoder().encode(`${piece('Begin')}\n`));
          else {
            c.stop();
            controller.error(new DOMException('aborted', 'AbortError'));
          }
        },
      });
    });
    await c.send('x', { model: 'm' });
    expect(c.messages[1]).toMatchObject({ content: 'Begin', stopped: true, error: '' });
  });

  it('drops what came after an edited message', async () => {
    listener([piece('One'), done]);
    const c = new Conversation('c1');
    await c.send('first', { model: 'm' });
    await c.send('second', { model: 'm' });
    await c.edit(c.messages[0]!, 'other', { model: 'm' });
    expect(c.messages.map((m) => m.content)).toEqual(['other', 'One']);
  });

  it('says on screen that it could not be saved, and goes on', async () => {
    listener([piece('One'), done]);
    const stubbed = globalThis.fetch;
    vi.stubGlobal('fetch', (path: string, init: RequestInit) =>
      path.startsWith('/ui/chats/')
        ? Promise.resolve(new Response('{"error":"disk full"}', { status: 500 }))
        : stubbed(path, init),
    );
    const c = new Conversation('c1');
    await c.send('first', { model: 'm' });
    expect(c.saveError).toBe('disk full');
    expect(c.messages[1]?.content).toBe('One');
  });

  it('follows its own live row, and no other', async () => {
    let id = '';
    vi.stubGlobal('fetch', async (path: string, init: RequestInit) => {
      if (path.startsWith('/ui/chats/')) return new Response(null, { status: 204 });
      id = new Headers(init.headers).get('X-Request-ID') ?? '';
      return new Promise<Response>(() => {});
    });
    const c = new Conversation('c1');
    void c.send('x', { model: 'm' });
    await vi.waitFor(() => expect(id).not.toBe(''), 30_000);
    const base = { started_at: new Date().toISOString(), route: '/api/chat', model_asked: 'm', user_agent: 'other' };
    requests.receive({ ...base, trace_id: 'foreign', state: 'decoding' });
    expect(c.live).toBeUndefined();
    requests.receive({ ...base, trace_id: id, state: 'queued', position: 2 });
    expect(c.live?.position).toBe(2);
  });

  it('asks for the record of a failed answer when no event brought it', async () => {
    let id = '';
    vi.useFakeTimers();
    try {
      vi.stubGlobal('fetch', async (path: string, init: RequestInit) => {
        if (path.startsWith('/ui/chats/')) return new Response(null, { status: 204 });
        if (path === `/ui/requests/${id}`)
          return new Response(JSON.stringify({ trace_id: id, state: 'done', outcome: 'rejected' }));
        id = new Headers(init.headers).get('X-Request-ID') ?? '';
        return new Response('{"error":"no"}', { status: 400 });
      });
      const c = new Conversation('c1');
      await c.send('x', { model: 'm' });
      expect(c.messages[1]).toMatchObject({ error: 'no', record: undefined });
      await vi.advanceTimersByTimeAsync(1000);
      expect(c.messages[1]?.record?.outcome).toBe('rejected');
    } finally {
      vi.useRealTimers();
    }
  });
});

it.each([
  ['  Hello\nworld', 'Hello'],
  ['', 'New chat'],
  ['x'.repeat(80), `${'x'.repeat(59)}…`],
])('title of %j is %j', (text, title) => expect(titleFrom(text)).toBe(title));
