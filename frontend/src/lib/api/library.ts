// Models on disk and in memory, and where more come from: /api/show, /api/ps, /api/pull, /api/search, /ui/downloads, /ui/disk.
import { call, errorFromJSON, send } from './http';
import { readNDJSON } from './ndjson';
import type {
  Card,
  Compiled,
  DiskUse,
  Download,
  Found,
  HubSource,
  Known,
  LoadedModel,
  Login,
  ModelCard,
  Preflight,
  PullFrame,
  Verified,
} from './types';

export const show = (model: string) => call<ModelCard>('POST', '/api/show', { json: { model } });

export async function loaded(): Promise<LoadedModel[]> {
  return (await call<{ models: LoadedModel[] | null }>('GET', '/api/ps')).models ?? [];
}

/** An empty request that keeps nothing loaded frees the model. */
export const unload = (model: string) => send('POST', '/api/generate', { json: { model, keep_alive: 0 } });

/** What was measured of the models on the devices. */
export async function cards(): Promise<Card[]> {
  return (await call<{ cards: Card[] | null }>('GET', '/ui/cards')).cards ?? [];
}

/** Lets a model onto a device again that it was kept off. */
export const release = (device: string, model: string) =>
  send('POST', `/ui/devices/${encodeURIComponent(device)}/release`, { json: { model } });

export const remove = (model: string) => send('DELETE', '/api/delete', { json: { model } });

/** Brings back what was deleted since Signalbox was started. */
export const restore = (model: string) => send('POST', '/ui/models/restore', { json: { model } });

/** Sends a question whose answer takes a while: its lines as they come, "success" last. */
async function* follow<Line extends { status: string }>(
  path: string,
  json: unknown,
  signal: AbortSignal | undefined,
  cut: string,
): AsyncGenerator<Line> {
  const response = await send('POST', path, { json, signal });
  if (!response.body) throw new Error('The server sent no answer.');
  for await (const line of readNDJSON(response.body)) {
    const failed = errorFromJSON(200, line);
    if (failed) throw failed;
    const frame = line as Line;
    yield frame;
    if (frame.status === 'success') return;
  }
  throw new Error(cut);
}

/** Told of bytes while something takes a while. */
export type Progress = (completed: number, total: number) => void;

async function last<Line extends PullFrame>(lines: AsyncGenerator<Line>, progress: Progress): Promise<Line> {
  let end: Line | undefined;
  for await (const line of lines) {
    if (line.total) progress(line.completed ?? 0, line.total);
    end = line;
  }
  return end!;
}

/** Asks the hub about a model: whether it fits, and which devices run it. */
export const preflight = (model: string, signal?: AbortSignal) =>
  call<Preflight>('POST', '/ui/preflight', { json: { model }, signal });

/** Reads all files of a model and compares them with how they came. */
export const verify = (model: string, progress: Progress, signal?: AbortSignal) =>
  last(
    follow<PullFrame & Verified>(
      '/ui/models/verify',
      { model },
      signal,
      'The connection ended while the files were read.',
    ),
    progress,
  );

/** Begins a download of what is missing or damaged of a model. */
export const repair = (model: string) => call<Download>('POST', '/ui/models/repair', { json: { model } });

/** Takes all models to another folder. Ending it before its end leaves everything as it was. */
export const move = (to: string, progress: Progress, signal?: AbortSignal) =>
  last(follow<PullFrame>('/ui/models/move', { to }, signal, 'The connection ended while the models moved.'), progress);

/** Adds a folder with an OpenVINO model; by reference its files stay where they are. The name is the model's. */
export const importFolder = async (
  folder: { path: string; name: string; reference: boolean },
  progress: Progress,
  signal?: AbortSignal,
) =>
  (
    await last(
      follow<PullFrame & { model?: string }>(
        '/desktop/import',
        folder,
        signal,
        'The connection ended during the import.',
      ),
      progress,
    )
  ).model ?? folder.name;

/** Where models come from. */
export const source = () => call<HubSource>('GET', '/ui/hub');

/** Keeps a token for the hub; an empty one forgets it. */
export const login = (token: string) => call<Login>('PUT', '/ui/hub/token', { json: { token } });

export async function downloads(): Promise<Download[]> {
  return (await call<{ downloads: Download[] | null }>('GET', '/ui/downloads')).downloads ?? [];
}

/** Begins a download that goes on by itself, also when the page is gone. */
export const startDownload = (model: string) => call<Download>('POST', '/ui/downloads', { json: { model } });

export const steerDownload = (id: string, action: 'pause' | 'resume') =>
  send('POST', `/ui/downloads/${encodeURIComponent(id)}/${action}`);

export const cancelDownload = (id: string) => send('DELETE', `/ui/downloads/${encodeURIComponent(id)}`);

export const disk = () => call<DiskUse>('GET', '/ui/disk');

export const compiled = () => call<Compiled>('GET', '/ui/compiled');

/** Frees what is kept of compiled models: their next loads take longer. */
export const removeCompiled = () => call<{ freed: number }>('DELETE', '/ui/compiled');

/** The well-known models. It needs no network. */
export async function known(): Promise<Known[]> {
  return (await call<{ models: Known[] | null }>('GET', '/api/models/known')).models ?? [];
}

export interface SearchQuery {
  text: string;
  task: string;
  quantization: string;
  npu: boolean;
  /** Billions of parameters, at most; empty: any. */
  size: string;
  sort: string;
}

/** Searches the hub. Throws ApiError when the hub does not answer. */
export async function search(query: SearchQuery, signal?: AbortSignal): Promise<Found[]> {
  const values = new URLSearchParams({ q: query.text });
  if (query.task) values.set('task', query.task);
  if (query.quantization) values.set('quantization', query.quantization);
  if (query.npu) values.set('npu', 'true');
  if (query.size) values.set('max_billions', query.size);
  if (query.sort) values.set('sort', query.sort);
  return (await call<{ models: Found[] | null }>('GET', `/api/search?${values}`, { signal })).models ?? [];
}
