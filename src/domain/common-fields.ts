/** The kinds of field that several resources share. Every string that gets in has passed one of these. */
import { z } from 'zod';
import { codePoint } from './escape.ts';
import { redactSecrets } from './key.ts';

/** A UUID of any version in lower-case form; ids made here are version 7. */
export const Id = z
  .string()
  .regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, 'must be a UUID')
  .transform((id) => id.toLowerCase())
  .meta({ format: 'uuid' });

/** Absent and null mean the same. */
export function optional<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** An optional list: absent and null mean empty. */
export function list<S extends z.ZodType<unknown[]>>(schema: S) {
  return schema
    .nullish()
    .transform((value) => (value ?? []) as z.output<S>)
    .meta({ default: [] });
}

/** What is kept in the clear must not be what opens something. */
export function containsNoSecret(value: string): boolean {
  return redactSecrets(value) === value;
}

export const secretError = 'must not hold a key or a nonce, since it is kept in the clear';

/** A text of so many characters. */
export function text(shortest: number, longest: number) {
  return z
    .string()
    .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')
    .refine(containsNoSecret, secretError)
    .refine((value) => isWithin(value, shortest, longest), `must have ${shortest} to ${longest} characters`)
    .meta({ minLength: shortest, maxLength: longest });
}

/** Whether every text in it is, names of fields included. */
export function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isWellFormed);
  return Object.entries(value).every(([name, part]) => name.isWellFormed() && isWellFormed(part));
}

/** Code points, not UTF-16 units. */
export function isWithin(value: string, shortest: number, longest: number): boolean {
  if (value.length > 2 * longest) return false;
  const length = [...value].length;
  return length >= shortest && length <= longest;
}

/** Adds a check that names the first forbidden character and where it is, counted from 1 in code points. */
function without<S extends z.ZodType<string>>(schema: S, forbidden: RegExp, what: string) {
  return schema.superRefine((value, context) => {
    const match = forbidden.exec(value);
    if (!match) return;
    const position = [...value.slice(0, match.index)].length + 1;
    context.addIssue(`must not contain ${what}: ${codePoint(match[0])} at position ${position}`);
  });
}

/** They make text look different from what it is: a name could pass for another. */
function withoutBidi<S extends z.ZodType<string>>(schema: S) {
  return without(schema, /\p{Bidi_Control}/u, 'bidirectional control characters');
}

/** A text in one line. */
export function line(shortest: number, longest: number) {
  return without(text(shortest, longest), /\p{Cc}/u, 'control characters');
}

/** A text in one line that people read as a name. */
export function label(shortest: number, longest: number) {
  return withoutBidi(line(shortest, longest));
}

/** What to look for in a name. Names from before some characters were refused can be found as well. */
export const NameFilter = line(1, 200);

export const Name = label(1, 200).refine((value) => /\S/u.test(value), 'must not be only white space');

export const Description = withoutBidi(
  without(text(0, 1000), /[^\P{Cc}\n\t]/u, 'control characters other than line feed and tab'),
);

const isoDateTime =
  /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?$/i;

/** The years that a date-time with four digits can name, after its offset is taken into account. */
const earliest = Date.parse('0000-01-01T00:00:00Z');
const latest = Date.parse('9999-12-31T23:59:59.999Z');

/** Milliseconds since 1970 of an ISO 8601 date-time, without an offset meaning UTC; nothing if impossible. */
export function parseDateTime(value: string): number | undefined {
  const match = isoDateTime.exec(value);
  if (!match) return undefined;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const millisecond = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3));
  const [offsetHour, offsetMinute] = [Number(match[9] ?? 0), Number(match[10] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59 || offsetHour > 23 || offsetMinute > 59) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  // A day or a month that does not exist ends up in another month.
  if (date.getUTCMonth() !== month - 1) return undefined;
  date.setUTCHours(hour, minute, second, millisecond);
  const offset = (offsetHour * 60 + offsetMinute) * 60_000;
  const moment = match[8] === '-' ? date.getTime() + offset : date.getTime() - offset;
  return moment >= earliest && moment <= latest ? moment : undefined;
}

/** A date-time on its way in: text to milliseconds. */
export const DateTime = z
  .string()
  .transform((value, context) => {
    const moment = parseDateTime(value);
    if (moment !== undefined) return moment;
    context.addIssue('must be an ISO 8601 date-time, such as 2030-01-31T12:00:00Z');
    return z.NEVER;
  })
  .meta({ format: 'date-time' });

/** A date-time on its way out: UTC with milliseconds. */
export const Timestamp = z.iso.datetime({ precision: 3 });

export function timestamp(moment: number): string {
  return new Date(moment).toISOString();
}
