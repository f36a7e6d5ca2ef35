// Numbers and times as people read them. Unknown is null or undefined, and shows as a dash where a column needs something.

const whole = new Intl.NumberFormat('en');

export const count = (n: number) => whole.format(n);

export const tokens = (n: number) => `${count(n)} ${n === 1 ? 'token' : 'tokens'}`;

/** 0.8 ms, 42 ms, 1.3 s, 2 min 5 s */
export function duration(ms: number): string {
  if (ms < 1) return ms === 0 ? '0 ms' : '<1 ms';
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_500) return `${(ms / 1000).toFixed(ms < 9_950 ? 1 : 0)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export const speed = (tokensPerSecond: number) =>
  `${tokensPerSecond < 10 ? tokensPerSecond.toFixed(1) : count(Math.round(tokensPerSecond))} tok/s`;

export function ordinal(n: number): string {
  const teen = n % 100 >= 11 && n % 100 <= 13;
  return `${n}${teen ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th')}`;
}

export function bytes(n: number): string {
  if (n < 999_500) return `${Math.max(1, Math.round(n / 1000))} kB`;
  return n < 999_500_000
    ? `${Math.round(n / 1_000_000)} MB`
    : `${(n / 1_000_000_000).toFixed(n < 99_950_000_000 ? 1 : 0)} GB`;
}

export const clock = (at: Date) =>
  at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

/** The time alone for today, with the day before that. */
export function moment(at: Date, now: Date): string {
  if (at.toDateString() === now.toDateString()) return clock(at);
  const day = at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
  return `${day} ${at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })}`;
}

/** just now, 4 min ago, 3 h ago, and the day after that */
export function ago(at: Date, now: Date): string {
  const minutes = Math.floor((now.getTime() - at.getTime()) / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  const day = dayName(at, now);
  if (day === 'Today') return `${Math.floor(minutes / 60)} h ago`;
  return day === 'Yesterday' ? 'yesterday' : `on ${day}`;
}

const dayStart = (at: Date) => new Date(at.getFullYear(), at.getMonth(), at.getDate());

/** Today, Yesterday, Friday 27 November, 3 March 2025 */
export function dayName(at: Date, now: Date): string {
  const days = Math.round((dayStart(now).getTime() - dayStart(at).getTime()) / 86_400_000);
  if (days <= 0) return 'Today';
  if (days === 1) return 'Yesterday';
  const sameYear = at.getFullYear() === now.getFullYear();
  return at.toLocaleDateString('en-GB', {
    day: 'numeric',
    month: 'long',
    ...(sameYear ? { weekday: 'long' } : { year: 'numeric' }),
  });
}

/** Puts items under the day they belong to, keeping their order. */
export function groupByDay<T>(items: T[], at: (item: T) => Date, now: Date): { day: string; items: T[] }[] {
  const groups: { day: string; items: T[] }[] = [];
  for (const item of items) {
    const day = dayName(at(item), now);
    const last = groups[groups.length - 1];
    if (last?.day === day) last.items.push(item);
    else groups.push({ day, items: [item] });
  }
  return groups;
}
