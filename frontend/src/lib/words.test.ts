import { describe, expect, it } from 'vitest';
import type { Entry, Status } from './api/types';
import { dayName, duration, ordinal } from './format';
import { parseKeepAlive, shownKeepAlive } from './keepalive';
import {
  facts,
  fallbackSentence,
  keptSentence,
  lampColour,
  outlook,
  phases,
  recordOf,
  sentence,
  stateWord,
  waitingLine,
} from './words';

it.each([
  ['there is not enough space', 'There is not enough space'],
  ['refused: it is too large', 'Refused: it is too large'],
  ['bartowski/Qwen3-GGUF is not an OpenVINO model', 'bartowski/Qwen3-GGUF is not an OpenVINO model'],
  ['openvino_model.bin is missing', 'openvino_model.bin is missing'],
  ['qwen3:8b runs', 'qwen3:8b runs'],
  ['', ''],
])('makes a sentence of %j and leaves names', (text, want) => expect(sentence(text)).toBe(want));

const entry = (more: Partial<Entry>): Entry => ({ trace_id: 't', state: 'queued', started_at: '', ...more });

describe('waitingLine', () => {
  it.each<[Partial<Entry> | undefined, string]>([
    [undefined, 'sending, 4.0 s'],
    [{ state: 'queued', position: 2, execution_device: 'NPU' }, 'queued on NPU, 2nd in line'],
    [
      { state: 'loading', phase: 'compiling', model_used: 'smollm2:135m', execution_device: 'CPU' },
      'loading smollm2:135m on CPU: compiling, 4.0 s',
    ],
    [{ state: 'prefill', prompt_tokens: 412 }, 'reading your 412 tokens'],
    [{ state: 'decoding', tokens_so_far: 7, execution_device: 'CPU' }, 'writing on CPU, 7 tokens'],
  ])('%o', (live, line) => {
    expect(waitingLine(live && entry(live), 1000, 5200)).toBe(line);
  });
});

it.each<[Partial<Entry>, string]>([
  [{ state: 'queued', position: 3 }, 'queued 3'],
  [{ state: 'decoding', tokens_so_far: 1200 }, 'decoding 1,200'],
  [{ state: 'done', outcome: 'completed' }, 'done'],
  [{ state: 'done', outcome: 'length' }, 'length'],
])('state of %o is %s', (e, word) => expect(stateWord(entry(e))).toBe(word));

it('shows only measured phases, and nothing that is unknown', () => {
  const record = { trace_id: 't', queue_ms: 0, load_ms: null, prefill_ms: 12, decode_ms: null, prompt_tokens: null };
  expect(phases(record).map((phase) => phase.name)).toEqual(['queue', 'prefill']);
  expect(phases({ ...record, prepare_ms: 3 })[0]).toEqual({ name: 'prepare', label: 'Prepare', ms: 3 });
  expect(phases({ ...record, cancel_ms: 24 }).at(-1)).toEqual({ name: 'cancel', label: 'Cancel to free', ms: 24 });
  expect(facts(record).map((fact) => fact.label)).toEqual(['Trace']);
});

it('says where an answer went on', () => {
  const record = { trace_id: 't', continued: { device: 'CPU', endpoint_id: 'cpu:0', after: 128 } };
  expect(facts(record)[0]).toMatchObject({ label: 'Went on', text: 'on the CPU after 128 tokens' });
});

it('explains a fallback', () => {
  const record = { trace_id: 't', routed_device: 'NPU', execution_device: 'CPU', fallback_reason: 'busy' };
  expect(fallbackSentence(record)).toBe('The rules chose NPU, but it would have waited longer there. It ran on CPU.');
  expect(fallbackSentence({ trace_id: 't' })).toBe('');
});

it('says what is kept', () => {
  expect(keptSentence('metadata/30d')).toBe('This record for 30 days; neither prompt nor answer');
  expect(keptSentence('bodies/7d')).toBe('bodies/7d');
});

it('keeps the record of an entry and drops the live part', () => {
  expect(recordOf(entry({ client: 'curl', route_reason: 'x' }))).toEqual({ trace_id: 't', route_reason: 'x' });
});

it.each([
  ['NPU', 'npu'],
  ['NPU (emulated on CPU)', 'npu'],
  ['GPU.1', 'gpu'],
  ['mock', 'mock'],
  ['', 'none'],
])('lamp of %s is %s', (label, colour) => expect(lampColour(label)).toBe(colour));

describe('outlook', () => {
  const status = (...classes: string[]): Status => ({
    version: '',
    server: { state: 'running' },
    devices: classes.map((c) => ({ id: c, label: c, class: c, name: c, state: 'idle' })),
  });
  it.each([
    [['NPU', 'CPU'], '', 'A short prompt would go to the NPU; what does not fit goes to the CPU.'],
    [['CPU'], '', 'A short prompt would go to the CPU (no NPU or GPU here).'],
    [['mock'], '', 'The mock engine answers: no model runs.'],
    [['CPU'], 'cpu', 'Pinned to CPU. If it cannot run the message, you get an error and the reason.'],
    [['CPU'], 'npu', 'Pinned to NPU, but there is no usable NPU here: the message will be refused.'],
  ])('of %o pinned to "%s"', (classes, pin, line) => expect(outlook(status(...classes), undefined, pin)).toBe(line));
});

it.each([
  [0.2, '<1 ms'],
  [42, '42 ms'],
  [1340, '1.3 s'],
  [75_400, '1 min 15 s'],
  [119_700, '2 min 0 s'],
])('%d ms is %s', (ms, text) => expect(duration(ms)).toBe(text));

it.each([
  [1, '1st'],
  [2, '2nd'],
  [11, '11th'],
  [23, '23rd'],
])('%d is %s', (n, text) => expect(ordinal(n)).toBe(text));

it('names days', () => {
  const now = new Date(2026, 10, 30, 0, 10);
  expect(dayName(new Date(2026, 10, 30, 0, 1), now)).toBe('Today');
  expect(dayName(new Date(2026, 10, 29, 23, 59), now)).toBe('Yesterday');
  expect(dayName(new Date(2026, 10, 27), now)).toBe('Friday 27 November');
  expect(dayName(new Date(2025, 2, 3), now)).toBe('3 March 2025');
});

it.each([
  ['5m', '5m', '5m'],
  ['5m0s', '5m0s', '5m'],
  ['1h0m0s', '1h0m0s', '1h'],
  ['90', '90s', '90s'],
  ['forever', '-1s', 'forever'],
  ['-1', '-1s', 'forever'],
  ['soon', null, ''],
])('keep-alive %s is sent as %s and shown as %s', (typed, sent, shown) => {
  expect(parseKeepAlive(typed)).toBe(sent);
  if (sent) expect(shownKeepAlive(sent)).toBe(shown);
});

it.each([
  ['metadata/30d', 'This record for 30 days; neither prompt nor answer'],
  ['metadata/30d+body/7d', 'This record for 30 days; prompt and answer for 7'],
  ['metadata/forever', 'This record for ever; neither prompt nor answer'],
  ['something/else', 'something/else'],
  [undefined, ''],
])('%j is kept: %j', (retention, text) => expect(keptSentence(retention)).toBe(text));
