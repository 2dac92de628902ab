/** MACs, chain links and signatures of the audit log. Shared by the service and the offline verification. */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto';
import type { Db, DbTime } from '../engine/db.ts';

/**
 * The format of rows and checkpoints that are written now. A change to what their MAC, link or signature covers is a
 * new format. Rows of every older format must still verify: see test/store/audit/format.test.ts.
 */
export const auditFormat = 1;

export interface AuditRow {
  readonly id: string;
  readonly format: number;
  readonly tenant_id: string | null;
  readonly at: DbTime;
  readonly actor_id: string | null;
  readonly operation: string;
  readonly entity_id: string | null;
  readonly result: string;
  readonly entry: string;
}

export const auditColumns = 'id, format, tenant_id, at, actor_id, operation, entity_id, result, entry';

export interface ChainKeys {
  /** For the MACs of rows and links. */
  readonly mac: Uint8Array;
  /** For the signatures of checkpoints: an Ed25519 key in PKCS #8. */
  readonly signing: Uint8Array;
}

/**
 * Whether rows are chained in the transaction that writes them. SQLite runs transactions one at a time anyway. On
 * PostgreSQL every transaction would wait for the last link, so a background job chains rows after their commit.
 */
export function isChainedOnWrite({ dialect }: Pick<Db, 'dialect'>): boolean {
  return dialect === 'sqlite';
}

/** Precedes the first link. */
export const genesis = new Uint8Array(32);

/** New keys, packed to be wrapped. */
export function newChainKeys(): Uint8Array {
  const { privateKey } = generateKeyPairSync('ed25519');
  return Buffer.concat([randomBytes(32), privateKey.export({ type: 'pkcs8', format: 'der' })]);
}

export function unpackChainKeys(packed: Uint8Array): ChainKeys {
  return { mac: packed.slice(0, 32), signing: packed.slice(32) };
}

/** The text that the MAC of a row covers, by format. */
const rowTexts: Readonly<Record<number, (row: AuditRow) => string>> = { 1: rowText };

/** Unambiguous. `entry` is JSON already, so it is appended without encoding it again. */
function rowText(row: AuditRow): string {
  const { id, format, tenant_id, at, actor_id, operation, entity_id, result, entry } = row;
  const fields = [format, id, tenant_id, Number(at), actor_id, operation, entity_id, result];
  return `sallyport audit row ${JSON.stringify(fields)}${entry}`;
}

export function isKnownFormat(format: number): boolean {
  return Object.hasOwn(rowTexts, format);
}

/** Proves that a holder of the key wrote the row. Throws if the format is unknown. */
export function macFor({ mac }: ChainKeys, row: AuditRow): Uint8Array {
  const text = rowTexts[row.format];
  if (!text) throw new Error(`audit row ${row.id} has the unknown format ${row.format}`);
  return new Bun.CryptoHasher('sha256', mac).update(text(row)).digest();
}

/** Binds a row, through its MAC, to its number and to every row before it. The MAC covers the format. */
export function link({ mac }: ChainKeys, previous: Uint8Array, seq: number, rowMac: Uint8Array): Uint8Array {
  return new Bun.CryptoHasher('sha256', mac)
    .update(`sallyport audit link ${seq} `)
    .update(previous)
    .update(rowMac)
    .digest();
}

export interface Checkpoint {
  readonly format: number;
  readonly seq: number;
  readonly at: number;
  readonly hash: Uint8Array;
}

export interface SignedCheckpoint extends Checkpoint {
  readonly signature: Uint8Array;
}

export const checkpointColumns = 'format, seq, at, hash, signature';

/** A position in the chain as operators store it elsewhere: SEQ:HASH. */
export function anchorOf({ seq, hash }: Pick<Checkpoint, 'seq' | 'hash'>): string {
  return `${seq}:${Buffer.from(hash).toString('hex')}`;
}

/** The text that a checkpoint signs. */
export function checkpointText({ format, seq, at, hash }: Checkpoint): string {
  return `sallyport audit checkpoint ${format} ${seq} ${at} ${Buffer.from(hash).toString('hex')}`;
}

export function signText({ signing }: ChainKeys, text: string): Uint8Array {
  return sign(null, Buffer.from(text), privateKey(signing));
}

/** Returns a function that checks signatures made with these keys. */
export function signatureCheck({ signing }: ChainKeys): (text: string, signature: Uint8Array) => boolean {
  const key = createPublicKey(privateKey(signing));
  return (text, signature) => verify(null, Buffer.from(text), key, signature);
}

const privateKeys = new WeakMap<Uint8Array, KeyObject>();

/** Cached: parsing the key takes longer than signing. */
function privateKey(signing: Uint8Array): KeyObject {
  const cached = privateKeys.get(signing);
  if (cached) return cached;
  const key = createPrivateKey({ key: Buffer.from(signing), format: 'der', type: 'pkcs8' });
  privateKeys.set(signing, key);
  return key;
}
