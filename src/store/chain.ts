/** The arithmetic of the sealed audit log, which the service and an offline check share. */
import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  verify,
} from 'node:crypto';
import type { Moment } from './db.ts';

export interface AuditRow {
  readonly id: string;
  readonly tenant_id: string | null;
  readonly at: Moment;
  readonly actor_id: string | null;
  readonly operation: string;
  readonly entity_id: string | null;
  readonly result: string;
  readonly entry: string;
}

export interface ChainKeys {
  /** Of the links. Whoever does not have it cannot make a link that fits. */
  readonly mac: Uint8Array;
  /** Of the checkpoints: PKCS #8. */
  readonly signing: Uint8Array;
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

/** Binds a row, with all that lists filter by, to its place and to everything before it. */
export function link({ mac }: ChainKeys, previous: Uint8Array, seq: number, row: AuditRow): Uint8Array {
  const { id, tenant_id, at, actor_id, operation, entity_id, result, entry } = row;
  const text = JSON.stringify([
    seq,
    id,
    tenant_id,
    Number(at),
    actor_id,
    operation,
    entity_id,
    result,
    entry,
  ]);
  return createHmac('sha256', mac).update(previous).update(text).digest();
}

export interface Checkpoint {
  readonly seq: number;
  readonly at: number;
  readonly hash: Uint8Array;
}

function statement({ seq, at, hash }: Checkpoint): Buffer {
  return Buffer.from(`sallyport audit checkpoint ${seq} ${at} ${Buffer.from(hash).toString('hex')}`);
}

export function signCheckpoint({ signing }: ChainKeys, checkpoint: Checkpoint): Uint8Array {
  const key = createPrivateKey({ key: Buffer.from(signing), format: 'der', type: 'pkcs8' });
  return sign(null, statement(checkpoint), key);
}

export function isSigned({ signing }: ChainKeys, checkpoint: Checkpoint, signature: Uint8Array): boolean {
  const key = createPublicKey(createPrivateKey({ key: Buffer.from(signing), format: 'der', type: 'pkcs8' }));
  return verify(null, statement(checkpoint), key, signature);
}
