import { afterAll, afterEach, expect, it } from 'vitest';
import { copied, open, shutdown, type Opened } from './browser';

let opened: Opened | undefined;
afterEach(async () => {
  const errors = opened?.errors;
  await opened?.close();
  opened = undefined;
  expect(errors ?? []).toEqual([]);
});
afterAll(shutdown);

it('copies the settings of a client for a chosen model, and says when it was last seen', async () => {
  opened = await open();
  const { page, mock } = opened;
  await page.getByRole('link', { name: 'Connect' }).click();
  await page.getByRole('button', { name: 'Copy the OpenAI address' }).click();
  await expect.poll(() => copied(page)).toBe('http://127.0.0.1:11434/v1');
  const zed = page.getByRole('button', { name: /^Zed/ });
  await zed.getByText('Not seen yet').waitFor();
  await page.getByRole('combobox', { name: 'Settings below are for' }).selectOption('qwen3:4b');
  await page.getByRole('button', { name: /^Continue/ }).click();
  await page.getByText('"qwen3:4b"').waitFor();
  await page.getByRole('button', { name: /^Copy: Continue/ }).click();
  await expect.poll(() => copied(page)).toContain('model: "qwen3:4b"\n');
  // It asks for the first time while the page is open.
  const answer = await fetch(`http://127.0.0.1:${mock.port}/api/chat`, {
    method: 'POST',
    headers: { 'User-Agent': 'Zed/0.219.0' },
    body: JSON.stringify({ model: 'smollm2:135m', messages: [{ role: 'user', content: '[[say Hi]]' }] }),
  });
  await answer.text();
  mock.tell({ ...mock.state.entries[0]!, client: 'Zed' });
  await zed.getByText('Seen just now').waitFor();
});

it('says that the server is off, and starts it', async () => {
  opened = await open({ path: '#/connect', before: (m) => (m.state.status.server = { state: 'stopped', url: '' }) });
  const { page } = opened;
  const off = page.getByText('The server is off');
  await off.getByRole('button', { name: 'Start server' }).click();
  await off.waitFor({ state: 'detached' });
});
