/** Formats dates and numbers for the locale of the browser. Words such as `2 days ago` are English, as all texts. */
import { formatDuration } from '../../../src/domain/duration.ts';

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_557_600_000],
  ['month', 2_629_800_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const exact = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
});
const short = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
});
const count = new Intl.NumberFormat();

export function timeAgo(moment: string, now: number): string {
  const difference = Date.parse(moment) - now;
  const unit = units.find(([, size]) => Math.abs(difference) >= size);
  return unit ? relative.format(Math.round(difference / unit[1]), unit[0]) : 'just now';
}

export function formatDate(moment: string): string {
  return exact.format(Date.parse(moment));
}

/** The time zone of a time, such as `UTC` or `GMT+1`. It depends on the time: EST in January, EDT in July. */
export function timeZoneAt(time: number): string {
  return exact.formatToParts(time).find(({ type }) => type === 'timeZoneName')?.value ?? '';
}

/** Without year and seconds, such as `15 Nov, 14:00`. */
export function formatTime(time: number): string {
  return short.format(time);
}

/** Such as `15 Nov, 14:00 – 15:00`. The second date is shown only if it is another day. */
export function formatPeriod({ from, to }: { from: number; to: number }): string {
  return short.formatRange(from, to);
}

export function formatNumber(value: number): string {
  return count.format(value);
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${formatNumber(value)} ${value === 1 ? one : many}`;
}

/** The time until `moment` in its two largest units, such as `2d 3h`. */
export function countdown(moment: string, now: number): string {
  const remaining = Math.max(0, Date.parse(moment) - now);
  return remaining === 0 ? 'expired' : formatDuration(remaining);
}

const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function isUuid(text: string): boolean {
  return uuidPattern.test(text);
}

export function shortId(id: string): string {
  return id.length > 16 ? `…${id.slice(-6)}` : id;
}
