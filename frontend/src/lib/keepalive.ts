// How long models stay loaded, as people write it and as the settings file does (a Go duration; negative: for ever).

/** "5m0s" as "5m", "-1s" as "forever". */
export function shownKeepAlive(stored: string): string {
  if (stored.startsWith('-')) return 'forever';
  return stored.replace(/(\d+[hm])0s$/, '$1').replace(/(\d+h)0m$/, '$1');
}

/** What is sent for what was typed; null when it is no duration. A bare number is seconds, as in Ollama's API. */
export function parseKeepAlive(typed: string): string | null {
  const text = typed.trim().toLowerCase();
  if (/^(forever|for ever)$/.test(text) || /^-\d/.test(text)) return '-1s';
  if (/^\d+$/.test(text)) return `${text}s`;
  return /^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text) ? text : null;
}
