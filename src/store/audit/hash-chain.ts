/** The arithmetic of the sealed audit log, which the service and an offline check share. */
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

export interface AuditRow {
  readonly id: string;
  readonly tenant_id: string | null;
  readonly at: DbTime;
  readonly actor_id: string | null;
  readonly operation: string;
  readonly entity_id: string | null;
  readonly result: string;
  readonly entry: string;
}

export const auditColumns = 'id, tenant_id, at, actor_id, operation, entity_id, result, entry';

export interface ChainKeys {
  /** Of the links. Whoever does not have it cannot make a link that fits. */
  readonly mac: Uint8Array;
  /** Of the checkpoints: PKCS #8. */
  readonly signing: Uint8Array;
}

/**
 * Whether rows go into the chain as they are written, because one transaction comes after the other anyway; elsewhere
 * all would wait in one line for the last link. A row that waits nevertheless was put there by somebody else, and is
 * not sealed for them.
 */
export function isSealedAtOnce({ dialect }: Pick<Db, 'dialect'>): boolean {
  return dialect === 'sqlite';
}

/** The link before the first. */
export const genesis = new Uint8Array(32);

export function newChainKeys(): ChainKeys {
  const { privateKey } = generateKeyPairSync('ed25519');
  return { mac: randomBytes(32), signing: privateKey.export({ type: 'pkcs8', format: 'der' }) };
}

/** As one piece, to be sealed. */
export function packChainKeys({ mac, signing }: ChainKeys): Uint8Array {
  return Buffer.concat([mac, signing]);
}

export function unpackChainKeys(packed: Uint8Array): ChainKeys {
  return { mac: packed.slice(0, 32), signing: packed.slice(32) };
}

/** Tells a row that was written by whoever holds the key from one that was put in or changed by somebody else. */
export function macFor({ mac }: ChainKeys, row: AuditRow): Uint8Array {
  return new Bun.CryptoHasher('sha256', mac).update(`sallyport audit row ${textOf(row)}`).digest();
}

/** Binds a row, by the code that `macOf` made of it, to its place and to everything before it. */
export function link({ mac }: ChainKeys, previous: Uint8Array, seq: number, row: Uint8Array): Uint8Array {
  return new Bun.CryptoHasher('sha256', mac)
    .update(`sallyport audit link ${seq} `)
    .update(previous)
    .update(row)
    .digest();
}

/** Two rows never have the same. The entry is JSON already, and long: it stands as it is, behind the rest. */
function textOf({ id, tenant_id, at, actor_id, operation, entity_id, result, entry }: AuditRow): string {
  return JSON.stringify([id, tenant_id, Number(at), actor_id, operation, entity_id, result]) + entry;
}

export interface Checkpoint {
  readonly seq: number;
  readonly at: number;
  readonly hash: Uint8Array;
}

export interface SignedCheckpoint extends Checkpoint {
  readonly signature: Uint8Array;
}

/** A place in the chain as it is written down elsewhere: SEQ:HASH. */
export function anchorOf({ seq, hash }: Pick<Checkpoint, 'seq' | 'hash'>): string {
  return `${seq}:${Buffer.from(hash).toString('hex')}`;
}

export function checkpointText({ seq, at, hash }: Checkpoint): string {
  return `sallyport audit checkpoint ${seq} ${at} ${Buffer.from(hash).toString('hex')}`;
}

export function signText({ signing }: ChainKeys, text: string): Uint8Array {
  return sign(null, Buffer.from(text), privateKey(signing));
}

/** Answers whether a text was signed with the same keys. */
export function signatureCheck({ signing }: ChainKeys): (text: string, signature: Uint8Array) => boolean {
  const key = createPublicKey(privateKey(signing));
  return (text, signature) => verify(null, Buffer.from(text), key, signature);
}

const privateKeys = new WeakMap<Uint8Array, KeyObject>();

/** Reading it takes longer than to sign with it. */
function privateKey(signing: Uint8Array): KeyObject {
  const known = privateKeys.get(signing);
  if (known) return known;
  const key = createPrivateKey({ key: Buffer.from(signing), format: 'der', type: 'pkcs8' });
  privateKeys.set(signing, key);
  return key;
}
