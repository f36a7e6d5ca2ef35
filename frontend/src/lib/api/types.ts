// The wire's own words, as the listener sends them: backend/llm/record.go, backend/journal, and the Ollama API.
// Unknown numbers are null (or absent), never 0.

export type Outcome = 'completed' | 'length' | 'cancelled' | 'timeout' | 'error' | 'rejected';

export interface Rejection {
  device: string;
  rule: string;
  reason: string;
}

/** The routing record (`llmeu`): what was decided about a request, why, and what really happened. */
export interface Record {
  trace_id: string;
  model_used?: string;
  model_version?: string;
  provider?: string;
  endpoint_id?: string;
  inference_region?: string;
  sovereignty_class?: string;
  policy_id?: string;
  retention?: string;
  cost_estimate?: {
    amount: number;
    currency: string;
    device_seconds: number | null;
    energy_joules: number | null;
    basis: string;
  };
  routed_device?: string;
  execution_device?: string;
  route_rule?: string;
  route_reason?: string;
  fallback_reason?: string;
  rejected?: Rejection[] | null;
  prompt_tokens?: number | null;
  completion_tokens?: number | null;
  cached_tokens?: number | null;
  ignored?: string[] | null;
  clamped?: string[] | null;
  queue_ms?: number | null;
  load_ms?: number | null;
  ttft_ms?: number | null;
  prefill_ms?: number | null;
  decode_ms?: number | null;
  cancel_ms?: number | null;
  tokens_per_second?: number | null;
  outcome?: Outcome | '';
}

export type EntryState = 'queued' | 'loading' | 'prefill' | 'decoding' | 'done';

/** One row of the journal; live while `state` is not "done". */
export interface Entry extends Record {
  state: EntryState | '';
  position?: number;
  phase?: string;
  client?: string;
  user_agent?: string;
  route?: string;
  model_asked?: string;
  started_at: string;
  ended_at?: string;
  error?: string;
  tokens_so_far?: number;
}

export type DeviceState = 'off' | 'idle' | 'loading' | 'busy' | 'restarting' | 'unavailable';

export interface Device {
  id: string;
  label: string;
  class: string;
  name: string;
  emulated?: boolean;
  state: DeviceState;
  phase?: string;
  model?: string;
  models?: string[] | null;
  running?: number;
  queued?: number;
  tokens_per_second?: number | null;
  note?: string;
}

export interface Notice {
  level: 'info' | 'warn' | 'error' | string;
  text: string;
}

export interface Status {
  version: string;
  server: { state: 'running' | 'stopped' | 'failed'; url?: string; error?: string };
  runtime?: { ok: boolean; version?: string; error?: string };
  engine?: string;
  devices?: Device[] | null;
  models?: number;
  active?: Entry[] | null;
  desktop?: { window?: boolean; tray?: 'shown' | 'missing' | 'none' | string; note?: string };
  notices?: Notice[] | null;
}

export interface Model {
  name: string;
  size: number;
  digest: string;
  modified_at: string;
  details?: {
    family?: string;
    parameter_size?: string;
    quantization_level?: string;
    context_length?: number;
  };
  capabilities?: string[] | null;
}

/** A call that a model wrote. Nothing here runs it. */
export interface ToolCall {
  name: string;
  arguments: { [name: string]: unknown };
}

export interface ChatMessage {
  role: 'user' | 'assistant' | 'system';
  content: string;
  /** What a thinking model wrote before its answer. */
  thinking?: string;
  tool_calls?: ToolCall[];
  record?: Record;
  stopped?: boolean;
  error?: string;
}

/** How one program is pointed at Signalbox: backend/connect. */
export interface ConnectClient {
  id: string;
  name: string;
  kind: 'editor' | 'agent' | 'app' | 'library' | string;
  speaks: 'ollama' | 'openai' | 'anthropic' | string;
  steps: { title: string; file?: string; language: string; text: string }[];
  note?: string;
  last_seen: string | null;
}

export interface Connect {
  url: string;
  running: boolean;
  model: string;
  clients: ConnectClient[];
}

export interface ChatSummary {
  id: string;
  title: string;
  model?: string;
  updated_at: string;
}

export interface Chat extends ChatSummary {
  created_at?: string;
  messages: ChatMessage[];
}

/** What the listener keeps. Keys that a build does not have are absent, and the page shows no control for them. */
export interface Settings {
  theme?: 'system' | 'light' | 'dark';
  port?: number;
  keep_alive?: string;
  default_model?: string;
  emulate_npu?: boolean;
  preference?: string[] | null;
  [other: string]: unknown;
}
