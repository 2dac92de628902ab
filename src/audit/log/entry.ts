/** Entries: their ids and MACs, and how they are read. */
import { randomBytes } from 'node:crypto';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { Entry, type LogEntry, unreadable } from '../../domain/audit.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { systemTenant } from '../records.ts';

/**
 * The format of new entries and segments. If the data that a MAC or signature covers changes, the format must change,
 * too. All older formats must still verify: see test/audit/format.test.ts.
 */
export const format = 1;

export function isKnownFormat(number: number): boolean {
  return number === format;
}

export interface AuditEntry {
  /** A UUIDv7 that was assigned when the entry was written. */
  readonly id: string;
  readonly at: number;
  /** JSON. */
  readonly text: string;
  readonly mac: Uint8Array;
}

/** Bytes of a MAC. */
export const macLength = 16;

/** Proves that a holder of the key wrote the entry. The input is unambiguous: only the text can contain spaces. */
export function macOf(
  { mac }: Pick<ChainKeys, 'mac'>,
  tenantId: string,
  { id, at, text }: Omit<AuditEntry, 'mac'>,
): Uint8Array {
  return new Bun.CryptoHasher('sha256', mac)
    .update(`sallyport audit entry ${format} ${tenantId} ${id} ${at} ${text}`)
    .digest()
    .subarray(0, macLength);
}

/**
 * The MAC of values about the log that are stored in the database, but not in a segment. `kind` says which values. The
 * MAC does not detect that values were replaced with older ones.
 */
export function valuesMac(
  { mac }: ChainKeys,
  kind: 'recorded end' | 'sink position',
  values: readonly (string | number | null)[],
): Uint8Array {
  const text = `sallyport audit ${kind} ${JSON.stringify(values)}`;
  return new Bun.CryptoHasher('sha256', mac).update(text).digest().subarray(0, macLength);
}

export function sameBytes(a: Uint8Array, b: Uint8Array | null | undefined): boolean {
  return b !== null && b !== undefined && Buffer.compare(a, b) === 0;
}

/** The last 32 bits of the ids of this process. */
const processTag = randomBytes(4).toString('hex');
/** Counts the entries of this process. 42 bits; starts at a random number below 2^40. */
let counter = Number(BigInt(`0x${randomBytes(5).toString('hex')}`));
const maxCounter = 2 ** 42;
/** The time in the last id. */
let lastTime = 0;
/** Milliseconds. An older entry than this gets its own time as the time of its id. */
const maxLate = 120_000;
const maxIdTime = 2 ** 48 - 1;

/**
 * A UUIDv7 for an entry of the time `at`. Ids of a process ascend, so an entry that counts events of the last minute
 * sorts by the time when it was written.
 */
export function newEntryId(at: number): string {
  const time = Math.min(Math.max(Math.trunc(at), 0), maxIdTime);
  if (time > lastTime || time < lastTime - maxLate) lastTime = time;
  counter = (counter + 1) % maxCounter;
  const digits = hexadecimal(lastTime, 12);
  const high = hexadecimal(Math.floor(counter / lowBits), 3);
  const low = hexadecimal(2 ** 31 + (counter % lowBits), 8);
  return uuidOf(`${digits}7${high}${low}${processTag}`);
}

/** The low 30 bits of the counter are stored after the variant of the UUID, the other 12 after its version. */
const lowBits = 2 ** 30;

/** The time in the id of an entry. Not a number if the id is no UUID. */
export function timeOfId(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

function hexadecimal(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}

export function uuidOf(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** The place of a sealed entry: its segment, and its offset from the first entry of the segment. */
export interface Place {
  readonly number: number;
  readonly offset: number;
}

/** A cursor for a place, as a UUIDv8. Ids of entries are UUIDv7, so the two differ. */
export function cursorOf({ number, offset }: Place): string {
  return uuidOf(`${hexadecimal(number, 12)}8000a000${hexadecimal(offset, 12)}`);
}

/** Returns undefined if the UUID is no cursor. */
export function placeOf(uuid: string): Place | undefined {
  const digits = uuid.replaceAll('-', '');
  if (digits.slice(12, 20) !== '8000a000') return undefined;
  return { number: Number.parseInt(digits.slice(0, 12), 16), offset: Number.parseInt(digits.slice(20), 16) };
}

/** The end of the year 9999. */
const maxTime = Date.UTC(10_000, 0) - 1;

/** If the entry was altered in the database and cannot be read, the result says so. */
export function toLogEntry(tenantId: string, { id, at, text }: Omit<AuditEntry, 'mac'>): LogEntry {
  return {
    id,
    ...(tenantId !== systemTenant && { tenant_id: tenantId }),
    at: timestamp(Math.min(Math.max(at, 0), maxTime)),
    ...(parseEntry(text) ?? unreadableEntry),
  };
}

const unreadableEntry: Entry = {
  actor: { kind: 'unknown' },
  operation: 'unknown',
  result: 'failed',
  reason: unreadable,
  from: {},
};

/** Returns undefined if the text is not the JSON of an entry. */
function parseEntry(text: string): Entry | undefined {
  try {
    return Entry.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
