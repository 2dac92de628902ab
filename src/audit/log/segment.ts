/**
 * A segment: up to 1024 entries of one chain in one signed row. It is the unit of the chain, the index, delivery,
 * archives, retention and verification.
 *
 * The signature covers the header. The header has the hash of the segment before, a hash of the MACs of the entries and
 * a hash of the rows of the index. So it covers everything except how the entries are compressed.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { promisify } from 'node:util';
import { deflateRaw, deflateRawSync, inflateRawSync } from 'node:zlib';
import type { DbTime } from '../../db/db.ts';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { runSteps, type Steps } from '../../domain/steps.ts';
import { type Position, parsePosition } from '../records.ts';
import { type AuditEntry, macLength, timeOfId, uuidOf } from './entry.ts';

/** Maximum entries of a segment, and maximum bytes of their JSON. A single entry may be larger. */
export const maxEntries = 1024;
export const maxBytes = 1024 * 1024;

/** The fields have the names of an export. Hashes and the signature are hexadecimal. */
export interface SegmentHeader {
  readonly tenantId: string;
  readonly format: number;
  readonly number: number;
  /** The positions of the first and the last entry in the chain. */
  readonly first: number;
  readonly last: number;
  readonly earliest_at: number;
  readonly latest_at: number;
  /** The latest time in the entries and their ids, up to this segment. */
  readonly sealed_at: number;
  /** No entry of this or an earlier segment is older than the `sealed_at` before it by more than this. */
  readonly max_delay: number;
  /** Entries by result. */
  readonly success: number;
  readonly denied: number;
  readonly failed: number;
  /** The hash of the segment before. */
  readonly previous: string;
  /** The end of the system chain at the time of sealing, as NUMBER:HASH. Absent in the system chain itself. */
  readonly system?: string | undefined;
  /** The id of the signing key. */
  readonly key: string;
  /** The hash of the MACs of the entries. */
  readonly content: string;
  /** The hash of the rows of the index. */
  readonly index: string;
}

/** Numbers from `first` to `last`. */
export interface Range {
  readonly first: number;
  readonly last: number;
}

export type Counts = Pick<SegmentHeader, 'success' | 'denied' | 'failed'>;

export interface SignedHeader extends SegmentHeader {
  readonly signature: string;
}

/** The fields that the signature covers, in order. The text also has the format. */
const signedFields = [
  ...(['tenantId', 'number', 'first', 'last', 'earliest_at', 'latest_at', 'sealed_at', 'max_delay'] as const),
  ...(['success', 'denied', 'failed', 'previous', 'system', 'key', 'content', 'index'] as const),
];

/** The text that the signature covers. */
export function headerText(header: SegmentHeader): string {
  const values = signedFields.map((field) => header[field] ?? null);
  return `sallyport audit segment ${header.format} ${JSON.stringify(values)}`;
}

/** The hash of a segment, which covers all segments before it. */
export function hashOf(header: SegmentHeader): string {
  return sha256(headerText(header));
}

export function positionOf(header: SegmentHeader): Position {
  return { number: header.number, hash: hashOf(header) };
}

export function sha256(data: string | Uint8Array): string {
  return new Bun.CryptoHasher('sha256').update(data).digest('hex');
}

export function contentHashOf(entries: readonly Pick<AuditEntry, 'mac'>[]): string {
  return sha256(Buffer.concat(entries.map(({ mac }) => mac)));
}

/** A pending entry that was inserted into the table can have any time. It is sealed, and verification reports it. */
const maxTime = 2 ** 52;

/** The times of a segment, from its entries and the segment before. */
export function timesOf(
  entries: readonly Pick<AuditEntry, 'id' | 'at'>[],
  before: Pick<SegmentHeader, 'sealed_at' | 'max_delay'>,
): Pick<SegmentHeader, 'earliest_at' | 'latest_at' | 'sealed_at' | 'max_delay'> {
  let [earliest_at, latest_at, latestId] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (const entry of entries) {
    const at = Math.min(Math.max(entry.at, 0), maxTime);
    earliest_at = Math.min(earliest_at, at);
    latest_at = Math.max(latest_at, at);
    latestId = Math.max(latestId, timeOfId(entry.id) || 0);
  }
  return {
    earliest_at,
    latest_at,
    sealed_at: Math.max(before.sealed_at, latest_at, latestId),
    max_delay: Math.max(before.max_delay, before.sealed_at - earliest_at),
  };
}

interface KeyPair {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly id: string;
}

const keyPairs = new WeakMap<Uint8Array, KeyPair>();

/** Cached: parsing the key takes longer than signing. */
function keyPair({ signing }: ChainKeys): KeyPair {
  const cached = keyPairs.get(signing);
  if (cached) return cached;
  const privateKey = createPrivateKey({ key: Buffer.from(signing), format: 'der', type: 'pkcs8' });
  const publicKey = createPublicKey(privateKey);
  const id = sha256(publicKey.export({ type: 'spki', format: 'der' })).slice(0, 16);
  const pair = { privateKey, publicKey, id };
  keyPairs.set(signing, pair);
  return pair;
}

export function signingKeyId(keys: ChainKeys): string {
  return keyPair(keys).id;
}

/** Returns hexadecimal. */
export function signText(keys: ChainKeys, text: string): string {
  return sign(null, Buffer.from(text), keyPair(keys).privateKey).toString('hex');
}

export function isSignedText(keys: ChainKeys, text: string, signature: string): boolean {
  return verify(null, Buffer.from(text), keyPair(keys).publicKey, Buffer.from(signature, 'hex'));
}

/** Entries per chunk. A reader decompresses only the chunks that it needs. */
export const chunkSize = 128;
const lengthBytes = 4;
/** More than any chunk has. Protects against altered data that decompresses to gigabytes. */
const maxOutputLength = 64 * 1024 * 1024;

const compress = promisify(deflateRaw) as (
  data: Uint8Array,
  options: { level: number; dictionary: Uint8Array },
) => Promise<Buffer>;

/** The column `entries`: the MACs, then each chunk with its length. */
export async function packEntries(entries: readonly AuditEntry[]): Promise<Uint8Array> {
  const parts = entries.map(({ mac }) => mac);
  for (let start = 0; start < entries.length; start += chunkSize) {
    const lines = entries.slice(start, start + chunkSize).map(toLine);
    const data = Buffer.from(lines.join('\n'));
    // For little data, another thread takes more time than it saves.
    const chunk = await (data.length > 4096 ? compress : deflateRawSync)(data, { level: 6, dictionary });
    const length = Buffer.alloc(lengthBytes);
    length.writeUInt32BE(chunk.length);
    parts.push(length, chunk);
  }
  return Buffer.concat(parts);
}

/**
 * The time is left out if it equals that of the id. Ids have 32 digits, and JSON contains no line breaks, unless the entry
 * was inserted into the table: then its MAC is wrong anyway.
 */
function toLine({ id, at, text }: AuditEntry): string {
  const digits = id.replaceAll('-', '').padEnd(32, '0').slice(0, 32);
  return `${digits}${at === timeOfId(id) ? '' : at} ${text}`.replaceAll('\n', ' ');
}

/** Reads the entries of a row. Chunks are decompressed when they are needed, and only once. */
export class PackedEntries {
  readonly length: number;
  readonly bytes: Buffer;
  readonly #chunks: (readonly AuditEntry[] | undefined)[] = [];
  #decompressed = 0;

  constructor({ first, last }: Pick<SegmentHeader, 'first' | 'last'>, bytes: Uint8Array) {
    this.length = Math.min(Math.max(last - first + 1, 0), maxEntries);
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Bytes of memory. Characters can take two bytes. */
  get heldBytes(): number {
    return this.bytes.length + 2 * this.#decompressed;
  }

  /** Returns undefined if the entry was altered and cannot be read. */
  at(offset: number): AuditEntry | undefined {
    return this.chunk(Math.floor(offset / chunkSize))[offset % chunkSize];
  }

  /** All entries. Undefined if some cannot be read. */
  all(): AuditEntry[] | undefined {
    const entries = this.readable();
    return entries.length === this.length ? entries : undefined;
  }

  /** The entries in chunks that can be decompressed. */
  readable(): AuditEntry[] {
    return runSteps(this.read());
  }

  /** Like `readable`, in steps. */
  *read(): Steps<AuditEntry[]> {
    const entries: AuditEntry[] = [];
    for (let index = 0; index * chunkSize < this.length; index++) {
      yield;
      entries.push(...this.chunk(index));
    }
    return entries;
  }

  chunk(index: number): readonly AuditEntry[] {
    const known = this.#chunks[index];
    if (known) return known;
    const entries = this.#read(index);
    this.#chunks[index] = entries;
    return entries;
  }

  /** Returns no entries if the chunk is damaged. */
  #read(index: number): AuditEntry[] {
    try {
      let start = this.length * macLength;
      for (let skipped = 0; skipped < index; skipped++) start += lengthBytes + this.bytes.readUInt32BE(start);
      const end = start + lengthBytes + this.bytes.readUInt32BE(start);
      const data = this.bytes.subarray(start + lengthBytes, end);
      const text = inflateRawSync(data, { dictionary, maxOutputLength }).toString();
      this.#decompressed += text.length;
      const lines = text.split('\n');
      const first = index * chunkSize;
      const expected = Math.min(chunkSize, this.length - first);
      return lines.length === expected ? lines.map((line, at) => this.#toEntry(line, first + at)) : [];
    } catch {
      return [];
    }
  }

  #toEntry(line: string, offset: number): AuditEntry {
    const space = line.indexOf(' ', 32);
    const id = uuidOf(line.slice(0, 32));
    const at = space === 32 ? timeOfId(id) : Number(line.slice(32, space));
    const mac = this.bytes.subarray(offset * macLength, (offset + 1) * macLength);
    return { id, at, text: line.slice(space + 1), mac };
  }
}

/** Field → column of `audit_segments`. `system` has two columns. */
const numberColumns = {
  ...{ format: 'format', number: 'number', first: 'first_seq', last: 'last_seq' },
  ...{ earliest_at: 'earliest_at', latest_at: 'latest_at', sealed_at: 'sealed_at', max_delay: 'max_delay' },
  ...{ success: 'successes', denied: 'denials', failed: 'failures' },
} as const;
const hashColumns = {
  ...{ previous: 'previous', content: 'content_hash', index: 'index_hash', signature: 'signature' },
} as const;
const numberFields = Object.entries(numberColumns) as [keyof typeof numberColumns, keyof HeaderRow][];
const hashFields = Object.entries(hashColumns) as [keyof typeof hashColumns, keyof HeaderRow][];

type Columns<C extends object, T> = { readonly [K in C[keyof C] & string]: T };

/** A row of `audit_segments` without the entries. */
export type HeaderRow = Columns<typeof numberColumns, DbTime> &
  Columns<typeof hashColumns, Uint8Array> & {
    readonly tenant_id: string;
    readonly key_id: string;
    readonly system_number: DbTime | null;
    readonly system_hash: Uint8Array | null;
  };

export type SegmentRow = HeaderRow & { readonly entries: Uint8Array };

/** The columns of `HeaderRow`. */
export const headerColumns = [
  ...['tenant_id', 'key_id', 'system_number', 'system_hash'],
  ...Object.values({ ...numberColumns, ...hashColumns }),
].join(', ');

export const insertSegment = `insert into audit_segments (${headerColumns}, entries)
  values (${Array.from({ length: 20 }, (_, at) => `$${at + 1}`).join(', ')})`;

/** The parameters of `insertSegment`. */
export function segmentValues(segment: SignedHeader, entries: Uint8Array) {
  const system = parsePosition(segment.system ?? '');
  return [
    ...[segment.tenantId, segment.key, system?.number ?? null, system ? bytesOf(system.hash) : null],
    ...numberFields.map(([field]) => segment[field]),
    ...hashFields.map(([field]) => bytesOf(segment[field])),
    entries,
  ];
}

export function toHeader(row: HeaderRow): SignedHeader {
  const { tenant_id: tenantId, key_id: key } = row;
  const system = row.system_hash === null ? '' : `${row.system_number}:${hexOf(row.system_hash)}`;
  const header: Record<string, string | number> = { tenantId, key };
  for (const [field, column] of numberFields) header[field] = Number(row[column]);
  for (const [field, column] of hashFields) header[field] = hexOf(row[column] as Uint8Array);
  if (parsePosition(system)) header.system = system;
  return header as unknown as SignedHeader;
}

export function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}

export function bytesOf(hex: string): Uint8Array {
  return Buffer.from(hex, 'hex');
}

/**
 * Text that entries often contain. Compression refers to it, so that small segments need few bytes. It is part of the
 * format of segments: a changed dictionary cannot decompress existing entries. Phrases at the end are cheaper to refer to.
 */
const dictionary: Uint8Array = Buffer.from(
  `
Windows NT 10.0; Win64; x64Macintosh; Intel Mac OS X 10_15_7X11; Linux x86_64Linux; Android 10; K.0.0.0 Mobile S
afari/537.36) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/ Safari/605.1.15iPhone; CPU iPhone OS  like Mac O
S X Mobile/15E148 Safari/604.1 Gecko/20100101 Firefox/ Edg/{"actor":{"kind":"operator"},"result":"success","from
":{},"operation":"{"actor":{"kind":"anonymous"},"from":{"ip":"applicationsessiontokentenantpermissioncontainer.c
reate.update.delete.authorize.regenerate.read:create:read:update:delete"result":"denied","reason":""result":"fai
led","reason":"permission_missingunauthenticated"decision":{"reason":"","missing":{"permission":""}},"resource":
{"ids":[" does not have  in its permissions or rulesthis applicationthis session"decision":{"transform":"mask","
rule":{"of":"application","rule":mask","rule":{"of":"session","rule":redact","rule":{"of":"application","rule":r
edact","rule":{"of":"session","rule":"permissions""rule":{"of":""resource":{"purpose":""trace_id":""reported_by"
:""count":"result":"success""name":"rules":"metadata":"data":"expires_at":"priority":"transform":""container":"/
127.0.0.1audit.heads{"actor":{"kind":"application","id":"{"actor":{"kind":"session","id":"","application_id":"",
"authorized_by":""},"from":{"ip":"","user_agent":""},"request_id":"","operation":"token.read","resource":{"ids":
[""],"container":"//"},"decision":{"transform":"reveal","rule":{"of":"application","rule":reveal","rule":{"of":"
session","rule":,"description":"}},"result":"success"}"}},"result":"success"}"},"result":"success"}","entity":{"
kind":"","id":""},"resource":{"ids":["",""difference":{"":{"from":,"to":Mozilla/5.0 () AppleWebKit/537.36 (KHTML
, like Gecko) Chrome/.0.0.0 Safari/537.36{"actor":{"kind":"operator"},"result":"success","from":{},"operation":"
audit.heads","difference":{"{"actor":{"kind":"session","id":"","application_id":"","authorized_by":""},"from":{"
ip":"","user_agent":""},"request_id":"","operation":"token.read","resource":{"ids":[""],"container":"/"},"decisi
on":{"transform":"reveal","rule":{"of":"session","rule":0}},"result":"success"}{"actor":{"kind":"application","i
d":"","application_id":""},"from":{"ip":"127.0.0.1","user_agent":""},"request_id":"","operation":"token.read","r
esource":{"ids":[""],"container":"/"},"decision":{"transform":"reveal","rule":{"of":"application","rule":0}},"re
sult":"success"}
`.replaceAll('\n', ''),
);
