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
 * The format of new rows. If the data that the MAC or link covers changes, the format must change too. Rows of all
 * older formats must still verify: see test/store/audit/format.test.ts.
 */
export const rowFormat = 2;

/** The format of checkpoints of the system chain. */
export const checkpointFormat = 1;

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

/** The hash before the first entry of a chain. */
export const genesis = new Uint8Array(32);

/** Creates keys and packs them into one value, which the master key can wrap. */
export function newChainKeys(): Uint8Array {
  const { privateKey } = generateKeyPairSync('ed25519');
  return Buffer.concat([randomBytes(32), privateKey.export({ type: 'pkcs8', format: 'der' })]);
}

export function unpackChainKeys(packed: Uint8Array): ChainKeys {
  return { mac: packed.slice(0, 32), signing: packed.slice(32) };
}

/** Bytes of a MAC. */
const macLength = 16;
/** Bytes at the start of a MAC of format 2 that make it unique. The other 96 bits are the HMAC. */
const nonceLength = 4;

export function isKnownFormat(format: number): boolean {
  return format === 1 || hasUniqueMac(format);
}

/** Whether two rows with the same MAC must be copies. In format 1, two entries with equal content have the same MAC. */
export function hasUniqueMac(format: number): boolean {
  return format === rowFormat;
}

/** Incremented for each row that this process writes. Starts at a random number. */
let nonce = randomBytes(nonceLength).readUInt32BE();

/** Proves that a holder of the key wrote the row. */
export function newMac(keys: ChainKeys, row: Omit<AuditRow, 'format'>): Uint8Array {
  nonce = (nonce + 1) >>> 0;
  const bytes = Buffer.alloc(nonceLength);
  bytes.writeUInt32BE(nonce);
  return macWith(keys, { ...row, format: rowFormat }, bytes);
}

/**
 * The MAC that a row must have. `stored` is the MAC in the database, from which the nonce is taken. Throws if the
 * format is unknown.
 */
export function expectedMac(keys: ChainKeys, row: AuditRow, stored: Uint8Array): Uint8Array {
  if (!isKnownFormat(row.format)) throw new Error(`an audit row has the unknown format ${row.format}`);
  return macWith(keys, row, hasUniqueMac(row.format) ? stored.subarray(0, nonceLength) : new Uint8Array());
}

/** The input of the HMAC is unambiguous, because only its last part, the entry, can contain spaces. */
function macWith(
  { mac }: ChainKeys,
  { format, tenantId, at, entryText }: AuditRow,
  unique: Uint8Array,
): Uint8Array {
  const number = unique.length > 0 ? `${Buffer.from(unique).toString('hex')} ` : '';
  const hash = new Bun.CryptoHasher('sha256', mac)
    .update(`sallyport audit row ${format} ${tenantId} ${at} ${number}${entryText}`)
    .digest();
  return Buffer.concat([unique, hash], macLength);
}

/** Binds a row to its position and to every row before it. The row's MAC covers its content and format. */
export function link({ mac }: ChainKeys, previous: Uint8Array, seq: number, rowMac: Uint8Array): Uint8Array {
  return new Bun.CryptoHasher('sha256', mac)
    .update(`sallyport audit link ${seq} `)
    .update(previous)
    .update(rowMac)
    .digest();
}

/**
 * The MAC of values about the log that are stored in the database, but not in a chain. `kind` says which values. The
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

/** A position in a chain. */
export interface Head {
  readonly tenantId: string;
  readonly seq: number;
  readonly hash: Uint8Array;
}

export interface Checkpoint extends Head {
  /** `checkpointFormat`, or `linkedFormat` with `system`. */
  readonly format: number;
  /** The latest time of the entries up to `seq`. */
  readonly at: number;
  /** The end of the system chain when this was signed. */
  readonly system?: Pick<Head, 'seq' | 'hash'> | undefined;
}

/**
 * The format of checkpoints that also sign the end of the system chain. Someone who removes the system chain, or its
 * end, would have to remove the checkpoints of all other chains, too.
 */
export const linkedFormat = 2;

export function isKnownCheckpoint(format: number): boolean {
  return format === checkpointFormat || format === linkedFormat;
}

export interface SignedCheckpoint extends Checkpoint {
  readonly signature: Uint8Array;
}

/** Every position that is a multiple of this has a checkpoint. Verification reports a missing one. */
export const checkpointInterval = 256;

/** A position in a chain as operators store it elsewhere: TENANT:SEQ:HASH, with `system` for the system chain. */
export function anchorOf({ tenantId, seq, hash }: Head): string {
  return `${tenantId === systemTenant ? 'system' : tenantId}:${seq}:${Buffer.from(hash).toString('hex')}`;
}

/** The text that the signature of a checkpoint covers. */
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
