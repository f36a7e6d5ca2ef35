import { describe, expect, it } from 'vitest';
import { readNDJSON } from './ndjson';

const bytes = new TextEncoder();

function streamOf(...chunks: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

async function all(stream: ReadableStream<Uint8Array>): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const line of readNDJSON(stream)) found.push(line);
  return found;
}

describe('readNDJSON', () => {
  const lines = [{ t: '🌍👩‍👩‍👧é漢字' }, { t: 'a\nb "q" \\' }, { done: true }];
  const whole = bytes.encode(lines.map((line) => JSON.stringify(line)).join('\n') + '\n');

  it('reads the same lines however the bytes are split', async () => {
    for (let at = 0; at <= whole.length; at++) {
      expect(await all(streamOf(whole.slice(0, at), whole.slice(at))), `split at byte ${at}`).toEqual(lines);
    }
  });

  it('reads bytes that come one at a time', async () => {
    expect(await all(streamOf(...Array.from(whole, (byte) => Uint8Array.of(byte))))).toEqual(lines);
  });

  it('reads a last line without a newline, and skips empty ones', async () => {
    expect(await all(streamOf(bytes.encode('\n{"a":1}\n\r\n{"b":2}')))).toEqual([{ a: 1 }, { b: 2 }]);
  });

  it('fails on a line that is not JSON and shows its beginning', async () => {
    await expect(all(streamOf(bytes.encode('{"a":1}\n<html>oops\n')))).rejects.toThrow('<html>oops');
  });

  it('cancels the stream when its reader leaves early', async () => {
    let cancelled = false;
    const stream = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(bytes.encode('{"a":1}\n')),
      cancel: () => {
        cancelled = true;
      },
    });
    for await (const line of readNDJSON(stream)) {
      expect(line).toEqual({ a: 1 });
      break;
    }
    expect(cancelled).toBe(true);
  });
});
