// The real page on the real engine, in Chromium:
//
//   SIGNALBOX_URL='http://<id>.localhost:<port>/ui/?code=…' SHOTS=dir npm run e2e:real
//
// internal/e2e runs it so, and make test with it. Chats, stops in the middle of an answer, looks at the request's row, and takes
// pictures. Ends with 1 and a sentence when something is not as it must be. Optional: MODEL (else the window's choice), DEVICE (what
// the badge must say), CHROMIUM.
import { mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';

const url = process.env.SIGNALBOX_URL ?? process.env.BASE_URL;
const shots = process.env.SHOTS;
if (!url) {
  console.error('SIGNALBOX_URL is not set: give the address of the window, with its one-time code.');
  process.exit(2);
}
if (shots) mkdirSync(shots, { recursive: true });

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium' });
const page = await browser.newPage({ viewport: { width: 1180, height: 780 } });
const problems = [];
page.on('pageerror', (err) => problems.push(`the page failed: ${err.message}`));
page.on('console', (message) => {
  if (/Content Security Policy/.test(message.text())) problems.push(message.text());
});

const check = (holds, sentence) => {
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${sentence}`);
  if (!holds) problems.push(sentence);
};
const picture = (name) => (shots ? page.screenshot({ path: `${shots}/${name}.png` }) : undefined);
const answers = page.getByRole('article', { name: 'Answer' });
const box = page.getByRole('textbox', { name: 'Message' });
const ended = () => page.getByRole('button', { name: 'Send' }).waitFor({ timeout: 180_000 });

try {
  await page.goto(url);
  await page.getByRole('group', { name: 'Devices' }).getByRole('button').first().waitFor();
  check(!page.url().includes('code='), 'the one-time code is not in the address any more');
  await page.getByRole('button', { name: /^Model: (?!No model|Loading)/ }).waitFor();
  if (process.env.MODEL) {
    await page.getByRole('button', { name: /^Model:/ }).click();
    await page.getByRole('option', { name: process.env.MODEL }).click();
  }
  await picture('1-empty');

  await box.fill('What is the capital of France?');
  await box.press('Enter');
  await ended();
  const first = answers.last();
  const failed = await first.getByRole('alert').allInnerTexts();
  check(failed.length === 0, `the answer came without an error ${failed.join(' ')}`);
  check((await first.locator('.prose').innerText()).trim() !== '', 'the answer has text');
  const badge = await first.locator('.badge').innerText();
  check(badge.includes(process.env.DEVICE ?? 'PU'), `the badge names the device: ${badge.replace(/\s+/g, ' ')}`);
  await first.locator('.badge').click();
  await first.getByText(/^Why /).waitFor({ timeout: 5000 });
  await picture('2-answer');

  await box.fill('Write a very long story about a railway line through the mountains, with many chapters.');
  await box.press('Enter');
  await answers
    .nth(1)
    .locator('.prose')
    .getByText(/\S+\s+\S+\s+\S+/)
    .first()
    .waitFor({ timeout: 120_000 });
  await picture('3-streaming');
  const from = Date.now();
  await box.press('Escape');
  await ended();
  const took = Date.now() - from;
  await answers.nth(1).getByText('Stopped', { exact: true }).waitFor();
  check(took < 3000, `stopping took ${took} ms`);
  const kept = await answers.nth(1).locator('.prose').innerText();
  check(kept.trim() !== '', 'the stopped answer keeps its text');

  await page.getByRole('link', { name: /^Requests/ }).click();
  const rows = page.locator('[data-row]');
  await rows.nth(1).waitFor();
  await rows.first().getByText('cancelled').waitFor({ timeout: 10_000 });
  check((await rows.nth(1).innerText()).includes('done'), 'the first request is listed as done');
  await rows.first().click();
  await page.getByRole('complementary', { name: 'Request' }).getByText('Stopped before it was complete.').waitFor();
  await picture('4-requests');

  await page.reload();
  await page.getByRole('navigation').getByText('What is the capital of France?').first().click();
  await answers.nth(1).getByText('Stopped', { exact: true }).waitFor();
  check((await answers.nth(1).locator('.prose').innerText()) === kept, 'the chat is there again after a reload');
  await answers.nth(1).locator('.badge').waitFor({ timeout: 5000 });
  await picture('5-reloaded');
} catch (err) {
  problems.push(err.message);
  console.log(`FAIL ${err.message}`);
  await picture('failed');
}
await browser.close();
process.exit(problems.length ? 1 : 0);
