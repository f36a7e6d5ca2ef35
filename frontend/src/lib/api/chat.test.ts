import { afterEach, describe, expect, it, vi } from 'vitest';
import { streamChat, type ChatPiece } from './chat';
import { ApiError, OfflineError } from './http';

const request = { model: 'm', messages: [{ role: 'user' as const, content: 'hi' }] };

function answer(body: string, init?: ResponseInit) {
  const fetched = vi.fn<typeof fetch>(async () => new Response(body, init));
  vi.stubGlobal('fetch', fetched);
  return fetched;
}

async function pieces(more: object = {}): Promise<ChatPiece[]> {
  const found: ChatPiece[] = [];
  for await (const piece of streamChat({ ...request, ...more }, new AbortController().signal)) found.push(piece);
  return found;
}

afterEach(() => vi.unstubAllGlobals());

describe('streamChat', () => {
  it('gives the pieces and the record of the last line', async () => {
    answer(
      '{"message":{"content":"Hel"},"done":false}\n{"message":{"content":"lo"},"done":false}\n' +
        '{"message":{"content":""},"done":true,"done_reason":"length","llmeu":{"trace_id":"t"}}\n',
    );
    expect(await pieces()).toEqual([
      { text: 'Hel', thinking: '', toolCalls: [] },
      { text: 'lo', thinking: '', toolCalls: [] },
      { text: '', thinking: '', toolCalls: [], done: { reason: 'length', record: { trace_id: 't' } } },
    ]);
  });

  it('gives thoughts and tool calls', async () => {
    answer(
      '{"message":{"thinking":"Hm"}}\n{"message":{"content":"","tool_calls":[{"id":"c","function":{"index":0,"name":"read",' +
        '"arguments":{"path":"a"}}},{"function":{"name":"stop"}}]}}\n{"done":true}\n',
    );
    const found = await pieces();
    expect(found[0]?.thinking).toBe('Hm');
    expect(found[1]?.toolCalls).toEqual([
      { name: 'read', arguments: { path: 'a' } },
      { name: 'stop', arguments: {} },
    ]);
  });

  it('asks for a device only when one is pinned', async () => {
    const fetched = answer('{"done":true}\n');
    await pieces();
    await pieces({ device: 'npu' });
    const bodies = fetched.mock.calls.map(([, init]) => JSON.parse(String(init?.body)));
    expect(bodies[0]).not.toHaveProperty('options');
    expect(bodies[1].options).toEqual({ device: 'npu' });
  });

  it('refuses an answer that ends without its last line', async () => {
    answer('{"message":{"content":"Hel"},"done":false}\n');
    await expect(pieces()).rejects.toThrow('cut off');
  });

  it('fails with the words of an error in the middle', async () => {
    answer('{"message":{"content":"Hel"},"done":false}\n{"error":"the engine ended: try again"}\n');
    await expect(pieces()).rejects.toThrow('the engine ended: try again');
  });

  it.each([
    ['{"error":"model \'x\' not found"}', "model 'x' not found", ''],
    ['{"error":{"message":"no NPU","hint":"pin the CPU"}}', 'no NPU', 'pin the CPU'],
    ['404 page not found', '404 page not found', ''],
    ['', 'The server answered 404 without a reason.', ''],
  ])('reads the refusal %s', async (body, message, hint) => {
    answer(body, { status: 404 });
    const err = await pieces().catch((e: unknown) => e);
    expect(err).toBeInstanceOf(ApiError);
    expect(err).toMatchObject({ status: 404, message, hint });
  });

  it('says when nobody answers', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
    await expect(pieces()).rejects.toBeInstanceOf(OfflineError);
  });
});
