import { openExternal, copyText } from '../../lib/desktop';
import { toasts } from '../../lib/state/toasts.svelte';

/**
 * Keeps the page where it is: every link that leaves it goes to the user's browser, and a dropped file or link opens nothing (WebKitGTK
 * would show it in our place). Also serves the copy buttons inside answers, which are plain DOM.
 */
export function guardNavigation(target: Document): () => void {
  const onclick = (event: MouseEvent) => {
    const element = event.target instanceof Element ? event.target : null;
    const copy = element?.closest<HTMLButtonElement>('[data-copy-code]');
    if (copy) return void copyCode(copy);
    const link = element?.closest<HTMLAnchorElement>('a[href]');
    const href = link?.getAttribute('href') ?? '';
    // A download comes from our own listener and leaves the page where it is.
    if (!link || href.startsWith('#/') || (link.hasAttribute('download') && href.startsWith('/ui/'))) return;
    event.preventDefault();
    openExternal(href).catch((err: Error) => toasts.show(`Link not opened: ${err.message}`, { level: 'error' }));
  };
  const refuse = (event: Event) => event.preventDefault();
  // auxclick is the middle button: it would open a window of its own.
  const listeners: [string, EventListener][] = [
    ['click', onclick as EventListener],
    ['auxclick', onclick as EventListener],
    ['dragover', refuse],
    ['drop', refuse],
    ['submit', refuse],
  ];
  for (const [name, listener] of listeners) target.addEventListener(name, listener);
  return () => {
    for (const [name, listener] of listeners) target.removeEventListener(name, listener);
  };
}

async function copyCode(button: HTMLButtonElement): Promise<void> {
  const code = button.closest('.code')?.querySelector('code')?.textContent ?? '';
  try {
    await copyText(code);
    button.textContent = 'Copied';
    setTimeout(() => (button.textContent = 'Copy'), 1500);
  } catch (err) {
    toasts.show((err as Error).message, { level: 'error' });
  }
}
