import { afterAll, afterEach, expect, it } from 'vitest';
import { answers, box, copied, ended, focused, open, say, shutdown, type Opened } from './browser';

let opened: Opened | undefined;
afterEach(async () => {
  const errors = opened?.errors;
  await opened?.close();
  opened = undefined;
  expect(errors ?? []).toEqual([]);
});
afterAll(shutdown);

async function start(...args: Parameters<typeof open>): Promise<Opened> {
  opened = await open(...args);
  return opened;
}

/** Options of a mock that waits at these places: see mock.d.mts. */
const holding = (...names: string[]) => ({ before: (m: Opened['mock']) => void (m.state.held = new Set(names)) });

it('streams an answer and shows where it ran, and why', async () => {
  const { page, mock } = await start({ pace: 25, ...holding('answer') });
  await say(page, 'Explain an NPU');
  const answer = answers(page).last();
  await answer.getByText('many small').waitFor();
  expect(await answer.locator('.prose').getAttribute('aria-busy')).toBe('true');
  await answer.getByText(/writing on NPU/).waitFor();
  mock.state.held.clear();
  await ended(page);
  await expect.poll(() => answer.locator('.prose').getAttribute('aria-busy')).toBe('false');
  const badge = answer.locator('.badge');
  await expect.poll(() => badge.innerText()).toMatch(/NPU[\s\S]*tok\/s/);
  await badge.click();
  await answer.getByText("prompt tokens fit the NPU's 1,024").waitFor();
  await answer.getByText('Would do as well; the NPU is preferred.').waitFor();
  expect(mock.state.bodies[0]?.options).toBeUndefined();
  await expect.poll(() => [...mock.state.chats.values()][0]?.messages).toHaveLength(2);
});

it('stops an answer, frees the connection, and keeps and marks the text', async () => {
  const { page, mock } = await start(holding('answer'));
  await say(page, 'Explain [[long]]');
  await answers(page).getByText('Reading a CSV file').waitFor();
  await box(page).press('Escape');
  await ended(page);
  await answers(page).getByText('Stopped', { exact: true }).waitFor();
  await expect.poll(() => mock.state.entries[0]?.outcome).toBe('cancelled');
  // The record of the stopped answer comes with the events, and is saved with it.
  await expect.poll(() => [...mock.state.chats.values()][0]?.messages[1]?.record?.outcome).toBe('cancelled');
  expect([...mock.state.chats.values()][0]?.messages[1]).toMatchObject({ stopped: true });
});

it('says what it waits for', async () => {
  const { page, mock } = await start({ pace: 10, ...holding('position 2', 'compiling for NPU', 'prefill') });
  await say(page, 'Hello [[queue]]');
  await page.getByText('queued on NPU, 2nd in line').waitFor();
  mock.state.held.delete('position 2');
  await page.getByText(/loading smollm2:135m on NPU: compiling for NPU, \d/).waitFor();
  mock.state.held.delete('compiling for NPU');
  await page.getByText(/reading your \d+ tokens on NPU/).waitFor();
  mock.state.held.delete('prefill');
  await ended(page);
});

it('keeps partial text with the error, and tries again', async () => {
  const { page, mock } = await start();
  await say(page, 'Explain [[error-after 20]]');
  await page.getByRole('alert').getByText('The engine on NPU ended (exit 139): try again, it was restarted').waitFor();
  await expect.poll(() => answers(page).innerText()).toContain('An NPU does one thing');
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect.poll(() => mock.state.bodies.length).toBe(2);
  expect(mock.state.bodies[1]?.messages).toHaveLength(1);
  await ended(page);
  await expect.poll(() => answers(page).count()).toBe(1);
});

it('shows a refusal in the words of the server, and that it did not run', async () => {
  const { page } = await start();
  await say(page, 'Explain [[error]]');
  await page.getByRole('alert').getByText('update the NPU driver, or pin the CPU').waitFor();
  await page.getByText('Did not run').waitFor();
});

it('never takes a cut answer for a whole one', async () => {
  const { page, mock } = await start(holding('cut'));
  await say(page, 'Explain [[cut]] [[say Half an answer]]');
  await answers(page).locator('.prose').getByText('Half an answer').waitFor();
  mock.state.held.clear();
  await page.getByRole('alert').waitFor();
  await expect.poll(() => answers(page).innerText()).toContain('Half an answer');
});

it('sends the pinned device, and names the fallback', async () => {
  const { page, mock } = await start();
  await page.getByRole('button', { name: 'Device: Automatic' }).click();
  await page.getByRole('option', { name: /^CPU/ }).click();
  await say(page, 'Hello');
  await ended(page);
  expect(mock.state.bodies[0]?.options).toEqual({ device: 'cpu' });
  await page.getByRole('button', { name: 'Device: CPU' }).click();
  await page.getByRole('option', { name: /^Automatic/ }).click();
  await say(page, 'Hello [[fallback]]');
  await ended(page);
  const badge = answers(page).last().locator('.badge');
  await expect.poll(() => badge.innerText()).toMatch(/CPU[\s\S]*not NPU/);
  await badge.click();
  await page.getByText('The rules chose NPU, but it would have waited longer there. It ran on CPU.').waitFor();
});

it('goes on with an answer while another chat is on screen', async () => {
  const { page, mock } = await start({ pace: 20, ...holding('answer') });
  await say(page, 'First question');
  await answers(page).locator('.prose').getByText('An NPU').waitFor();
  await page.keyboard.press('Control+n');
  await page.getByText('The line is clear').waitFor();
  await page.getByRole('link', { name: /First question/ }).click();
  mock.state.held.clear();
  await answers(page).getByText('the battery alone.').waitFor();
  await ended(page);
});

it('follows the answer until the reader scrolls up', async () => {
  const { page, mock } = await start({ pace: 4, height: 500, ...holding('answer') });
  await say(page, 'Explain [[long]]');
  const scroller = page.getByRole('region', { name: 'Conversation' });
  const rest = () => scroller.evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);
  await answers(page).getByText('def sums').waitFor();
  await expect.poll(rest).toBeLessThan(30);
  await scroller.hover();
  await page.mouse.wheel(0, -250);
  const jump = page.getByRole('button', { name: 'Jump to latest' });
  await jump.waitFor();
  // The wheel's own movement goes on for some frames.
  const top = await scroller.evaluate(async (e) => {
    for (let still = 0, last = NaN; still < 10; last = e.scrollTop) {
      await new Promise(requestAnimationFrame);
      still = e.scrollTop === last ? still + 1 : 0;
    }
    return e.scrollTop;
  });
  mock.state.held.clear();
  await answers(page).getByText('How the pieces compare').waitFor();
  expect(Math.abs((await scroller.evaluate((e) => e.scrollTop)) - top)).toBeLessThan(2);
  await jump.click();
  await expect.poll(rest).toBeLessThan(30);
  await ended(page);
});

it('keeps the DOM of finished blocks and copies code as it is shown', async () => {
  const { page } = await start({ pace: 4 });
  await say(page, 'Explain [[long]]');
  await answers(page).getByText('Run it like this').waitFor();
  await page.evaluate(() => ((document.querySelector('.prose .code') as HTMLElement).dataset.mark = 'same'));
  await ended(page);
  expect(await page.locator('.prose .code[data-mark=same]').count()).toBe(1);
  await expect.poll(() => page.locator('.prose .code .hljs-keyword').count()).toBeGreaterThan(3);
  await page.getByRole('button', { name: 'Copy bash code' }).click();
  await expect.poll(() => copied(page)).toBe('python3 sums.py prices.csv | sort -k2 -n');
});

it('opens links outside and stays where it is', async () => {
  const { page, mock } = await start();
  await say(page, '[[say See [docs](https://example.org/a?b=(c)) and [mail](mailto:a@example.org).]]');
  await ended(page);
  const before = page.url();
  await page.locator('.prose').getByRole('link', { name: 'docs' }).click();
  await page.locator('.prose').getByRole('link', { name: 'mail' }).click({ button: 'middle' });
  await expect.poll(() => mock.state.opened).toEqual(['https://example.org/a?b=(c)', 'mailto:a@example.org']);
  expect(page.url()).toBe(before);
  expect(page.context().pages()).toHaveLength(1);
});

it('opens links in a new tab where there is no desktop', async () => {
  const { page, context } = await start({ before: (mock) => (mock.state.desktop = false) });
  await context.route('https://example.org/**', (route) => route.fulfill({ body: 'outside' }));
  await say(page, '[[say See [docs](https://example.org/).]]');
  await ended(page);
  const popup = context.waitForEvent('page');
  await page.locator('.prose').getByRole('link', { name: 'docs' }).click();
  expect((await popup).url()).toMatch(/about:blank|example\.org/);
});

it('deletes with undo, renames, and finds chats', async () => {
  const { page, mock } = await start();
  await say(page, 'Apples');
  await ended(page);
  await page.keyboard.press('Control+n');
  await say(page, 'Pears');
  await ended(page);
  const apples = page.getByRole('link', { name: 'Apples' });
  await apples.hover();
  await page.getByRole('button', { name: 'Delete Apples' }).click();
  await expect.poll(() => mock.state.chats.size).toBe(1);
  await page.getByRole('button', { name: 'Undo' }).click();
  await apples.waitFor();
  await expect.poll(() => mock.state.chats.size).toBe(2);
  await apples.focus();
  await page.keyboard.press('F2');
  await page.getByRole('textbox', { name: 'New title' }).fill('Oranges');
  await page.keyboard.press('Enter');
  await expect.poll(() => [...mock.state.chats.values()].map((c) => c.title).sort()).toEqual(['Oranges', 'Pears']);
  await page.keyboard.press('Control+k');
  await expect.poll(() => focused(page)).toBe('INPUT Search chats');
  await page.keyboard.type('ora');
  await expect.poll(() => page.locator('nav .chats a').count()).toBe(1);
  await page.keyboard.press('Enter');
  await answers(page).waitFor();
  await expect.poll(() => page.url()).toContain('#/chat/');
});

it('keeps what is typed when the chat on screen is asked for again', async () => {
  const { page } = await start();
  await box(page).fill('Half a question');
  await page.keyboard.press('Control+n');
  await page.keyboard.type(', and its end');
  expect(await box(page).inputValue()).toBe('Half a question, and its end');
  await box(page).press('Enter');
  await ended(page);
  await box(page).fill('More');
  await page.getByRole('link', { name: /^Half a question/ }).click();
  await page.evaluate(() => dispatchEvent(new HashChangeEvent('hashchange'))); // as it comes late on a busy machine
  await expect.poll(() => focused(page)).not.toBe('');
  expect(await box(page).inputValue()).toBe('More');
});

it('says that a chat could not be saved, and goes on', async () => {
  const { page } = await start({ before: (mock) => (mock.state.refuse.saveChat = 'the disk is full') });
  await say(page, 'Hello');
  await ended(page);
  await page.getByText('Not saved: the disk is full').waitFor();
  expect(await answers(page).innerText()).toContain('An NPU');
});

it('folds thoughts when the answer begins, copies the answer alone, and shows tool calls', async () => {
  const { page, mock } = await start({ pace: 20, ...holding('thoughts') });
  await say(page, 'Explain [[think]] [[tool]] [[say Just this.]]');
  const answer = answers(page).last();
  await answer.getByRole('button', { name: /^Thinking, \d/ }).waitFor();
  await answer.getByRole('region', { name: 'Thoughts' }).getByText('energy for each token').waitFor();
  mock.state.held.clear();
  await ended(page);
  const thoughts = answer.getByRole('button', { name: /^Thought for \d/ });
  await expect.poll(() => thoughts.getAttribute('aria-expanded')).toBe('false');
  await thoughts.click();
  await answer.getByText('<b>No</b> figures').waitFor();
  await answer.getByRole('list', { name: 'Tool calls' }).getByText('src/<main>.go').waitFor();
  await answer.getByRole('button', { name: 'Copy the answer' }).click();
  await expect.poll(() => copied(page)).toBe('Just this.');
  const saved = () => [...mock.state.chats.values()][0]?.messages[1];
  await expect.poll(() => saved()?.thinking).toContain('Three sentences');
  await expect.poll(() => saved()?.content).toBe('Just this.');
  await page.reload();
  await answers(page).getByRole('button', { name: 'Thoughts' }).waitFor();
});
