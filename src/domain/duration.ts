const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Milliseconds of a duration such as `90d`, `24h`, `30m`, `10s` or `0`. Returns undefined for other text. */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0;
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  return unit === undefined ? undefined : Number(count) * (units[unit] as number);
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
