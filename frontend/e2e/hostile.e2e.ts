import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { hostileMarkdown } from '../dev/texts.mjs';
import { answers, ended, open, say, shutdown, type Opened } from './browser';

let leak: Server;
const leaked: string[] = [];
let opened: Opened;

beforeAll(async () => {
  leak = createServer((req, res) => {
    leaked.push(req.url ?? '');
    res.setHeader('Access-Control-Allow-Origin', '*');
    res.end('got it');
  });
  await new Promise<void>((resolve) => leak.listen(0, '127.0.0.1', resolve));
  opened = await open({ pace: 0 });
});
afterAll(async () => {
  await opened.close();
  leak.close();
  await shutdown();
});

it('lets nothing out, goes nowhere and runs nothing, whatever an answer or a chat says', async () => {
  const { page, mock } = opened;
  const text = hostileMarkdown.replaceAll('LEAK', String((leak.address() as AddressInfo).port));
  expect(text.split('\n').length).toBeGreaterThanOrEqual(40);
  const elsewhere: string[] = [];
  const dialogs: string[] = [];
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.port !== String(mock.port)) elsewhere.push(request.url());
  });
  page.on('dialog', (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  const before = page.url();

  // As an answer, as what the user pasted, as a title, and as an error of the server.
  mock.state.models.push({ ...mock.state.models[0]!, name: '<img src=x onerror=alert(1)>' });
  const now = new Date().toISOString();
  mock.state.chats.set('hostile', {
    id: 'hostile',
    title: '<img src=x onerror=alert(1)>',
    updated_at: now,
    created_at: now,
    messages: [
      { role: 'user', content: text },
      { role: 'assistant', content: text, error: text.slice(0, 500) },
    ],
  });
  await page.reload();
  await page.getByRole('link', { name: '<img src=x' }).click();
  await answers(page).first().waitFor();
  await say(page, '[[hostile]]');
  await ended(page);
  await page.waitForTimeout(500);

  expect(leaked).toEqual([]);
  expect(elsewhere).toEqual([]);
  expect(dialogs).toEqual([]);
  expect(new URL(page.url()).pathname).toBe(new URL(before).pathname);
  const prose = page.locator('.prose');
  expect(
    await prose.locator('img, script, iframe, form, style, link, base, meta, svg, video, object, input').count(),
  ).toBe(0);
  expect(await prose.locator('[style], [onerror], [onload], [id], [name]').count()).toBe(0);
});

it('asks the desktop only for web addresses when everything is clicked', async () => {
  const { page, mock } = opened;
  const links = page.locator('.prose a');
  const count = await links.count();
  expect(count).toBeGreaterThan(4);
  for (let i = 0; i < count; i++) await links.nth(i).click();
  await expect.poll(() => mock.state.opened.length).toBeGreaterThan(4);
  const schemes = new Set(mock.state.opened.map((url) => new URL(url).protocol));
  expect([...schemes].sort()).toEqual(['http:', 'https:']);
  expect(page.context().pages()).toHaveLength(1);
  expect(leaked).toEqual([]);
});

it('does not navigate to what is dropped on it', async () => {
  const { page } = opened;
  const before = page.url();
  const prevented = await page.evaluate(() => {
    const drop = (name: string) => !document.body.dispatchEvent(new Event(name, { bubbles: true, cancelable: true }));
    return [drop('dragover'), drop('drop')];
  });
  expect(prevented).toEqual([true, true]);
  expect(page.url()).toBe(before);
});
