import { afterAll, afterEach, expect, it } from 'vitest';
import { box, open, shutdown, type Opened } from './browser';

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

it('shows what is installed, where it runs and why not; unloads, deletes with undo', async () => {
  const { page, mock } = await start();
  await page.getByRole('link', { name: 'Models' }).click();
  const smol = page.getByRole('button', { name: /^smollm2/ });
  await smol.getByText('NPU').waitFor();
  await page.getByRole('button', { name: /^qwen3:4b/ }).click();
  await page.getByText('Did not load: out of memory').waitFor();
  await page.getByText('8,192 tokens', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Let it run again' }).click();
  await page.getByText('Kept off this device').waitFor({ state: 'detached' });
  await smol.click();
  await page.getByRole('button', { name: 'Unload' }).click();
  await page.getByRole('button', { name: 'Unload' }).waitFor({ state: 'detached' });
  expect(mock.state.bodies.at(-1)).toMatchObject({ model: 'smollm2:135m', keep_alive: 0 });
  await page.getByRole('button', { name: 'Delete' }).click();
  await smol.waitFor({ state: 'detached' });
  await page.getByText('Deleted, until Signalbox ends').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await smol.waitFor();
  // The toast goes; what was deleted stays in the list of what takes space.
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('list', { name: 'Deleted models' }).getByText('smollm2:135m').waitFor();
  await page.getByRole('button', { name: 'Bring smollm2:135m back' }).click();
  await smol.waitFor();
  await page.getByRole('button', { name: 'Chat with it' }).click();
  await box(page).waitFor();
});

it('tells what takes space, each byte once, and frees what was compiled', async () => {
  const { page } = await start({ path: '#/models/smollm2%3A135m' });
  await page.getByText('118 MB are compiled models, which load faster: smollm2:135m for NPU.').waitFor();
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByText('118 MB are free again').waitFor();
  await page.getByText('are compiled models').waitFor({ state: 'detached' });
  await page.getByText('Models 2.5 GB').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('Models 2.4 GB').waitFor();
  await page.getByText('Deleted, until Signalbox ends 92 MB').waitFor();
});

it('gets a model: pauses, goes on, and has it in the list and the picker', async () => {
  const { page, mock } = await start({ path: '#/models', before: (m) => void m.state.held.add('download') });
  await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
  await page.getByRole('button', { name: 'Get qwen3:8b' }).click();
  const dialog = page.getByRole('dialog', { name: 'Get qwen3:8b' });
  await dialog.getByText('of 212 GB free on the disk').waitFor();
  await dialog.getByText('Runs: its weights are int4 symmetric by whole channels.').waitFor();
  await dialog.getByText('expected from its size, not measured').waitFor();
  expect(mock.state.downloads).toEqual([]); // before the first byte
  await dialog.getByText('What its makers say').click();
  await dialog.getByText('Image not loaded').waitFor();
  expect(await dialog.locator('img, script, a[href^="javascript"]').count()).toBe(0);
  expect(await dialog.getByRole('link', { name: 'paper' }).getAttribute('href')).toBe('https://example.org/paper');
  await dialog.getByRole('button', { name: 'Download' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText(/^fetching, .* of 4.8 GB/).waitFor();
  await page.getByRole('button', { name: 'Pause qwen3:8b' }).click();
  await page.getByText(/^paused, /).waitFor();
  await expect.poll(() => mock.state.downloads[0]?.state).toBe('paused');
  mock.state.held.clear();
  await page.getByRole('button', { name: 'Go on with qwen3:8b' }).click();
  await page.getByRole('heading', { name: 'Downloads' }).waitFor({ state: 'detached' });
  await page.getByText('Installed', { exact: true }).first().waitFor();
  await page.getByRole('radio', { name: /Installed/ }).check({ force: true });
  await page.getByRole('button', { name: /^qwen3:8b/ }).waitFor();
});

it('searches the hub, and says that it is offline', async () => {
  const { page, mock } = await start({
    path: '#/models',
    before: ({ state }) => {
      Object.assign(state.models[0] ?? {}, { source: 'OpenVINO/Qwen3-8B-int4-cw-ov' });
    },
  });
  await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
  await page.getByRole('button', { name: 'Search the hub' }).click();
  await page.getByText('OpenVINO/Mistral-7B-Instruct-v0.3-int4-cw-ov').waitFor();
  await page.getByRole('button', { name: 'Get OpenVINO/Mistral-7B-Instruct-v0.3-int4-cw-ov' }).waitFor();
  await expect.poll(() => page.getByRole('button', { name: 'Get OpenVINO/Qwen3-8B-int4-cw-ov' }).count()).toBe(0);
  await page.getByRole('combobox', { name: 'Size' }).selectOption('Up to 4B');
  await page.getByText('OpenVINO/Mistral-7B-Instruct-v0.3-int4-cw-ov').waitFor({ state: 'detached' });
  await expect.poll(() => page.getByRole('button', { name: 'Get qwen3:8b' }).count()).toBe(0);
  await page.getByRole('button', { name: 'Get phi4-mini' }).waitFor();
  await page.getByRole('textbox', { name: /^Name of a model/ }).fill('gemma');
  await page.keyboard.press('Enter');
  await page.getByText('OpenVINO/gemma-3-4b-it-int8-ov').waitFor();
  await page.getByText('agree to their terms').waitFor();
  mock.state.offline = true;
  await page.getByRole('checkbox', { name: 'Made for NPUs' }).check();
  await page.getByText('The hub could not be searched: huggingface.co cannot be reached').waitFor();
});

it('tells before the first byte what keeps a model away', async () => {
  const { page, mock } = await start({
    path: '#/models',
    before: (m) => {
      m.state.known.push({ ...m.state.known[1]!, name: 'qwen3:30b', size: 1.7e10 });
    },
  });
  await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
  await page.getByRole('button', { name: 'Get qwen3:30b' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Does not run: its weights are int4 asymmetric').waitFor();
  await dialog.getByText('There is not enough space').waitFor();
  expect(await dialog.getByRole('button', { name: 'Download' }).count()).toBe(0);
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  mock.state.offline = true;
  await page.getByRole('button', { name: 'Get qwen3:8b' }).click();
  await dialog.getByText('did not answer within 8s').waitFor();
  mock.state.offline = false;
  await dialog.getByRole('button', { name: 'Ask again' }).click();
  await dialog.getByRole('button', { name: 'Download' }).waitFor();
  expect(mock.state.downloads).toEqual([]);
});

it('leads to the token where the hub wants to know who asks', async () => {
  const { page } = await start({ path: '#/models' });
  await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
  await page.getByRole('textbox', { name: /^Name of a model/ }).fill('meta-llama/Llama-3.1-8B-ov');
  await page.getByRole('button', { name: 'Get Llama-3.1-8B-ov' }).click();
  await page.getByText('may be fetched only with a token').waitFor();
  await page.getByRole('button', { name: 'Give it a token' }).click();
  const dialog = page.getByRole('dialog', { name: 'Where models come from' });
  await dialog.getByLabel('Token for huggingface.co').fill('hf_right');
  await dialog.getByRole('button', { name: 'Keep' }).click();
  await dialog.getByText('Kept. It belongs to ada.').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Get Llama-3.1-8B-ov' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Download' }).waitFor();
});

it('verifies a model, repairs it, and says where it came from', async () => {
  const { page, mock } = await start({
    path: '#/models/smollm2%3A135m',
    before: (m) => {
      m.state.held.add('download');
      Object.assign(
        m.state.models.find((model) => model.name === 'smollm2:135m')!,
        {
          source: 'OpenVINO/SmolLM2-135M-int4-ov',
          revision: '0123456789abcdef',
          torn: true,
        },
      );
    },
  });
  await page.getByText('OpenVINO/SmolLM2-135M-int4-ov at 0123456789ab').waitFor();
  await page.getByText('runs: its weights are int4 symmetric in groups of 128').waitFor();
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('Not as they came: openvino_model.bin.').waitFor();
  await page.getByRole('button', { name: 'Repair' }).click();
  await page.getByRole('heading', { name: 'Downloads' }).waitFor();
  mock.state.held.clear();
  await page.getByRole('heading', { name: 'Downloads' }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('All 9 files are as they came.').waitFor();
});

it('adds a folder by hand and by dropping it, and moves the models', async () => {
  const { page, mock } = await start({
    path: '#/models',
    before: (m) => {
      m.state.status.desktop = { window: true, tray: 'shown' };
      m.state.held.add('move');
    },
  });
  await page.getByRole('button', { name: 'Add a folder' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add a folder' });
  await dialog.getByRole('textbox', { name: 'Folder of the model' }).fill('/home/ada/x.gguf');
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await dialog.getByText('pull qwen3:8b instead').waitFor();
  await dialog.getByRole('textbox', { name: 'Folder of the model' }).fill('/home/ada/My-Model');
  await dialog.getByRole('radio', { name: 'Leave them where they are' }).check({ force: true });
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('My-Model is here').waitFor();
  expect(mock.state.bodies.at(-1)).toMatchObject({ path: '/home/ada/My-Model', reference: true });
  await page.getByRole('button', { name: /^My-Model/ }).click();
  await page.getByText('in a folder of your own').waitFor();

  const drop = (uris: string) =>
    page.evaluate((text) => {
      const data = new DataTransfer();
      data.items.add(new File([''], 'Model'));
      if (text) data.setData('text/uri-list', text);
      const at = document.querySelector('.page')!;
      at.dispatchEvent(new DragEvent('dragover', { dataTransfer: data, bubbles: true, cancelable: true }));
      at.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
    }, uris);
  await drop('file:///home/ada/%C5%BE%20%E6%BC%A2/Model');
  await expect
    .poll(() => dialog.getByRole('textbox', { name: 'Folder of the model' }).inputValue())
    .toBe('/home/ada/ž 漢/Model');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  Object.assign(mock.state, { dropped: '/home/ada/told by the desktop' });
  await drop('');
  await expect
    .poll(() => dialog.getByRole('textbox', { name: 'Folder of the model' }).inputValue())
    .toBe('/home/ada/told by the desktop');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await drop('https://example.org/x');
  Object.assign(mock.state, { dropped: '' });
  await drop('');
  await dialog.getByText('write its path').waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });

  await page.getByRole('button', { name: 'Move', exact: true }).click();
  const mover = page.getByRole('dialog', { name: 'Move the models' });
  await mover.getByRole('button', { name: 'Choose' }).click();
  await mover.getByRole('button', { name: 'Move', exact: true }).click();
  await mover.getByRole('progressbar').waitFor();
  mock.state.held.clear();
  await page.getByText('The models are in /mnt/data/models').waitFor();
  await mover.waitFor({ state: 'detached' });
  await page.getByText('/mnt/data/models', { exact: true }).waitFor();
});

it('keeps a token, refuses a wrong one, and fetches from another hub', async () => {
  const { page, mock } = await start({ path: '#/models' });
  await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
  await page.getByText('From huggingface.co').waitFor();
  await page.getByRole('button', { name: 'Change' }).click();
  const dialog = page.getByRole('dialog', { name: 'Where models come from' });
  const token = dialog.getByLabel('Token for huggingface.co');
  expect(await token.getAttribute('type')).toBe('password');
  await token.fill('wrong');
  await dialog.getByRole('button', { name: 'Keep' }).click();
  await dialog.getByText('does not accept the token').waitFor();
  await token.fill('hf_right');
  await dialog.getByRole('button', { name: 'Keep' }).click();
  await dialog.getByText('Kept. It belongs to ada.').waitFor();
  await dialog.getByText('in the system’s keyring').waitFor();
  await expect.poll(() => token.inputValue()).toBe('');
  await dialog.getByRole('button', { name: 'Forget' }).click();
  await dialog.getByText('There is none').waitFor();
  await dialog.getByLabel('Hub', { exact: true }).selectOption('ModelScope');
  // What the listener says of the change comes when something else is chosen already, and does not undo that.
  let answer = () => {};
  const held = new Promise<void>((release) => (answer = release));
  await page.route('**/ui/hub', async (route) => {
    await held;
    await route.continue();
  });
  await dialog.getByRole('button', { name: 'Use it' }).click();
  await expect.poll(() => mock.state.settings.hub_endpoint).toBe('https://modelscope.cn');
  await dialog.getByLabel('Hub', { exact: true }).selectOption('Another address');
  const told = page.waitForResponse('**/ui/hub');
  answer();
  await told;
  await dialog.getByText('Token for modelscope.cn').waitFor();
  await dialog.getByLabel('Address of the hub').fill('no address');
  await expect.poll(() => dialog.getByRole('button', { name: 'Use it' }).isDisabled()).toBe(true);
  await dialog.getByRole('switch', { name: 'Editors and scripts may download' }).click();
  await expect.poll(() => mock.state.settings.refuse_client_downloads).toBe(true);
});
