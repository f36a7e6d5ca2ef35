import { expect, it } from 'vitest';
import { ago } from './format';

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
