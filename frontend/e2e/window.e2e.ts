import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
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

describe('with the keyboard alone', () => {
  it('chats, stops, edits, searches and reads the help', async () => {
    const { page, mock } = await start({ pace: 15, before: (m) => void m.state.held.add('answer') });
    await expect.poll(() => focused(page)).toBe('TEXTAREA Message');
    await page.keyboard.type('First line');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('second line');
    await page.keyboard.press('Enter');
    await answers(page).getByText('An NPU').waitFor();
    await page.keyboard.press('Escape');
    await ended(page);
    mock.state.held.clear();
    await page.keyboard.press('ArrowUp');
    await expect.poll(() => box(page).inputValue()).toBe('First line\nsecond line');
    await page.keyboard.type(' edited');
    await page.keyboard.press('Enter');
    await expect.poll(() => mock.state.bodies.length).toBe(2);
    await ended(page);
    expect(mock.state.bodies[1]?.messages).toEqual([{ role: 'user', content: 'First line\nsecond line edited' }]);
    await page.keyboard.press('Control+/');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await page.keyboard.press('Escape');
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0);
    await page.keyboard.press('Control+n');
    await page.getByText('The line is clear').waitFor();
    await expect.poll(() => focused(page)).toBe('TEXTAREA Message');
    await page.keyboard.press('Control+k');
    await expect.poll(() => focused(page)).toBe('INPUT Search chats');
    await page.keyboard.press('ArrowDown');
    await expect.poll(() => focused(page)).toContain('First line');
    await page.keyboard.press('Enter');
    await answers(page).waitFor();
  });

  it('picks a model and a device', async () => {
    const { page, mock } = await start();
    await page.getByRole('button', { name: 'Model: smollm2:135m' }).waitFor();
    await box(page).focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await expect.poll(() => focused(page)).toMatch(/^UL Model/);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Model: qwen3:4b' }).waitFor();
    await expect.poll(() => page.getByRole('option').count()).toBe(0);
    await page.getByRole('button', { name: /^Device:/ }).focus();
    await page.keyboard.press('ArrowDown');
    await expect.poll(() => focused(page)).toMatch(/^UL Device/);
    await page.keyboard.press('c');
    await page.keyboard.press('Enter');
    await say(page, 'Hello');
    await ended(page);
    expect(mock.state.bodies[0]).toMatchObject({ model: 'qwen3:4b', options: { device: 'cpu' } });
  });

  it('reaches every control by Tab, each with a visible focus', async () => {
    const { page } = await start({ before: (m) => m.seed(20), path: '#/requests' });
    await page.locator('[data-row="0"]').waitFor();
    const controls = await page.locator('button:visible:enabled, a:visible, input:visible, select:visible').count();
    const seen = new Set<string>();
    for (let i = 0; i < controls + 25; i++) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(() => {
        const e = document.activeElement as HTMLElement;
        const style = getComputedStyle(e);
        const label = e.closest('label');
        const outline = [style, ...(label ? [getComputedStyle(label)] : []), getComputedStyle(e.parentElement!)];
        return {
          name: `${e.tagName} ${e.getAttribute('aria-label') ?? e.textContent?.trim().slice(0, 30)}`,
          visible: outline.some((s) => s.outlineStyle !== 'none') || e === document.body,
        };
      });
      expect(at.visible, at.name).toBe(true);
      seen.add(at.name);
    }
    for (const wanted of [
      'BUTTON New chat',
      'A Requests',
      'A Settings',
      'SELECT Client',
      'BUTTON Keyboard shortcuts',
    ]) {
      expect([...seen]).toContain(wanted);
    }
    expect([...seen].some((name) => name.startsWith('DIV'))).toBe(true); // a row
  });
});

describe('for screen readers', () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

  async function violations(page: Page): Promise<string[]> {
    // Into the page's own world by the driver: the policy of the page does not apply to it.
    await page.evaluate(axe);
    return page.evaluate(async () => {
      // @ts-expect-error axe is there now
      const result = await axe.run(document, {
        runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'],
      });
      return result.violations.map(
        (v: { id: string; nodes: { target: string[]; failureSummary: string }[] }) =>
          `${v.id}: ${v.nodes.map((n) => `${n.target.join(' ')} (${n.failureSummary.split('\n').pop()?.trim()})`).join('; ')}`,
      );
    });
  }

  for (const scheme of ['light', 'dark'] as const) {
    it(`finds nothing unnamed or unreadable in any view, ${scheme}`, async () => {
      const { page, mock } = await start({ scheme, before: (m) => m.seed(30) });
      mock.state.status.notices = [{ level: 'warn', text: 'Something to know.' }];
      mock.push();
      expect(await violations(page)).toEqual([]);
      await say(page, 'Explain [[long]] [[slow 0]]');
      await ended(page);
      await page.locator('.badge').click();
      expect(await violations(page)).toEqual([]);
      await say(page, 'Explain [[error]]');
      await page.getByRole('alert').waitFor();
      await page.getByRole('button', { name: /^Device NPU/ }).click();
      expect(await violations(page)).toEqual([]);
      await page.goto(`${mock.url}#/requests/seed-3`);
      await page.getByRole('complementary', { name: 'Request' }).waitFor();
      expect(await violations(page)).toEqual([]);
      await page.getByRole('button', { name: 'Rules' }).click();
      await page.getByText('A prompt goes only where it fits whole.').waitFor();
      expect(await violations(page)).toEqual([]);
      await page.keyboard.press('Escape');
      await page.goto(`${mock.url}#/models/qwen3%3A4b`);
      await page.getByText('Did not load').waitFor();
      expect(await violations(page)).toEqual([]);
      await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
      await page.getByRole('button', { name: 'Get qwen3:8b' }).click();
      await page.getByRole('progressbar').waitFor();
      expect(await violations(page)).toEqual([]);
      await page.goto(`${mock.url}#/connect/codex`);
      await page.getByText('~/.codex/config.toml').waitFor();
      expect(await violations(page)).toEqual([]);
      await page.goto(`${mock.url}#/settings`);
      await page.getByRole('heading', { name: 'Settings' }).waitFor();
      expect(await violations(page)).toEqual([]);
      await page.keyboard.press('Control+/');
      expect(await violations(page)).toEqual([]);
    });
  }
});

describe('requests', () => {
  it('shows those of all clients live, with the record, and cancels one', async () => {
    const { page, mock } = await start({
      pace: 30,
      before: (m) => {
        m.seed(5);
        m.state.held.add('answer');
      },
    });
    await page.getByRole('link', { name: 'Requests' }).click();
    await page.locator('[data-trace="seed-0"]').waitFor();
    // Another client asks meanwhile.
    const gone = fetch(`http://127.0.0.1:${mock.port}/api/chat`, {
      method: 'POST',
      headers: { 'User-Agent': 'Zed/0.219.0', 'X-Request-ID': 'from-zed' },
      body: JSON.stringify({ model: 'smollm2:135m', messages: [{ role: 'user', content: 'Explain [[long]]' }] }),
    }).then((response) => response.text());
    const row = page.locator('[data-trace="from-zed"]');
    await row.getByText(/decoding \d+/).waitFor();
    expect(await page.locator('[data-row="0"]').getAttribute('data-trace')).toBe('from-zed');
    await row.click();
    const detail = page.getByRole('complementary', { name: 'Request' });
    await detail.getByText('Zed/0.219.0').waitFor();
    await detail.getByRole('button', { name: 'Cancel this request' }).click();
    await row.getByText('cancelled').waitFor();
    await detail.getByText('Stopped before it was complete.').waitFor();
    expect(await gone).toContain('cancelled');
  });

  it('filters, loads more, and keeps few rows in the page', async () => {
    const { page } = await start({ before: (m) => m.seed(5000), path: '#/requests' });
    await page.locator('[data-row="0"]').waitFor();
    for (let i = 0; i < 5; i++) {
      await page.locator('[role=rowgroup]').evaluate((e) => (e.scrollTop = e.scrollHeight));
      const more = page.getByRole('button', { name: 'Load older requests' });
      await more.click();
      await more.waitFor();
    }
    await page.getByText('600+').waitFor();
    expect(await page.locator('[data-row]').count()).toBeLessThan(60);
    await page.getByRole('radio', { name: 'Failed' }).check({ force: true });
    await expect.poll(() => page.locator('[data-row]').first().innerText()).toContain('error');
    await page.getByRole('combobox', { name: 'Client' }).selectOption('curl');
    await expect
      .poll(async () => new Set(await page.locator('[data-row] > :nth-child(2)').allInnerTexts()).size)
      .toBe(1);
  });

  it('searches the journal beyond what is listed, and exports what is shown', async () => {
    const { page } = await start({ before: (m) => m.seed(3000), path: '#/requests' });
    await page.locator('[data-row="0"]').waitFor();
    await page.getByRole('textbox', { name: 'Search requests' }).fill('seed-2999');
    await page.locator('[data-trace="seed-2999"]').waitFor();
    await expect.poll(() => page.locator('[data-row]').count()).toBe(1);
    const download = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Export as CSV' }).click();
    expect((await download).url()).toContain('/ui/requests/export?format=csv&q=seed-2999');
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.locator('[data-trace="seed-0"]').waitFor();
    await page.getByText(/^Last 24 hours: /).waitFor();
    await page.getByRole('combobox', { name: 'Rule' }).selectOption('context');
    await page.getByRole('combobox', { name: 'Time' }).selectOption('Last hour');
    await expect
      .poll(async () => Number(await page.locator('.total').innerText())) // one every 40 s
      .toBeGreaterThan(80);
    await expect.poll(async () => Number(await page.locator('.total').innerText())).toBeLessThan(100);
    const link = await page.getByRole('link', { name: 'Export as CSV' }).getAttribute('href');
    expect(link).toMatch(/reason=context&since=\d{4}-/);
  });

  it('shows what each device does, and leads to the request', async () => {
    const { page } = await start({
      pace: 40,
      path: '#/requests',
      before: (m) => void (m.state.held = new Set(['position 1', 'compiling for NPU', 'answer'])),
    });
    const panel = page.getByRole('region', { name: 'What each device does now' });
    await panel.getByText('clear; smollm2:135m loaded').waitFor();
    const mock = opened!.mock;
    const ask = (id: string, words: string) =>
      fetch(`http://127.0.0.1:${mock.port}/api/chat`, {
        method: 'POST',
        headers: { 'X-Request-ID': id },
        body: JSON.stringify({ model: 'smollm2:135m', messages: [{ role: 'user', content: words }] }),
      })
        .then((response) => response.text())
        .catch(() => '');
    void ask('first', 'Explain [[queue]] [[long]]');
    await panel.getByRole('button', { name: '1 waiting' }).waitFor();
    mock.state.held.delete('position 1');
    await panel.getByRole('button', { name: /compiling for NPU, \d+ s/ }).waitFor();
    mock.state.held.delete('compiling for NPU');
    await panel.getByRole('button', { name: /decoding \d+/ }).click();
    await page.getByRole('complementary', { name: 'Request' }).waitFor();
    expect(page.url()).toContain('#/requests/first');
  });

  it('tells on a device what is kept of compiled models, and why one is compiled again', async () => {
    const { page } = await start({
      before: (m) => {
        m.state.compiled = [
          {
            model: 'smollm2:135m',
            device: 'npu:0',
            label: 'NPU',
            bytes: 118e6,
            again: 'its driver changed (1.2, now 1.3)',
          },
          { model: 'qwen3:4b', device: 'gpu:0', label: 'GPU', bytes: 3e9 },
        ];
      },
    });
    await page.getByRole('button', { name: /^Device NPU/ }).click();
    await page.getByText('smollm2:135m, 118 MB', { exact: true }).waitFor();
    await page
      .getByText('smollm2:135m is compiled again at its next load: its driver changed (1.2, now 1.3).')
      .waitFor();
  });

  it('explains where something would go', async () => {
    const { page } = await start({ path: '#/requests' });
    await page.getByRole('button', { name: 'Where would it go?' }).click();
    await page.getByRole('textbox', { name: /What would be asked/ }).fill('word '.repeat(2000));
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText("2500 prompt tokens are more than the NPU's 1,024.").waitFor();
    await page.getByText('first token expected after 400 ms').waitFor();
  });

  it('shows the rules with their settings', async () => {
    const { page } = await start({ path: '#/requests' });
    await page.getByRole('button', { name: 'Rules' }).click();
    const dialog = page.getByRole('dialog', { name: 'The rules' });
    await dialog.getByText('A prompt goes only where it fits whole.').waitFor();
    await dialog.getByText('prompts up to 256 tokens, answers up to 64').waitFor();
    expect(await dialog.getByRole('listitem').count()).toBe(4);
    expect(await dialog.getByText('preference', { exact: true }).count()).toBe(1);
  });

  it('runs a request again on another device and shows both answers', async () => {
    const { page, mock } = await start({
      before: (m) => {
        m.seed(3);
        m.state.kept.set('seed-0', 'An answer.');
        m.state.held.add('replay');
      },
      path: '#/requests/seed-1',
    });
    await page.getByRole('complementary', { name: 'Request' }).getByText('Record', { exact: true }).waitFor();
    // Nothing runs out of the panel.
    const panel = page.getByRole('complementary', { name: 'Request' });
    expect(
      await panel.evaluate((e) => [e, ...e.querySelectorAll('*')].filter((x) => x.scrollWidth > e.clientWidth).length),
    ).toBe(0);
    expect(await page.getByText('Run again on').count()).toBe(0);
    await page.locator('[data-trace="seed-0"]').click();
    await page.getByRole('button', { name: 'CPU', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Run again' });
    await dialog.getByRole('region', { name: 'Again, on CPU' }).getByText('And <b>once more</b>.').waitFor();
    // It is all there before its end, piece by piece.
    await dialog.getByText('Running on CPU.').waitFor();
    expect(await dialog.getByText('17 tok/s').count()).toBe(0);
    mock.state.held.clear();
    await dialog.getByText('17 tok/s · first after 410 ms').waitFor();
    await dialog.getByRole('region', { name: 'Then, on NPU' }).getByText('An answer.').waitFor();
  });

  it('stays smooth while many requests change', async () => {
    const { page, mock } = await start({ before: (m) => m.seed(2000), path: '#/requests' });
    await page.locator('[data-row="0"]').waitFor();
    // Of all frames the one in the middle: work of the page's own shows in each of them, a machine that is busy elsewhere in a few.
    const frames = page.evaluate(
      () =>
        new Promise<number>((resolve) => {
          let last = performance.now();
          const took: number[] = [];
          const end = last + 1500;
          const tick = (now: number) => {
            took.push(now - last);
            last = now;
            if (now < end) requestAnimationFrame(tick);
            else resolve(took.sort((a, b) => a - b)[took.length >> 1]!);
          };
          requestAnimationFrame(tick);
        }),
    );
    for (let round = 0; round < 14; round++) {
      for (let i = 0; i < 100; i++) {
        mock.tell({
          ...mock.state.entries[i]!,
          trace_id: `busy-${i}`,
          state: 'decoding',
          outcome: '',
          ended_at: undefined,
          tokens_so_far: round,
        });
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(await frames).toBeLessThan(400);
    await page.getByText('decoding 13').first().waitFor();
  });
});

describe('the header', () => {
  it('stops and starts the server, and copies the real address', async () => {
    const { page, mock } = await start();
    await page.getByRole('button', { name: "Copy the server's address" }).click();
    await expect.poll(() => copied(page)).toBe('http://127.0.0.1:11434');
    await page.getByRole('button', { name: 'Stop server' }).click();
    await page.getByText('Server off').waitFor();
    mock.state.settings.port = 11500;
    await page.getByRole('button', { name: 'Start server' }).click();
    await page.getByText('127.0.0.1:11500').waitFor();
  });

  it('says what is wrong in sentences', async () => {
    const { page, mock } = await start();
    mock.state.status.runtime = { ok: false, error: 'The OpenVINO runtime was not found.' };
    mock.state.status.server = { state: 'failed', error: 'Port 11434 is held by ollama (process 4121).' };
    mock.state.status.desktop = { note: 'No tray on this desktop: closing the window quits.' };
    mock.push();
    await page.getByText('The OpenVINO runtime was not found.').waitFor();
    await page.getByText('Port 11434 is held by ollama (process 4121).').waitFor();
    await page.getByText('No tray on this desktop').waitFor();
    await page.getByRole('button', { name: 'Dismiss this notice' }).click();
    await expect.poll(() => page.getByText('No tray on this desktop').count()).toBe(0);
  });

  it('says that the listener is gone, and comes back by itself', async () => {
    const { page, mock } = await start();
    await say(page, 'Hello');
    await ended(page);
    const port = mock.port;
    await mock.close();
    await page.getByText('Signalbox does not answer.').waitFor();
    await say(page, 'Still there?');
    await page.getByRole('alert').getByText('Open it again, then try again.').waitFor();
    const { startMock } = await import('../dev/mock.mjs');
    const again = await startMock({ port });
    await page.getByText('It may have been closed or restarted').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Try again' }).click();
    await ended(page);
    await expect.poll(() => answers(page).last().innerText()).toContain('An NPU');
    await again.close();
  });
});

describe('in a narrow window', () => {
  it('has the rail as a drawer that the keyboard opens and closes', async () => {
    const { page } = await start({ width: 640 });
    await say(page, 'Hello');
    await ended(page);
    await expect.poll(() => page.getByRole('navigation').isVisible()).toBe(false);
    await page.keyboard.press('Control+k');
    await expect.poll(() => focused(page)).toBe('INPUT Search chats');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.getByRole('navigation').isVisible()).toBe(false);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide).toBeLessThanOrEqual(640);
  });
});

describe('settings', () => {
  it('saves what the listener has, shows what it refuses, and has no dead controls', async () => {
    const { page, mock } = await start({
      path: '#/settings',
      before: (m) => {
        delete m.state.settings.emulate_npu;
        delete m.state.settings.queue_limit;
        for (const key of ['never_fall_back', 'battery_prefers_npu', 'probe_models', 'keep_bodies', 'pins'])
          delete m.state.settings[key];
        m.state.settings.unknown_to_the_page = 'kept';
      },
    });
    await page.getByRole('heading', { name: 'Settings' }).waitFor();
    expect(await page.getByRole('switch').count()).toBe(0);
    expect(await page.getByLabel('Longest queue').count()).toBe(0);
    await page.getByLabel('Port', { exact: true }).fill('1');
    await page.getByRole('button', { name: 'Save: Port' }).click();
    await page.getByText('Not saved: port 1 needs more rights').waitFor();
    await page.getByLabel('Port', { exact: true }).fill('11500');
    await page.keyboard.press('Enter');
    await page.getByText('Saved', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Prefer CPU more' }).click();
    await expect.poll(() => mock.state.settings.preference).toEqual(['NPU', 'CPU', 'GPU']);
    await page.getByRole('radio', { name: 'Dark' }).check({ force: true });
    await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark');
    await page.getByLabel('Keep models loaded', { exact: true }).fill('forever');
    await page.keyboard.press('Enter');
    await expect.poll(() => mock.state.settings.keep_alive).toBe('-1s');
    expect(mock.state.settings).toMatchObject({ port: 11500, theme: 'dark', unknown_to_the_page: 'kept' });
    expect(await page.getByRole('textbox', { name: 'Client to pin' }).count()).toBe(0);
  });

  it('pins clients and models, in order, and switches what is kept', async () => {
    const { page, mock } = await start({ path: '#/settings' });
    await page.getByText('Zed with every model').waitFor();
    const add = page.getByRole('button', { name: 'Add', exact: true });
    await page.getByRole('combobox', { name: 'Device to pin to' }).selectOption('gpu');
    expect(await add.isDisabled()).toBe(true);
    await page.getByRole('combobox', { name: 'Model to pin' }).selectOption('qwen3:4b');
    await add.click();
    await page.getByRole('button', { name: 'Move up: Every client with qwen3:4b' }).click();
    const both = [
      { model: 'qwen3:4b', device: 'gpu' },
      { client: 'Zed', device: 'npu' },
    ];
    await expect.poll(() => mock.state.settings.pins).toEqual(both);
    await page.getByRole('button', { name: 'Remove: Zed with every model' }).click();
    await expect.poll(() => mock.state.settings.pins).toHaveLength(1);
    await page.getByRole('switch', { name: 'Never fall back' }).click();
    await expect.poll(() => mock.state.settings.never_fall_back).toBe(true);
    expect(await page.getByLabel('For how long').count()).toBe(0);
    await page.getByRole('switch', { name: 'Keep prompts and answers' }).click();
    await page.getByLabel('For how long', { exact: true }).fill('3');
    await page.keyboard.press('Enter');
    await expect.poll(() => mock.state.settings.bodies_retention_days).toBe(3);
    expect(mock.state.settings.something_new).toEqual({ of: ['a', 'later', 'build'] });
  });
});
