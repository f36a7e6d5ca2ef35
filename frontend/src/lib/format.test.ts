import { expect, it } from 'vitest';
import { ago, bytes, duration } from './format';

const now = new Date(2026, 10, 30, 12, 0, 0);

it.each([
  [20, 'just now'],
  [-5, 'just now'],
  [240, '4 min ago'],
  [3 * 3600, '3 h ago'],
  [14 * 3600, 'yesterday'],
  [5 * 86_400, 'on Wednesday 25 November'],
])('%d seconds before is %j', (seconds, text) => {
  expect(ago(new Date(now.getTime() - seconds * 1000), now)).toBe(text);
});

it.each([
  [0, '0 ms'],
  [0.4, '<1 ms'],
  [999.4, '999 ms'],
  [999.6, '1.0 s'],
  [9_949, '9.9 s'],
  [9_960, '10 s'],
  [59_400, '59 s'],
  [59_700, '1 min 0 s'],
  [125_000, '2 min 5 s'],
])('%d ms are %j', (ms, text) => expect(duration(ms)).toBe(text));

it.each([
  [1, '1 kB'],
  [999_600, '1 MB'],
  [999_400_000, '999 MB'],
  [999_600_000, '1.0 GB'],
  [99_960_000_000, '100 GB'],
])('%d bytes are %j', (n, text) => expect(bytes(n)).toBe(text));
