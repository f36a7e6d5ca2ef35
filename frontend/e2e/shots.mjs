// Takes pictures of the window's states against the mock, for looking at. node e2e/shots.mjs DIR
import { mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { startMock } from '../dev/mock.mjs';

const out = process.argv[2] ?? 'test-results/shots';
const only = process.argv[3] ? new RegExp(process.argv[3]) : /./;
mkdirSync(out, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium' });

async function shot(
  name,
  { scheme = 'light', width = 1180, height = 780, before, path = '' } = {},
  act = async () => {},
) {
  if (!only.test(name)) return;
  const mock = await startMock();
  seedChats(mock);
  before?.(mock);
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, deviceScaleFactor: 1 });
  const page = await context.newPage();
  page.on('console', (m) => m.type() === 'error' && console.log(name, 'console:', m.text()));
  page.on('pageerror', (e) => console.log(name, 'pageerror:', e.message));
  await page.goto(mock.url + path);
  await page.waitForSelector('main');
  await page.waitForTimeout(250);
  await act(page, mock);
  await page.screenshot({ path: `${out}/${name}.png` });
  await context.close();
  await mock.close();
}

function seedChats(mock) {
  const day = 86_400_000;
  const titles = [
    ['Sum the columns of a CSV file', 0.01],
    ['What an NPU does better than a CPU', 0.1],
    ['Shorten a mail to the landlord', 1],
    ['SQLite or PostgreSQL for a small shop', 1.1],
    ['Regular expression for dates', 3],
    ['Plan a week in the Ardennes by train and bicycle, with rest days', 4],
    ['Go generics and iterators', 12],
  ];
  titles.forEach(([title, ago], i) => {
    const at = new Date(Date.now() - ago * day).toISOString();
    mock.state.chats.set(`c${i}`, {
      id: `c${i}`,
      title,
      model: 'smollm2:135m',
      created_at: at,
      updated_at: at,
      messages: [],
    });
  });
}

async function say(page, text, wait = true) {
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  await page.keyboard.press('Enter');
  if (wait) await page.locator('.badge, .error').last().waitFor({ timeout: 15_000 });
}

for (const scheme of ['light', 'dark']) {
  await shot(`empty-${scheme}`, { scheme });
  await shot(`answer-${scheme}`, { scheme }, async (page) => {
    await say(page, 'Explain in three sentences what an NPU does better than a CPU.');
    await page.locator('.badge').click();
    await page.waitForTimeout(200);
  });
  await shot(`thinking-${scheme}`, { scheme }, async (page) => {
    await say(page, 'What does an NPU do better? [[think]] [[tool]]');
    await page.getByRole('button', { name: /^Thought/ }).click();
  });
  await shot(`long-${scheme}`, { scheme }, async (page) => {
    await say(
      page,
      'Write a Python function that reads a CSV file and prints the sum of each column. [[long]] [[slow 0]]',
    );
    await page
      .locator('.scroll')
      .first()
      .evaluate((e) => (e.scrollTop = 60));
    await page.waitForTimeout(200);
  });
  await shot(`requests-${scheme}`, { scheme, before: (m) => m.seed(240), path: '#/requests' }, async (page) => {
    await page.locator('[data-trace="seed-16"]').click();
    await page.waitForTimeout(200);
  });
  await shot(`connect-${scheme}`, { scheme, before: (m) => m.seed(20), path: '#/connect/continue' }, async (page) =>
    page.getByText('config.yaml').waitFor(),
  );
  await shot(
    `panel-${scheme}`,
    {
      scheme,
      before: (m) => {
        m.seed(60);
        m.state.kept.set('seed-0', 'An answer.');
      },
      path: '#/requests/seed-0',
    },
    async (page, mock) => {
      const ask = (id, words, device) =>
        fetch(`http://127.0.0.1:${mock.port}/api/chat`, {
          method: 'POST',
          headers: { 'X-Request-ID': id, 'User-Agent': 'Zed/0.219.0' },
          body: JSON.stringify({
            model: 'smollm2:135m',
            messages: [{ role: 'user', content: words }],
            options: { device },
          }),
        }).catch(() => {});
      void ask('a', 'Explain [[long]] [[slow 60]]', 'npu');
      void ask('b', 'Explain [[queue]]', 'cpu');
      await page.waitForTimeout(2600);
      void ask('c', 'Explain [[queue]]', 'npu');
      await page.waitForTimeout(500);
    },
  );
  await shot(`explain-${scheme}`, { scheme, path: '#/requests' }, async (page) => {
    await page.getByRole('button', { name: 'Where would it go?' }).click();
    await page.locator('#explain-prompt').fill('word '.repeat(2000));
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText('What is known').waitFor();
  });
  await shot(`models-${scheme}`, { scheme, path: '#/models/qwen3%3A4b' }, async (page) =>
    page.getByText('Did not load').waitFor(),
  );
  await shot(`models-more-${scheme}`, { scheme, path: '#/models' }, async (page) => {
    await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
    await page.getByRole('button', { name: 'Get qwen3:8b' }).click();
    await page.getByRole('button', { name: 'Download', exact: true }).click();
    await page.getByRole('button', { name: 'Search the hub' }).click();
    await page.waitForTimeout(600);
  });
  const more = (name) => async (page) => {
    await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
    await page.getByRole('button', { name: `Get ${name}` }).click();
    await page.waitForTimeout(700);
  };
  await shot(`models-get-${scheme}`, { scheme, path: '#/models' }, more('phi4-mini'));
  await shot(
    `models-get-offline-${scheme}`,
    { scheme, path: '#/models', before: (m) => (m.state.offline = true) },
    more('qwen3:8b'),
  );
  await shot(`models-import-${scheme}`, { scheme, path: '#/models' }, async (page) => {
    await page.getByRole('button', { name: 'Add a folder' }).click();
    await page.getByRole('textbox', { name: 'Folder of the model' }).fill('/home/ada/models/My-Model-int4-ov');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.waitForTimeout(200);
  });
  await shot(`models-move-${scheme}`, { scheme, path: '#/models' }, async (page) => {
    await page.getByRole('button', { name: 'Move', exact: true }).click();
    await page.getByRole('textbox', { name: 'New folder' }).fill('/mnt/data/models');
    await page.getByRole('button', { name: 'Move', exact: true }).last().click();
    await page.waitForTimeout(300);
  });
  await shot(`models-source-${scheme}`, { scheme, path: '#/models' }, async (page) => {
    await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
    await page.getByRole('button', { name: 'Change' }).click();
    await page.getByLabel('Token for huggingface.co').fill('hf_right');
    await page.getByRole('button', { name: 'Keep' }).click();
    await page.waitForTimeout(200);
  });
  await shot(
    `models-damaged-${scheme}`,
    {
      scheme,
      path: '#/models/smollm2%3A135m',
      before: (m) => {
        const [smol, , embedder] = m.state.models;
        Object.assign(smol, { source: 'OpenVINO/SmolLM2-135M-int4-ov', revision: '0123456789abcdef', torn: true });
        Object.assign(embedder, { damaged: 'The folder with its files is not there: /mnt/usb/all-minilm.' });
        m.state.trash.push({ ...embedder, name: 'phi4-mini', size: 2.6e9 });
      },
    },
    async (page) => {
      await page.getByRole('button', { name: 'Verify' }).click();
      await page.getByText('Not as they came').waitFor();
    },
  );
  await shot(`settings-${scheme}`, { scheme, path: '#/settings' });
}
await shot('streaming', {}, async (page) => {
  await say(page, 'Write a Python function. [[long]] [[slow 8]]', false);
  await page.waitForTimeout(3000);
});
await shot('thinking-now', { width: 640, height: 760 }, async (page) => {
  await say(page, 'What does an NPU do better? [[think]] [[slow 60]]', false);
  await page.waitForTimeout(2500);
});
await shot('loading', { scheme: 'dark' }, async (page) => {
  await say(page, 'Hello [[queue]]', false);
  await page.waitForTimeout(5200);
});
await shot('error', {}, async (page) => say(page, 'Explain. [[error-after 24]]'));
await shot('error-dark', { scheme: 'dark' }, async (page) => say(page, 'Explain. [[error]]'));
await shot('offline', {}, async (page, mock) => {
  await say(page, 'Explain in three sentences what an NPU does.');
  await mock.close().catch(() => {});
  await page.waitForSelector('text=does not answer');
  await page.waitForTimeout(300);
});
await shot('narrow', { width: 640, height: 760 }, async (page) => {
  await say(page, 'Compare. [[long]] [[slow 0]]');
});
await shot('narrow-requests', { width: 640, height: 760, before: (m) => m.seed(60), path: '#/requests' });
await shot('narrow-connect', { width: 640, height: 760, path: '#/connect/codex' });
await shot('narrow-models', { width: 640, height: 760, path: '#/models/smollm2%3A135m' });
await shot('narrow-drawer', { width: 640, height: 760 }, async (page) => {
  await page.getByRole('button', { name: 'Chats and views' }).click();
  await page.waitForTimeout(300);
});
await shot('fallback', {}, async (page) => {
  await say(page, 'Explain in three sentences what an NPU does better. [[fallback]]');
  await page.locator('.badge').click();
});
await shot('notices', {
  before: (m) => {
    m.state.status.runtime = {
      ok: false,
      error:
        'The OpenVINO runtime was not found: run “signalbox runtime install”, or unpack it into runtime/linux-amd64 next to the program.',
    };
    m.state.status.server = {
      state: 'failed',
      url: '',
      error: 'Port 11434 is held by ollama (process 4121). Stop it, or choose another port in Settings.',
    };
    m.state.status.desktop.note = 'No tray on this desktop: closing the window quits.';
    m.state.status.devices = [{ ...m.state.status.devices[2], state: 'unavailable', note: 'No runtime.' }];
  },
});
await shot('picker', {}, async (page) => {
  await page.getByRole('button', { name: /^Model:/ }).click();
  await page.waitForTimeout(150);
});
await shot('help-dark', { scheme: 'dark' }, async (page) => page.keyboard.press('Control+/'));
await shot(
  'mock-device',
  {
    before: (m) => {
      m.state.status.engine = 'fake';
      m.state.status.devices = [
        { ...m.state.status.devices[0], class: 'mock', label: 'mock', name: 'Fake engine', id: 'mock:0' },
      ];
    },
  },
  async (page) => say(page, 'Hello'),
);
await browser.close();
