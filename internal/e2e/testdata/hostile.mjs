// The window's page in Chromium, with an answer that tries to get out of it. Speaks JSON with the test that starts it: the
// configuration on standard input, what was seen on standard output.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const { frontend, page: address, others, markdown, executable } = JSON.parse(readFileSync(0, 'utf8'));
const { chromium } = createRequire(`${frontend}/package.json`)('playwright-core');
const seen = { elsewhere: [], referers: [], addresses: [], dialogs: [], texts: [] };

const browser = await chromium.launch({ executablePath: executable });
try {
  const context = await browser.newContext();
  const page = await context.newPage();
  const home = new URL(address).host;
  context.on('request', (request) => {
    const url = new URL(request.url());
    if (/^(https?|wss?):$/.test(url.protocol) && url.host !== home) seen.elsewhere.push(request.url());
    const referer = request.headers().referer;
    if (referer) seen.referers.push(referer);
  });
  page.on('dialog', (dialog) => {
    seen.dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  const answers = page.getByRole('article', { name: 'Answer' });
  const send = page.getByRole('button', { name: 'Send' });
  const ask = async (text) => {
    const before = await answers.count();
    await page.getByRole('textbox', { name: 'Message' }).fill(text);
    await send.click();
    await answers.nth(before).waitFor();
    await send.waitFor();
    seen.texts.push(await answers.nth(before).innerText());
  };

  await page.goto(address);
  await page.getByRole('button', { name: /^Model: (?!No model|Loading)/ }).waitFor();
  await ask(`[[say ${markdown}]]`);
  // Drawn, and a request of the page's own answered: what the answer wanted to fetch has been sent before it.
  await page.evaluate(async () => {
    for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
    await (await fetch('/ui/status')).text();
  });
  const cdp = await context.newCDPSession(page);
  seen.history = (await cdp.send('Page.getNavigationHistory')).entries.map((entry) => entry.url);
  seen.address = page.url();
  seen.cookies = await context.cookies(`http://${home}/`);
  seen.inPage = await page.evaluate(() => ({ cookie: document.cookie, stored: JSON.stringify({ ...localStorage, ...sessionStorage }) }));
  const elsewhere = seen.elsewhere.splice(0); // until here nothing may have gone out

  // The other servers as pages of their own, in the same browser: what they get of the session, and what they can do to it.
  for (const other of others) await (await context.newPage()).goto(other);
  seen.elsewhere = elsewhere;
  await page.reload();
  await answers.first().waitFor(); // the chat is back
  await ask('[[say still here]]');
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
