// The only caller of /desktop/ endpoints. Everything works without a desktop: in a plain browser they answer 404.
import { ApiError, call, send } from './api/http';

/** Whether url is one that may be opened outside: nothing that starts a program or reads a file. */
export function openable(url: string): boolean {
  try {
    return ['http:', 'https:', 'mailto:'].includes(new URL(url).protocol);
  } catch {
    return false;
  }
}

/** Opens url in the user's browser, never in this page. */
export async function openExternal(url: string): Promise<void> {
  if (!openable(url)) return;
  try {
    await send('POST', '/desktop/open', { json: { url } });
  } catch (err) {
    if (!(err instanceof ApiError) || err.status !== 404) throw err;
    window.open(url, '_blank', 'noopener,noreferrer');
  }
}

/**
 * Asks for a folder with the desktop's own dialog: its path, "" when none was chosen. Undefined where there is no such dialog: in a
 * browser, or without a desktop.
 */
export async function chooseFolder(title: string): Promise<string | undefined> {
  try {
    return (await call<{ path: string }>('POST', '/desktop/folder', { json: { title } })).path;
  } catch (err) {
    if (err instanceof ApiError && err.status === 404) return undefined;
    throw err;
  }
}

/** The local path that was just dropped: as the page is told, or as the desktop saw it. "" where neither knows. */
export async function droppedPath(data: DataTransfer | null): Promise<string> {
  const told = pathIn(data);
  if (told) return told;
  try {
    return (await call<{ path: string }>('POST', '/desktop/dropped')).path;
  } catch {
    return ''; // no desktop: it is asked for
  }
}

function pathIn(data: DataTransfer | null): string {
  for (const line of (data?.getData('text/uri-list') ?? '').split(/\r?\n/)) {
    if (!line.startsWith('file:///')) continue;
    try {
      const path = decodeURIComponent(new URL(line).pathname).replace(/\/$/, '');
      return /^\/[A-Za-z]:/.test(path) ? path.slice(1).replaceAll('/', '\\') : path;
    } catch {
      return '';
    }
  }
  return '';
}

/** Ends Signalbox: window, tray and server. */
export async function quit(): Promise<void> {
  await send('POST', '/desktop/quit');
}

/** Puts text on the clipboard; also where the clipboard API is missing (a page that is no secure context). */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch {
    // Falls through to the old way.
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.setAttribute('readonly', '');
  area.className = 'visually-hidden';
  document.body.append(area);
  const focused = document.activeElement as HTMLElement | null;
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  focused?.focus();
  if (!copied) throw new Error('The clipboard refused the text.');
}
