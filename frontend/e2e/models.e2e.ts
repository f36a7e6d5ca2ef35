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
  await page.getByRole('button', { name: 'Chat with it' }).click();
  await box(page).waitFor();
});

it('gets a model: pauses, goes on, and has it in the list and the picker', async () => {
  const { page, mock } = await start({ path: '#/models' });
  await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
  await page.getByRole('button', { name: 'Get qwen3:8b' }).click();
  await page.getByText(/^fetching, .* of 4.8 GB/).waitFor();
  await page.getByRole('button', { name: 'Pause qwen3:8b' }).click();
  await page.getByText(/^paused, /).waitFor();
  expect(mock.state.downloads[0]?.state).toBe('paused');
  await page.getByRole('button', { name: 'Go on with qwen3:8b' }).click();
  await page.getByRole('heading', { name: 'Downloads' }).waitFor({ state: 'detached' });
  await page.getByText('Installed', { exact: true }).first().waitFor();
  await page.getByRole('radio', { name: /Installed/ }).check({ force: true });
  await page.getByRole('button', { name: /^qwen3:8b/ }).waitFor();
});

it('pulls by name where the build keeps no list of downloads, and tells why one failed', async () => {
  const { page, mock } = await start({
    path: '#/models',
    before: (m) => (m.state.missing = new Set(['GET /ui/downloads', 'POST /ui/downloads', 'GET /ui/disk'])),
  });
  await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
  const name = page.getByRole('textbox', { name: 'Name of a model, or words to search for' });
  await name.fill('broken:1b');
  await page.getByRole('button', { name: 'Get broken:1b' }).click();
  await page.getByText('Openvino_model.bin from the hub is not what the hub declares').waitFor();
  await page.getByRole('button', { name: 'Remove broken:1b from this list' }).click();
  await name.fill('OpenVINO/Qwen3-8B-int4-cw-ov');
  await page.getByRole('button', { name: 'Get Qwen3-8B-int4-cw-ov' }).click();
  await page.getByText('OpenVINO/Qwen3-8B-int4-cw-ov is here').waitFor();
  expect(mock.state.hits).toContain('POST /api/pull');
});

it('searches the hub, and says that it is offline', async () => {
  const { page, mock } = await start({ path: '#/models' });
  await page.getByRole('radio', { name: 'Get more' }).check({ force: true });
  await page.getByRole('textbox', { name: /^Name of a model/ }).fill('gemma');
  await page.keyboard.press('Enter');
  await page.getByText('OpenVINO/gemma-3-4b-it-int8-ov').waitFor();
  await page.getByText('agree to their terms').waitFor();
  mock.state.offline = true;
  await page.getByRole('checkbox', { name: 'Made for NPUs' }).check();
  await page.getByText('The hub could not be searched: huggingface.co cannot be reached').waitFor();
});

it('has no button that this build cannot do', async () => {
  const missing = [
    'POST /api/pull',
    'DELETE /api/delete',
    'GET /api/models/known',
    'GET /ui/downloads',
    'GET /ui/disk',
  ];
  const { page } = await start({
    path: '#/models/smollm2%3A135m',
    before: (m) => (m.state.missing = new Set([...missing, 'GET /ui/cards', 'POST /ui/models/restore'])),
  });
  await page.getByRole('button', { name: 'Chat with it' }).waitFor();
  expect(await page.getByRole('button', { name: 'Delete' }).count()).toBe(0);
  expect(await page.getByRole('radio', { name: 'Get more' }).count()).toBe(0);
  expect(await page.getByText('Disk').count()).toBe(0);
});
