// The listener's JSON endpoints, one function each.
import { call, send } from './http';
import type { Chat, ChatSummary, Connect, Entry, Model, Settings, Status } from './types';

export const status = () => call<Status>('GET', '/ui/status');

export const setServer = (running: boolean) => call<Status>('POST', '/ui/server', { json: { running } });

export const settings = () => call<Settings>('GET', '/ui/settings');

/** Saves and returns what is in force afterwards. */
export async function saveSettings(next: Settings): Promise<Settings> {
  return (await call<Settings | undefined>('PUT', '/ui/settings', { json: next })) ?? settings();
}

export async function models(): Promise<Model[]> {
  return (await call<{ models: Model[] | null }>('GET', '/api/tags')).models ?? [];
}

/** How clients are connected; with the settings for one model, or for that of new chats. */
export const connect = (model = '') =>
  call<Connect>('GET', `/ui/connect${model ? `?${new URLSearchParams({ model })}` : ''}`);

export async function chats(): Promise<ChatSummary[]> {
  return (await call<{ chats: ChatSummary[] | null }>('GET', '/ui/chats')).chats ?? [];
}

export async function chat(id: string): Promise<Chat> {
  const found = await call<Chat>('GET', `/ui/chats/${encodeURIComponent(id)}`);
  return { ...found, messages: found.messages ?? [] };
}

/** keepalive lets the save outlive the page, for small chats: browsers cap such bodies at 64 KiB. */
export const saveChat = (c: Chat, keepalive = false) =>
  send('PUT', `/ui/chats/${encodeURIComponent(c.id)}`, { json: c, keepalive });

export const deleteChat = (id: string) => send('DELETE', `/ui/chats/${encodeURIComponent(id)}`);

export async function requests(limit: number, before?: string): Promise<{ requests: Entry[]; more: boolean }> {
  const query = new URLSearchParams({ limit: String(limit), ...(before ? { before } : {}) });
  const page = await call<{ requests: Entry[] | null; more?: boolean }>('GET', `/ui/requests?${query}`);
  return { requests: page.requests ?? [], more: page.more ?? false };
}

export const cancelRequest = (traceId: string) => send('POST', `/ui/requests/${encodeURIComponent(traceId)}/cancel`);

export const request = (traceId: string) => call<Entry>('GET', `/ui/requests/${encodeURIComponent(traceId)}`);
