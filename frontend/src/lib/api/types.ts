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
  /** Where the answer went on after so many tokens, since the execution device had no more room for it. */
  continued?: { device: string; endpoint_id: string; after: number };
  prompt_tokens?: number | null;
  completion_tokens?: number | null;
  cached_tokens?: number | null;
  ignored?: string[] | null;
  clamped?: string[] | null;
  /** The prompt rendered and counted, with the wait for the process that does it. */
  prepare_ms?: number | null;
  queue_ms?: number | null;
  load_ms?: number | null;
  ttft_ms?: number | null;
  prefill_ms?: number | null;
  decode_ms?: number | null;
  cancel_ms?: number | null;
  tokens_per_second?: number | null;
  power_source?: 'mains' | 'battery' | string;
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

/** Which requests a list or an export is about. What is empty does not narrow it. */
export interface RequestFilter {
  client?: string;
  model?: string;
  device?: string;
  outcome?: string;
  /** The rule that decided, or the reason of a fallback. */
  reason?: string;
  /** Those that started at or after it. */
  since?: string;
  /** Words in client, model, route, device, decision, error or id. */
  q?: string;
}

export interface Totals {
  requests: number;
  completed: number;
  cancelled: number;
  failed: number;
  prompt_tokens: number;
  completion_tokens: number;
  device_seconds: number;
}

/** One side of a replay. */
export interface Run {
  record: Record;
  text: string;
  error?: string;
}

/** One line of a replay. */
export interface ReplayLine {
  original?: Run;
  text?: string;
  replay?: Run;
}

/** One routing rule: backend/router/rules.go. */
export interface Rule {
  name: string;
  says: string;
  /** What the settings make of it. */
  set?: string;
}

/** What would happen with a request: backend/server/route.go. */
export interface Explanation {
  would: 'run' | 'refuse' | string;
  model: string;
  device?: string;
  routed_device?: string;
  route_rule: string;
  route_reason: string;
  policy_id?: string;
  fallback_reason?: string;
  rejected?: Rejection[] | null;
  prompt_tokens?: number | null;
  prompt_limit?: number | null;
  warm_up?: string;
  devices?:
    | {
        device: string;
        loaded?: boolean;
        running?: number;
        queued?: number;
        prompt_limit?: number | null;
        first_token_s?: number | null;
        absent?: string;
        quarantined?: string;
      }[]
    | null;
  error?: string;
  status?: number;
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
    /** The model whose files a variant shares. */
    parent_model?: string;
    family?: string;
    parameter_size?: string;
    quantization_level?: string;
    context_length?: number;
  };
  capabilities?: string[] | null;
  /** Why it cannot be used. */
  damaged?: string;
  /** The hub's name of it. */
  source?: string;
  revision?: string;
  /** It came with Signalbox, and cannot be deleted. */
  bundled?: boolean;
  /** Its files are somebody's own folder, which is never changed. */
  elsewhere?: boolean;
  npu?: Fitness;
}

/** Whether NPUs run a model, and why; the reason is a clause. */
export interface Fitness {
  ok: boolean;
  reason: string;
}

/** What /api/show tells beyond the list. */
export interface ModelCard {
  npu?: Fitness;
  license?: string;
  details?: Model['details'];
  model_info?: { [key: string]: unknown };
  capabilities?: string[] | null;
  /** How it calls tools: a format of its own, or ours. */
  tool_format?: string;
  modified_at?: string;
}

/** What was measured of one model on one device: backend/cards. What is not known is 0 or absent. */
export interface Card {
  model: string;
  /** The device's id. */
  device: string;
  label: string;
  /** Nothing was measured: the limits are those of the files and the settings. */
  assumed?: boolean;
  loads?: boolean;
  load_error?: string;
  prompt_limit?: number;
  context_limit?: number;
  prefill_tokens_per_second?: number;
  decode_tokens_per_second?: number;
  verdict?: 'right' | 'wrong' | 'unsure' | '' | string;
  quarantined?: string;
}

/** A model in memory. */
export interface LoadedModel {
  name: string;
  device?: string;
  size: number;
  context_length?: number;
  expires_at?: string;
}

/** One line of a pull: Ollama's. */
export interface PullFrame {
  status: string;
  digest?: string;
  total?: number;
  completed?: number;
}

export interface Download {
  id: string;
  model: string;
  state: 'checking' | 'downloading' | 'verifying' | 'paused' | 'failed' | 'done' | string;
  total?: number;
  completed?: number;
  bytes_per_second?: number | null;
  error?: string;
  warnings?: string[] | null;
}

export interface DiskUse {
  dir: string;
  free: number;
  total: number;
  models: { name: string; bytes: number; state: string }[] | null;
  partial?: number;
  trash?: number;
  blobs?: number;
}

/** What is kept of models that were compiled for devices: backend/server/compiled.go. */
export interface Compiled {
  bytes: number;
  /** Above it the longest unused goes. */
  limit: number;
  models: { model: string; device: string; label: string; bytes: number; again?: string }[] | null;
}

/** What can be said of a model before its weights are fetched: backend/downloads/preflight.go. */
export interface Preflight {
  model: string;
  source: string;
  commit: string;
  size: number;
  /** On the disk; 0: not known. */
  free: number;
  /** Of this computer; 0: not known. */
  memory: number;
  license: string;
  gated: boolean;
  installed: boolean;
  quantization: string;
  devices: { class: string; ok: boolean; reason: string }[] | null;
  /** Expected, from its size. */
  speed: string;
  /** Why it would not be fetched; empty: it would. */
  refused: string;
  warnings: string[] | null;
  /** What its makers say of it, in Markdown: text of others. */
  card?: string;
}

/** What was found when a model's files were read: backend/models/import.go. */
export interface Verified {
  files: number;
  recorded: boolean;
  wrong: string[] | null;
  problem: string;
  source: string;
}

/** Where models are fetched from. */
export interface HubSource {
  endpoint: string;
  default: string;
  /** Where its token is: "environment", "keyring" or "file"; empty: there is none. */
  token: string;
}

export interface Login {
  account: string;
  kept: string;
  unchecked: string;
}

/** A well-known model: backend/models/table.go. */
export interface Known {
  name: string;
  repo?: string;
  kind?: string;
  parameter_size?: string;
  quantization?: string;
  size?: number;
  npu?: boolean;
  license?: string;
  description?: string;
  installed?: boolean;
}

/** What the hub has: backend/hub/search.go. */
export interface Found {
  repo: string;
  task?: string;
  billions?: number;
  quantization?: string;
  npu?: boolean;
  downloads?: number;
  likes?: number;
  modified?: string;
  license?: string;
  gated?: boolean;
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

/** Sends a model, a client, or one client's use of one model to a device. */
export interface Pin {
  model?: string;
  client?: string;
  device: string;
}

/** What the listener keeps. Keys that a build does not have are absent, and the page shows no control for them. */
export interface Settings {
  theme?: 'system' | 'light' | 'dark';
  port?: number;
  keep_alive?: string;
  default_model?: string;
  emulate_npu?: boolean;
  preference?: string[] | null;
  pins?: Pin[] | null;
  [other: string]: unknown;
}
