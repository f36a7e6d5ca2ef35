import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { startMock, type Mock } from '../dev/mock.mjs';

/** A page on a mock of its own, and what to end afterwards. */
export interface Opened {
  page: Page;
  mock: Mock;
  context: BrowserContext;
  /** Errors of the page itself: a test that ends with one has failed. */
  errors: string[];
  close(): Promise<void>;
}

let browser: Promise<Browser> | undefined;

export function launch(): Promise<Browser> {
  browser ??= chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium' });
  return browser;
}

export async function shutdown(): Promise<void> {
  await (await browser)?.close();
  browser = undefined;
}

interface Options {
  path?: string;
  pace?: number;
  width?: number;
  height?: number;
  scheme?: 'light' | 'dark';
  before?: (mock: Mock) => void;
}

export async function open(options: Options = {}): Promise<Opened> {
  const mock = await startMock({ pace: options.pace ?? 8 });
  options.before?.(mock);
  const context = await (
    await launch()
  ).newContext({
    viewport: { width: options.width ?? 1180, height: options.height ?? 780 },
    colorScheme: options.scheme ?? 'light',
    // Colours are looked at: not those half way of a transition.
    reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  // Below the test's own time: what was waited for is then named.
  context.setDefaultTimeout(45_000);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('pageerror', (err) => errors.push(err.message));
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content Security Policy|Uncaught/.test(message.text()))
      errors.push(message.text());
  });
  await page.goto(mock.url + (options.path ?? ''));
  await page.getByRole('group', { name: 'Devices' }).getByRole('button').first().waitFor();
  return {
    page,
    mock,
    context,
    errors,
    async close() {
      await context.close();
      await mock.close();
    },
  };
}

export const box = (page: Page) => page.getByRole('textbox', { name: 'Message' });

/** Says something, and waits until it was sent: what is written before the list of models has come goes with it, not at once. */
export async function say(page: Page, text: string): Promise<void> {
  await box(page).fill(text);
  await box(page).press('Enter');
  await page.waitForFunction(() => document.querySelector<HTMLTextAreaElement>('[aria-label="Message"]')?.value === '');
}

/** What was copied; copying ends a moment after its click. */
export const copied = (page: Page) => page.evaluate(() => navigator.clipboard.readText());

/** What has the focus. */
export const focused = (page: Page) =>
  page.evaluate(() => {
    const e = document.activeElement;
    return `${e?.tagName} ${e?.getAttribute('aria-label') ?? e?.textContent?.trim() ?? ''}`;
  });

export const answers = (page: Page) => page.getByRole('article', { name: 'Answer' });

/** Waits until the last answer has ended, however. */
export const ended = (page: Page) => page.getByRole('button', { name: 'Send' }).waitFor();
