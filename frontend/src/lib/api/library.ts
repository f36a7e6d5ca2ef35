// Models on disk and in memory, and where more come from: /api/show, /api/ps, /api/pull, /api/search, /ui/downloads, /ui/disk.
import { call, changes, errorFromJSON, optional, send } from './http';
import { readNDJSON } from './ndjson';
import type { Card, DiskUse, Download, Found, Known, LoadedModel, ModelCard, PullFrame } from './types';

export const show = (model: string) => call<ModelCard>('POST', '/api/show', { json: { model } });

export async function loaded(): Promise<LoadedModel[]> {
  return (await call<{ models: LoadedModel[] | null }>('GET', '/api/ps')).models ?? [];
}

/** An empty request that keeps nothing loaded frees the model. */
export const unload = (model: string) => send('POST', '/api/generate', { json: { model, keep_alive: 0 } });

/** What was measured of the models on the devices. Undefined where this build measures nothing. */
export async function cards(): Promise<Card[] | undefined> {
  const found = await optional<{ cards: Card[] | null }>('GET', '/ui/cards');
  return found && (found.cards ?? []);
}

/** Lets a model onto a device again that it was kept off. */
export const release = (device: string, model: string) =>
  send('POST', `/ui/devices/${encodeURIComponent(device)}/release`, { json: { model } });

export const remove = (model: string) => send('DELETE', '/api/delete', { json: { model } });

/** Brings back what was deleted since Signalbox was started. */
export const restore = (model: string) => send('POST', '/ui/models/restore', { json: { model } });

export const canRemove = () => changes('DELETE', '/api/delete');
export const canRestore = () => changes('POST', '/ui/models/restore');
export const canPull = () => changes('POST', '/api/pull');

/**
 * Fetches a model: the frames as they come, "success" last. Throws ApiError when it fails, and a plain Error when the stream ends
 * before it said how.
 */
export async function* pull(model: string, signal: AbortSignal): AsyncGenerator<PullFrame> {
  const response = await send('POST', '/api/pull', { json: { model, stream: true }, signal });
  if (!response.body) throw new Error('The server sent no answer.');
  for await (const line of readNDJSON(response.body)) {
    const failed = errorFromJSON(200, line);
    if (failed) throw failed;
    const frame = line as PullFrame;
    yield frame;
    if (frame.status === 'success') return;
  }
  throw new Error('The connection ended before the model was there.');
}

/** Undefined where this build keeps no list of downloads. */
export async function downloads(): Promise<Download[] | undefined> {
  const found = await optional<{ downloads: Download[] | null }>('GET', '/ui/downloads');
  return found && (found.downloads ?? []);
}

/** Begins a download that goes on by itself, also when the page is gone. */
export const startDownload = (model: string) => call<Download>('POST', '/ui/downloads', { json: { model } });

export const steerDownload = (id: string, action: 'pause' | 'resume') =>
  send('POST', `/ui/downloads/${encodeURIComponent(id)}/${action}`);

export const cancelDownload = (id: string) => send('DELETE', `/ui/downloads/${encodeURIComponent(id)}`);

export const disk = () => optional<DiskUse>('GET', '/ui/disk');

/** Undefined where this build has no such list. It needs no network. */
export async function known(): Promise<Known[] | undefined> {
  const found = await optional<{ models: Known[] | null }>('GET', '/api/models/known');
  return found && (found.models ?? []);
}

export interface SearchQuery {
  text: string;
  task: string;
  quantization: string;
  npu: boolean;
  sort: string;
}

/** Searches the hub. Undefined where this build cannot; an ApiError when the hub does not answer. */
export async function search(query: SearchQuery, signal?: AbortSignal): Promise<Found[] | undefined> {
  const values = new URLSearchParams({ q: query.text });
  if (query.task) values.set('task', query.task);
  if (query.quantization) values.set('quantization', query.quantization);
  if (query.npu) values.set('npu', 'true');
  if (query.sort) values.set('sort', query.sort);
  const found = await optional<{ models: Found[] | null }>('GET', `/api/search?${values}`, { signal });
  return found && (found.models ?? []);
}
