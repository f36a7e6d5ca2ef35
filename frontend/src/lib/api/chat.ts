import { errorFromJSON, send } from './http';
import { readNDJSON } from './ndjson';
import type { ChatMessage, Record, ToolCall } from './types';

export interface ChatRequest {
  model: string;
  messages: Pick<ChatMessage, 'role' | 'content'>[];
  /** Pins a device: "npu", "gpu", "cpu". Absent: the router chooses. */
  device?: string;
  /** Becomes the record's trace_id where the server honours it, so that the live row can be found. */
  requestId?: string;
}

export interface ChatPiece {
  text: string;
  thinking: string;
  toolCalls: ToolCall[];
  /** The last piece carries the finished record. */
  done?: { reason: string; record?: Record };
}

interface Frame {
  message?: {
    content?: string;
    thinking?: string;
    tool_calls?: { function?: { name?: string; arguments?: ToolCall['arguments'] } }[];
  };
  done?: boolean;
  done_reason?: string;
  llmeu?: Record;
}

/**
 * Streams one answer. Ends after the piece with `done`. Throws ApiError when the server refuses or fails (also in the middle of an
 * answer), OfflineError when it is gone, AbortError after signal was aborted, and a plain Error when the stream ends
 * without a last frame: a cut answer must never look like a whole one.
 */
export async function* streamChat(
  request: ChatRequest,
  signal: AbortSignal,
  onTrace?: (traceId: string) => void,
): AsyncGenerator<ChatPiece> {
  const { device, requestId, ...body } = request;
  const response = await send('POST', '/api/chat', {
    json: { ...body, stream: true, ...(device ? { options: { device } } : {}) },
    headers: requestId ? { 'X-Request-ID': requestId } : {},
    signal,
  });
  const traceId = response.headers.get('X-Request-ID');
  if (traceId) onTrace?.(traceId);
  if (!response.body) throw new Error('The server sent no answer.');
  for await (const line of readNDJSON(response.body)) {
    const failed = errorFromJSON(200, line);
    if (failed) throw failed;
    const frame = line as Frame;
    const piece: ChatPiece = {
      text: frame.message?.content ?? '',
      thinking: frame.message?.thinking ?? '',
      toolCalls: (frame.message?.tool_calls ?? []).map(({ function: f }) => ({
        name: f?.name ?? '',
        arguments: f?.arguments ?? {},
      })),
    };
    if (frame.done) piece.done = { reason: frame.done_reason ?? 'stop', record: frame.llmeu };
    yield piece;
    if (piece.done) return;
  }
  throw new Error('The answer was cut off: the connection ended before its last line.');
}
