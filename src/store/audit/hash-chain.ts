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

/**
 * The format of rows and checkpoints that are written now. A change to what their MAC, link or signature covers is a
 * new format. Rows of every older format must still verify: see test/store/audit/format.test.ts.
 */
export const auditFormat = 1;

/** The tenant id of entries without a tenant, in columns, MACs and signatures. */
export const systemTenant = '00000000-0000-0000-0000-000000000000';

/** An entry without its position in the chain. */
export interface AuditRow {
  readonly format: number;
  /** `systemTenant` if the entry has no tenant. */
  readonly tenantId: string;
  readonly at: number;
  /** JSON. */
  readonly entryText: string;
}

export interface ChainKeys {
  /** For the MACs of rows and links. */
  readonly mac: Uint8Array;
  /** For the signatures of checkpoints: an Ed25519 key in PKCS #8. */
  readonly signing: Uint8Array;
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

/** Unambiguous. The entry is JSON already, so it is appended without encoding it again. */
function rowText({ format, tenantId, at, entryText }: AuditRow): string {
  return `sallyport audit row ${format} ${tenantId} ${at} ${entryText}`;
}

export function isKnownFormat(format: number): boolean {
  return Object.hasOwn(rowTexts, format);
}

/** Bytes of a MAC. Forging one means guessing 128 bits. */
const macLength = 16;

/** Proves that a holder of the key wrote the row. Throws if the format is unknown. */
export function macFor({ mac }: ChainKeys, row: AuditRow): Uint8Array {
  const text = rowTexts[row.format];
  if (!text) throw new Error(`an audit row has the unknown format ${row.format}`);
  return new Bun.CryptoHasher('sha256', mac).update(text(row)).digest().subarray(0, macLength);
}

/** Binds a row, through its MAC, to its number and to every row before it. The MAC covers the format. */
export function link({ mac }: ChainKeys, previous: Uint8Array, seq: number, rowMac: Uint8Array): Uint8Array {
  return new Bun.CryptoHasher('sha256', mac)
    .update(`sallyport audit link ${seq} `)
    .update(previous)
    .update(rowMac)
    .digest();
}

/**
 * A MAC of values about the log that are stored in the database but are in no chain. `kind` says which ones. An older
 * MAC proves only that the values were valid once.
 */
export function valuesMac(
  { mac }: ChainKeys,
  kind: 'recorded end',
  values: readonly (string | number)[],
): Uint8Array {
  const text = `sallyport audit ${kind} ${JSON.stringify(values)}`;
  return new Bun.CryptoHasher('sha256', mac).update(text).digest().subarray(0, macLength);
}

/** A position in a chain. */
export interface Head {
  readonly tenantId: string;
  readonly seq: number;
  readonly hash: Uint8Array;
}

export interface Checkpoint extends Head {
  /** `auditFormat`, or `linkedFormat` with `system`. */
  readonly format: number;
  /** The highest time of an entry up to `seq`. */
  readonly at: number;
  /** The end of the system chain when this was signed. */
  readonly system?: Pick<Head, 'seq' | 'hash'> | undefined;
}

/**
 * The format of checkpoints that also sign the end of the system chain. So someone who removes the system chain, or its
 * end, must remove the checkpoints of all other chains, too.
 */
export const linkedFormat = 2;

export function isKnownCheckpoint(format: number): boolean {
  return format === auditFormat || format === linkedFormat;
}

export interface SignedCheckpoint extends Checkpoint {
  readonly signature: Uint8Array;
}

/** Every position that is a multiple of this has a checkpoint. Verification requires it. */
export const checkpointInterval = 256;

/** A position in a chain as operators store it elsewhere: TENANT:SEQ:HASH, with `system` for the system chain. */
export function anchorOf({ tenantId, seq, hash }: Head): string {
  return `${tenantId === systemTenant ? 'system' : tenantId}:${seq}:${Buffer.from(hash).toString('hex')}`;
}

/** The text that a checkpoint signs. */
export function checkpointText({ format, tenantId, seq, at, hash, system }: Checkpoint): string {
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
  const text = `sallyport audit checkpoint ${format} ${tenantId} ${seq} ${at} ${hex(hash)}`;
  return system ? `${text} ${system.seq}:${hex(system.hash)}` : text;
}

export function signText({ signing }: ChainKeys, text: string): Uint8Array {
  return sign(null, Buffer.from(text), privateKey(signing));
}

/** Returns a function that checks signatures made with these keys. */
export function signatureCheck({ signing }: ChainKeys): (text: string, signature: Uint8Array) => boolean {
  const key = publicKey(signing);
  return (text, signature) => verify(null, Buffer.from(text), key, signature);
}

/** Whether the signature of a checkpoint is valid. */
export function isSigned(keys: ChainKeys, checkpoint: SignedCheckpoint): boolean {
  return signatureCheck(keys)(checkpointText(checkpoint), checkpoint.signature);
}

const privateKeys = new WeakMap<Uint8Array, KeyObject>();
const publicKeys = new WeakMap<Uint8Array, KeyObject>();

function publicKey(signing: Uint8Array): KeyObject {
  const cached = publicKeys.get(signing);
  if (cached) return cached;
  const key = createPublicKey(privateKey(signing));
  publicKeys.set(signing, key);
  return key;
}

/** Cached: parsing the key takes longer than signing. */
function privateKey(signing: Uint8Array): KeyObject {
  const cached = privateKeys.get(signing);
  if (cached) return cached;
  const key = createPrivateKey({ key: Buffer.from(signing), format: 'der', type: 'pkcs8' });
  privateKeys.set(signing, key);
  return key;
}
