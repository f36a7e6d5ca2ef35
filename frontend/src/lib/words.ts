// The record and the live entry in plain words.
import { count, duration, ordinal, speed, tokens } from './format';
import type { Card, Entry, ModelCard, Record, Settings, Status } from './api/types';

export type LampColour = 'npu' | 'gpu' | 'cpu' | 'mock' | 'none';

/** Which lamp a device label ("NPU (emulated on CPU)", "GPU.1", "mock") has. */
export function lampColour(device: string | undefined): LampColour {
  const match = /^(npu|gpu|cpu|mock)/i.exec(device ?? '');
  return match ? (match[1]!.toLowerCase() as LampColour) : 'none';
}

/** No hardware of its own stands behind the label: its lamp is a ring. */
export const stoodIn = (device: string | undefined) => /emulated|^mock/i.test(device ?? '');

/** What somebody waiting for an answer sees. `since` is when this state or phase began, as the page saw it. */
export function waitingLine(entry: Entry | undefined, since: number, now: number): string {
  const seconds = Math.max(0, Math.floor((now - since) / 1000));
  const elapsed = seconds >= 2 ? `, ${duration(seconds * 1000)}` : '';
  const device = entry?.execution_device || entry?.routed_device;
  const on = device ? ` on ${device}` : '';
  switch (entry?.state) {
    case 'queued':
      return (entry.position ?? 0) > 0 ? `queued${on}, ${ordinal(entry.position!)} in line` : `queued${on}${elapsed}`;
    case 'loading': {
      const model = entry.model_used || entry.model_asked || 'the model';
      return `loading ${model}${on}${entry.phase ? `: ${entry.phase}` : ''}${elapsed}`;
    }
    case 'prefill':
      return entry.prompt_tokens ? `reading your ${tokens(entry.prompt_tokens)}${on}` : `reading${on}`;
    case 'decoding':
      return entry.tokens_so_far ? `writing${on}, ${tokens(entry.tokens_so_far)}` : `writing${on}`;
    default:
      return `sending${elapsed}`;
  }
}

/** The server's errors begin in lower case, as parts of a longer one; the name of a model, a file or a host stays as it is. */
export const sentence = (text: string) =>
  /^[^\s]*([/_]|[.:](?=\S))/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);

/** The state column of a request. */
export function stateWord(entry: Entry): string {
  switch (entry.state) {
    case 'queued':
      return (entry.position ?? 0) > 0 ? `queued ${entry.position}` : 'queued';
    case 'loading':
      return 'loading';
    case 'prefill':
      return 'prefill';
    case 'decoding':
      return entry.tokens_so_far ? `decoding ${count(entry.tokens_so_far)}` : 'decoding';
    default:
      return entry.outcome === 'completed' ? 'done' : entry.outcome || 'ended';
  }
}

export const running = (entry: Entry) => entry.state !== 'done' && !entry.outcome && !entry.ended_at;

/** The record in a journal entry, without what only the live row needs. */
export function recordOf(entry: Entry): Record {
  const record: Partial<Entry> = { ...entry };
  for (const key of liveOnly) delete record[key];
  return record as Record;
}

const liveOnly = [
  'state',
  'position',
  'phase',
  'client',
  'user_agent',
  'route',
  'model_asked',
  'started_at',
  'ended_at',
  'error',
  'tokens_so_far',
] as const satisfies (keyof Entry)[];

const fallbacks: { [reason: string]: string } = {
  busy: 'it would have waited longer there',
  device_fallback: 'loading or running there failed',
};

/** Why another device ran than the rules had chosen; empty when they agree. */
export function fallbackSentence(record: Record): string {
  if (!record.fallback_reason) return '';
  const why = fallbacks[record.fallback_reason] ?? record.fallback_reason;
  return `The rules chose ${record.routed_device || 'another device'}, but ${why}. It ran on ${record.execution_device}.`;
}

export const outcomeSentence: { [outcome: string]: string } = {
  completed: 'Completed.',
  length: 'Ended at the token limit: the answer is not complete.',
  cancelled: 'Stopped before it was complete.',
  timeout: 'Ended because no token came for too long.',
  error: 'Failed.',
  rejected: 'Refused before it ran.',
};

export interface Phase {
  name: 'prepare' | 'queue' | 'load' | 'prefill' | 'decode' | 'cancel';
  label: string;
  ms: number;
}

/** The measured phases of a request, in order. What is unknown is left out. */
export function phases(record: Record): Phase[] {
  const all: [Phase['name'], string, number | null | undefined][] = [
    ['prepare', 'Prepare', record.prepare_ms],
    ['queue', 'Queue', record.queue_ms],
    ['load', 'Load', record.load_ms],
    ['prefill', 'Prefill', record.prefill_ms],
    ['decode', 'Decode', record.decode_ms],
    ['cancel', 'Cancel to free', record.cancel_ms],
  ];
  return all.flatMap(([name, label, ms]) => (ms == null ? [] : [{ name, label, ms }]));
}

/** "metadata/30d" and "metadata/30d+body/7d" in words. */
export function keptSentence(retention: string | undefined): string {
  const parts = /^metadata\/(\d+d|forever)(?:\+body\/(\d+)d)?$/.exec(retention ?? '');
  if (!parts) return retention ?? '';
  const [, record, body] = parts;
  const time = record === 'forever' ? 'for ever' : `for ${record!.slice(0, -1)} days`;
  return `This record ${time}; ${body ? `prompt and answer for ${body}` : 'neither prompt nor answer'}`;
}

export interface Fact {
  label: string;
  text: string;
  mono?: boolean;
}

/** Everything a record says, as label and text. Unknown values are left out. */
export function facts(record: Record): Fact[] {
  const list: Fact[] = [];
  const add = (label: string, text: string | null | undefined, mono = false) => {
    if (text) list.push({ label, text, mono });
  };
  const ms = (label: string, value: number | null | undefined) => value != null && add(label, duration(value));
  add('Model', record.model_used);
  add('Rule', record.policy_id || record.route_rule, true);
  if (record.prompt_tokens != null) {
    const cached = record.cached_tokens ? `, ${count(record.cached_tokens)} of them from the prefix cache` : '';
    add('Prompt', tokens(record.prompt_tokens) + cached);
  }
  if (record.completion_tokens != null) add('Answer', tokens(record.completion_tokens));
  if (record.continued) add('Went on', `on the ${record.continued.device} after ${tokens(record.continued.after)}`);
  if (record.tokens_per_second != null) add('Speed', speed(record.tokens_per_second));
  ms('First token after', record.ttft_ms);
  add('Not honoured', record.ignored?.join(', '));
  add('Cut to a limit', record.clamped?.join(', '));
  add(
    'Power',
    { mains: 'From the mains', battery: 'From the battery' }[record.power_source ?? ''] ?? record.power_source,
  );
  if (record.cost_estimate?.device_seconds != null) {
    const joules = record.cost_estimate.energy_joules;
    add(
      'Device time',
      duration(record.cost_estimate.device_seconds * 1000) + (joules != null ? `, ${joules.toFixed(1)} J` : ''),
    );
  }
  add('Runtime', record.provider, true);
  add('Where', record.inference_region === 'local' ? 'On this machine; nothing left it' : record.inference_region);
  add('Kept', keptSentence(record.retention));
  add('Model files', record.model_version, true);
  add('Trace', record.trace_id, true);
  return list;
}

/** What a new chat says about the device its first answer would likely get. An outlook: the router decides for each message. */
export function outlook(status: Status | undefined, settings: Settings | undefined, pinned: string): string {
  const devices = status?.devices ?? [];
  if (!devices.length) return '';
  const usable = devices.filter((device) => device.state !== 'unavailable');
  if (pinned) {
    const device = usable.find((d) => d.class.toLowerCase() === pinned);
    return device
      ? `Pinned to ${device.label}. If it cannot run the message, you get an error and the reason.`
      : `Pinned to ${pinned.toUpperCase()}, but there is no usable ${pinned.toUpperCase()} here: the message will be refused.`;
  }
  const order = (settings?.preference ?? ['NPU', 'GPU', 'CPU']).map((name) => name.toUpperCase());
  const rank = (label: string) => order.indexOf(label.toUpperCase()) + 1 || order.length + 1;
  const [first, second] = [...usable].sort((a, b) => rank(a.class) - rank(b.class));
  if (!first) return 'No device can run a model right now.';
  if (first.class === 'mock') return 'The mock engine answers: no model runs.';
  const missing = order
    .slice(0, order.indexOf(first.class.toUpperCase()))
    .filter((name) => !usable.some((d) => d.class === name));
  const why = missing.length ? ` (no ${missing.join(' or ')} here)` : '';
  return `A short prompt would go to the ${first.label}${why}${second ? `; what does not fit goes to the ${second.label}` : ''}.`;
}

const capabilities: { [name: string]: string } = {
  completion: 'chat',
  tools: 'tools',
  thinking: 'thinking',
  insert: 'fill-in-the-middle',
  embedding: 'embeddings',
};

export const capabilityWord = (name: string) => capabilities[name] ?? name;

/** The context length in a model's info, which is keyed by its architecture. */
export function contextLength(card: ModelCard | undefined): number | undefined {
  const info = card?.model_info ?? {};
  const key = Object.keys(info).find((name) => name.endsWith('.context_length'));
  const length = key === undefined ? undefined : info[key];
  return typeof length === 'number' && length > 0 ? length : undefined;
}

/** What is known of a model on a device, in a sentence. */
export function cardSentence(card: Card): string {
  if (card.quarantined) return `Kept off this device: ${card.quarantined}`;
  if (card.load_error) return `Did not load: ${card.load_error}`;
  if (card.assumed) {
    return card.prompt_limit ? `Not tried yet; prompts up to ${tokens(card.prompt_limit)}` : 'Not tried yet';
  }
  const limit = card.prompt_limit ? `Prompts up to ${tokens(card.prompt_limit)}` : 'Runs';
  return card.verdict === 'right' ? `${limit}; known answers came out right` : limit;
}
