export interface Shortcut {
  keys: string[];
  what: string;
}

/** What the help dialog lists. */
export const shortcuts: Shortcut[] = [
  { keys: ['Ctrl', 'N'], what: 'New chat (in a browser: Alt + N)' },
  { keys: ['Ctrl', 'K'], what: 'Search chats' },
  { keys: ['Enter'], what: 'Send' },
  { keys: ['Shift', 'Enter'], what: 'New line' },
  { keys: ['Esc'], what: 'Stop the answer' },
  { keys: ['↑'], what: 'Edit your last message, when the box is empty' },
  { keys: ['Ctrl', '/'], what: 'This list' },
];

/** The action that a key press stands for anywhere in the window. */
export function globalAction(event: KeyboardEvent): 'new' | 'search' | 'help' | null {
  const command = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  if (key === 'n' && !event.shiftKey && command !== event.altKey) return 'new';
  if (key === 'k' && command && !event.altKey) return 'search';
  if (key === '/' && command) return 'help';
  return null;
}
