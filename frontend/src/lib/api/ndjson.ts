/**
 * Reads newline-delimited JSON. Chunks end anywhere, also inside a UTF-8 character, so bytes are decoded as a stream and
 * only whole lines are parsed. A last line without a newline counts; a line that is not JSON is an error: to keep it back
 * would lose text without a word.
 */
export async function* readNDJSON(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  const reader = body.getReader();
  const decoder = new TextDecoder('utf-8');
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split('\n');
      rest = done ? '' : (lines.pop() ?? '');
      for (const line of lines) {
        if (line.trim()) yield parse(line);
      }
      if (done) return;
    }
  } finally {
    // Reached early when the consumer leaves: frees the connection.
    reader.cancel().catch(() => {});
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error(`The server sent a line that is not JSON: ${line.slice(0, 120)}`);
  }
}
