const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Milliseconds of a duration such as `90d`, `24h`, `30m`, `10s` or `0`. Returns undefined for other text. */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0;
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  return unit === undefined ? undefined : Number(count) * (units[unit] as number);
}

/** In its two largest units, such as `2d 3h`. From 60 days on only in days. */
export function formatDuration(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  const days = Math.floor(seconds / 86_400);
  if (days > 60) return `${days}d`;
  const parts: [number, string][] = [
    [days, 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return '0s';
  const largest = parts.slice(first, first + 2);
  return largest.map(([value, unit]) => `${value}${unit}`).join(' ');
}

/** Milliseconds, or whole months of the UTC calendar. */
export type Age = number | { readonly months: number };

/** An age such as `90d`, `24h` or `3mo`. Returns undefined for other text. */
export function parseAge(text: string): Age | undefined {
  const [, months] = /^([1-9]\d{0,3})mo$/.exec(text) ?? [];
  return months === undefined ? parseDuration(text) : { months: Number(months) };
}

/** Entries from before this time have reached the age. With months, it is the start of a month. */
export function timeOfAge(now: number, age: Age): number {
  if (typeof age === 'number') return now - age;
  const date = new Date(now);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - age.months);
}
