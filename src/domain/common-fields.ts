/** Field types that several resources share. Every string in a request passes one of them. */
import { z } from 'zod';
import { type Errors, throwIfInvalid } from './error.ts';
import { codePoint } from './escape.ts';
import { redactSecrets } from './key.ts';

/** A UUID of any version, converted to lower case. Generated ids are version 7. */
export const Id = z
  .string()
  .regex(
    /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
    'must be a UUID, such as 0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d',
  )
  .transform((id) => id.toLowerCase())
  .meta({ format: 'uuid' });

/** Types of fields in responses. */
export const [Text, Uuid, Flag, Count] = [z.string(), z.uuid(), z.boolean(), z.int().min(0)];

/** `null` means absent. */
export function optional<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** An optional list: absent and `null` mean empty. */
export function optionalList<S extends z.ZodType<unknown[]>>(schema: S) {
  return schema.nullish().transform((value) => (value ?? []) as z.output<S>);
}

/** Original indexes of lists whose duplicates were removed, for the paths of validation errors. */
const originalIndexes = new WeakMap<readonly unknown[], readonly number[]>();

/** Removes entries with the same identity as an earlier one. */
export function dedupe<T>(list: T[], identityOf: (entry: T) => unknown): T[] {
  const firstIndex = new Map<unknown, number>();
  for (const [index, entry] of list.entries()) {
    const identity = identityOf(entry);
    if (!firstIndex.has(identity)) firstIndex.set(identity, index);
  }
  const indexes = [...firstIndex.values()];
  const unique = indexes.map((index) => list[index] as T);
  originalIndexes.set(unique, indexes);
  return unique;
}

/** Removes entries, and keeps the original indexes of the others. */
export function keep<T>(list: readonly T[], isKept: (entry: T) => boolean): T[] {
  const indexes = [...list.keys()].filter((index) => isKept(list[index] as T));
  const kept = indexes.map((index) => list[index] as T);
  const original = indexes.map((index) => originalIndex(list, index));
  originalIndexes.set(kept, original);
  return kept;
}

/** The index of an entry before entries were removed. */
export function originalIndex(list: readonly unknown[], index: number): number {
  return originalIndexes.get(list)?.[index] ?? index;
}

/** For fields that are stored unencrypted: they must not contain a key or a nonce. */
export function containsNoSecret(value: string): boolean {
  return redactSecrets(value) === value;
}

export const secretError = 'must not contain a key or a nonce, because it is stored unencrypted';

/** Lengths are in Unicode code points. */
export function text(min: number, max: number) {
  return z
    .string()
    .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')
    .refine((value) => hasLength(value, min, max), {
      error: `must have ${min} to ${max} characters`,
      abort: true,
    })
    .refine(containsNoSecret, secretError)
    .meta({ minLength: min, maxLength: max });
}

/** Whether every string in a JSON value is well-formed Unicode, including field names. */
export function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isWellFormed);
  return Object.entries(value).every(([name, part]) => name.isWellFormed() && isWellFormed(part));
}

/** Counts code points, not UTF-16 code units. */
export function hasLength(value: string, min: number, max: number): boolean {
  if (value.length > 2 * max) return false;
  const length = [...value].length;
  return length >= min && length <= max;
}

/**
 * A map with at most `max` entries. Checks their number first, so that a large object is rejected before its entries are
 * validated.
 */
export function mapOf<N extends z.ZodType<string, string>, V extends z.ZodType>(
  max: number,
  name: N,
  value: V,
) {
  return z
    .unknown()
    .refine(
      (entries) => !Object.hasOwn(Object(entries), '__proto__'),
      'must not contain an entry named __proto__',
    )
    .refine((entries) => hasAtMost(entries, max), `must have at most ${max} entries`)
    .pipe(z.record(name, value));
}

function hasAtMost(entries: unknown, max: number): boolean {
  return typeof entries !== 'object' || entries === null || Object.keys(entries).length <= max;
}

/** The error gives the first forbidden character and its position, counted from 1 in code points. */
function without<S extends z.ZodType<string>>(schema: S, forbidden: RegExp, what: string) {
  return schema.superRefine((value, context) => {
    const match = forbidden.exec(value);
    if (!match) return;
    const position = [...value.slice(0, match.index)].length + 1;
    context.addIssue(`must not contain ${what}: ${codePoint(match[0])} at position ${position}`);
  });
}

/** Bidirectional controls change the displayed order of characters, so one name could look like another. */
function withoutBidi<S extends z.ZodType<string>>(schema: S) {
  return without(schema, /\p{Bidi_Control}/u, 'bidirectional control characters');
}

/** Text without line breaks and other control characters. */
export function line(min: number, max: number) {
  return without(text(min, max), /\p{Cc}/u, 'control characters');
}

/** A line that is displayed as a name. */
export function label(min: number, max: number) {
  return withoutBidi(line(min, max));
}

/** A substring of a name. Less strict than `Name`, so that it finds names that were valid when they were stored. */
export const NameFilter = line(1, 200);

export const Name = label(1, 200).refine((value) => /\S/u.test(value), 'must not be only white space');

export const Description = withoutBidi(
  without(text(0, 1000), /[^\P{Cc}\n\t]/u, 'control characters other than line feed and tab'),
);

const isoDateTime =
  /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?$/i;

/** The range of date-times with a four-digit year, in UTC. */
const earliest = Date.parse('0000-01-01T00:00:00Z');
const latest = Date.parse('9999-12-31T23:59:59.999Z');

/** Milliseconds since 1970. No offset means UTC. Returns undefined if the date-time is malformed or does not exist. */
export function parseDateTime(value: string): number | undefined {
  const match = isoDateTime.exec(value);
  if (!match) return undefined;
  const part = (index: number) => Number(match[index] ?? 0);
  const [year, month, day] = [part(1), part(2), part(3)];
  const [hour, minute, second] = [part(4), part(5), part(6)];
  const millisecond = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3));
  const [offsetHour, offsetMinute] = [part(9), part(10)];
  if (hour > 23 || minute > 59 || second > 59 || offsetHour > 23 || offsetMinute > 59) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  // `Date` turns a day that does not exist, such as February 30, into a day of another month.
  if (date.getUTCMonth() !== month - 1) return undefined;
  date.setUTCHours(hour, minute, second, millisecond);
  const offset = (offsetHour * 60 + offsetMinute) * 60_000;
  const time = match[8] === '-' ? date.getTime() + offset : date.getTime() - offset;
  return time >= earliest && time <= latest ? time : undefined;
}

const noDateTime = 'must be an ISO 8601 date-time, such as 2030-01-31T12:00:00Z';

/** A date-time in a request, parsed to milliseconds since 1970. */
export const DateTime = z
  .string({ error: ({ input }) => (input === undefined ? undefined : noDateTime) })
  .transform((value, context) => {
    const time = parseDateTime(value);
    if (time !== undefined) return time;
    context.addIssue(noDateTime);
    return z.NEVER;
  })
  .meta({ format: 'date-time' });

/** A date-time in a response: UTC with milliseconds. */
export const Timestamp = z.iso.datetime({ precision: 3 });

export function timestamp(time: number): string {
  return new Date(time).toISOString();
}

/** Who created and last changed a resource, in responses. */
export const changeFields = {
  created_by: Uuid.optional().describe('The application that created it.'),
  created_at: Timestamp.describe('When it was created.'),
  modified_by: Uuid.optional().describe(
    'The application that last changed it. Absent if it was never changed.',
  ),
  modified_at: Timestamp.optional().describe('When it was last changed. Absent if it was never changed.'),
  expires_at: Timestamp.optional().describe(
    'When it expires: from then on it is treated as deleted. Absent if it never expires.',
  ),
};

/** A field that updates may repeat. Accepts any value, which the endpoint compares with the stored one. */
export function readOnly(schema: { readonly type: string; [more: string]: unknown }) {
  return optional(z.unknown().meta(schema)).meta({
    readOnly: true,
    description: 'Read-only. May be sent unchanged; a different value is rejected.',
  });
}

/** Converts ids and dates to the form that responses use. */
export function normalizedField(field: string, sent: unknown): unknown {
  if (!field.endsWith('_at')) return Id.safeParse(sent).data ?? sent;
  const time = DateTime.safeParse(sent).data;
  return time === undefined ? sent : timestamp(time);
}

export function readOnlyErrorsOf(differing: readonly string[]): Errors {
  return Object.fromEntries(
    differing.map((field) => [field, ['is read-only: omit it or send its current value']]),
  );
}

/** Throws `validation_failed` if a time in a request has passed. */
export function requireFuture(time: number | undefined, now: number, field = 'expires_at'): void {
  if (time !== undefined && time <= now) throwIfInvalid({ [field]: ['must be in the future'] });
}

/** No path, query, fragment or credentials, and no wildcard. */
const originShape = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\\\s*;,'"]+$/i;

/** The origin in the form that browsers send in `Origin`. Returns undefined if the text is not an origin. */
export function originOf(text: string): string | undefined {
  if (!originShape.test(text) || !URL.canParse(text)) return undefined;
  const { protocol, host } = new URL(text);
  const origin = `${protocol}//${host.toLowerCase()}`;
  // Parsing resolves percent-encoding in the host.
  return originShape.test(origin) ? origin : undefined;
}

const Origin = z
  .string()
  .max(300)
  .transform((text, context) => {
    const origin = originOf(text);
    if (origin !== undefined) return origin;
    context.addIssue(
      'must be an origin such as https://shop.example or http://localhost:3000, without a path',
    );
    return z.NEVER;
  });

export const Origins = z
  .array(Origin)
  .max(20)
  .transform((origins) => [...new Set(origins)]);
