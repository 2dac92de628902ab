/**
 * Keys and nonces: `slp_<kind>_`, then the tag of the tenant (6 base62 digits), then 43 random base62 digits, which hold
 * 256 bits, then the CRC-32 of everything before as 6 base62 digits. The checksum rejects typos without a database read.
 * The tag names the tenant, so that every lookup reads the rows of one tenant. Only the SHA-256 digest is stored.
 */
export const applicationKinds = { management: 'mgt', private: 'pvt', public: 'pub' } as const;
/** `con`: the session of a person in the console, which only its cookie may contain. */
export type Kind = 'mgt' | 'pvt' | 'pub' | 'ses' | 'dlg' | 'con' | 'non';
export type Digest = Buffer;

/** A secret that does not appear in logs, errors or JSON. Only `reveal()` returns it. */
export class Secret {
  readonly #value: string;
  constructor(value: string) {
    this.#value = value;
  }
  reveal(): string {
    return this.#value;
  }
  toString(): string {
    return '[secret]';
  }
  toJSON(): string {
    return '[secret]';
  }
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return '[secret]';
  }
}

/** A key or nonce without its secret. */
export interface ParsedKey {
  readonly kind: Kind;
  readonly tag: string;
  readonly digest: Digest;
}

/** A new key or nonce. The secret is returned to the client once; the store gets the rest. */
export interface Minted extends ParsedKey {
  readonly secret: Secret;
  /** The last four characters, to tell keys apart. */
  readonly ending: string;
}

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const digitValues = new Uint8Array(128);
for (const [value, digit] of [...digits].entries()) digitValues[digit.charCodeAt(0)] = value;
const shape = /^slp_(mgt|pvt|pub|ses|dlg|con|non)_([0-9A-Za-z]{6})[0-9A-Za-z]{49}$/;
const tagLength = 6;
/** Enough digits for 256 bits: 62^43 is just above 2^256. */
const randomLength = 43;
const checksumLength = 6;
/** The characters between the prefix and the checksum. */
const bodyLength = tagLength + randomLength;

/** The tag of no tenant, for codes that belong to the installation. */
export const nilTag = '000000';

/** The id of no tenant. Keys with an unknown tag are looked up under it, so that they take as long as others. */
export const nilTenant = '00000000-0000-0000-0000-000000000000';

type Random = (bytes: Uint8Array<ArrayBuffer>) => Uint8Array;

const systemRandom: Random = (bytes) => crypto.getRandomValues(bytes);

export function mint(kind: Kind, tag: string, random = systemRandom): Minted {
  const body = `slp_${kind}_${tag}${randomDigits(randomLength, random)}`;
  const text = body + checksumOf(body);
  return { kind, tag, secret: new Secret(text), digest: keyDigest(text), ending: text.slice(-4) };
}

export function newTag(random = systemRandom): string {
  const tag = randomDigits(tagLength, random);
  return tag === nilTag ? newTag(random) : tag;
}

/** Skips the bytes from 248 (4 * 62) on, so that every digit has the same probability. */
function randomDigits(length: number, random: Random): string {
  const bytes = random(new Uint8Array(64));
  let text = '';
  for (let at = 0; text.length < length; at++) {
    const byte = bytes[at];
    if (byte === undefined) return randomDigits(length, random); // Once in about 10^17 calls.
    if (byte < 248) text += digits[byte % 62];
  }
  return text;
}

/** Returns undefined unless the text is a key or nonce with a correct checksum. */
export function parseKey(text: string): ParsedKey | undefined {
  const match = shape.exec(text);
  if (!match || checksumIn(text) !== Bun.hash.crc32(text.slice(0, -checksumLength))) return undefined;
  return { kind: match[1] as Kind, tag: match[2] as string, digest: keyDigest(text) };
}

/** Replaces keys and nonces in the text by `[secret]`, also those without their `slp_` prefix. */
export function redactSecrets(text: string): string {
  const redacted = text.replace(/slp_[a-z]{3}_[0-9A-Za-z]{20,}/g, '[secret]');
  // Most texts have no run of 55 letters and digits, and testing for one is faster than replacing.
  if (!/[0-9A-Za-z]{55}/.test(redacted)) return redacted;
  return redacted.replace(/[0-9A-Za-z]{55,}/g, (run) => (containsBareKey(run) ? '[secret]' : run));
}

const kinds: readonly Kind[] = [...Object.values(applicationKinds), 'ses', 'dlg', 'con', 'non'];

/**
 * Whether the run contains a key without its prefix: 55 characters with the correct checksum for one of the kinds. Takes
 * a few nanoseconds per character: the CRC-32 of each position follows from that of the position before. The register of
 * a CRC is linear, so a character that leaves the window is subtracted, and so is the difference that a prefix makes.
 */
function containsBareKey(run: string): boolean {
  const { table, leaving, prefixes } = rollingCrc();
  let register = 0;
  for (let last = 0; last + checksumLength < run.length; last++) {
    register = (table[(register ^ run.charCodeAt(last)) & 255] as number) ^ (register >>> 8);
    if (last >= bodyLength) register ^= leaving[run.charCodeAt(last - bodyLength)] as number;
    if (last < bodyLength - 1) continue;
    const checksum = checksumIn(run, last + 1 + checksumLength);
    if (checksum <= 0xffff_ffff && prefixes.has(~checksum ^ register)) return true;
  }
  return false;
}

interface RollingCrc {
  readonly table: Int32Array;
  /** By character: its effect on the register after `bodyLength` more characters. */
  readonly leaving: Int32Array;
  /** The effects of the prefixes on the register after `bodyLength` more characters. */
  readonly prefixes: ReadonlySet<number>;
}

let rolling: RollingCrc | undefined;

function rollingCrc(): RollingCrc {
  rolling ??= newRollingCrc();
  return rolling;
}

function newRollingCrc(): RollingCrc {
  const table = new Int32Array(256).map((_, byte) => {
    let register = byte;
    for (let bit = 0; bit < 8; bit++) register = (register >>> 1) ^ (register & 1 ? 0xedb8_8320 : 0);
    return register;
  });
  const step = (register: number, byte: number) =>
    (table[(register ^ byte) & 255] as number) ^ (register >>> 8);
  const afterBody = (register: number) => {
    let result = register;
    for (let at = 0; at < bodyLength; at++) result = step(result, 0);
    return result;
  };
  const codes = (kind: Kind) => Array.from(`slp_${kind}_`, (character) => character.charCodeAt(0));
  const prefixes = kinds.map((kind) => codes(kind).reduce(step, -1));
  return {
    table,
    leaving: new Int32Array(128).map((_, byte) => afterBody(step(0, byte))),
    prefixes: new Set(prefixes.map(afterBody)),
  };
}

/** The ids of one millisecond: their common prefix and a counter. */
interface IdSequence {
  readonly time: number;
  readonly prefix: string;
  counter: number;
}

/**
 * Least recently used first. Several are cached, because times arrive out of order: the denial log writes the entries of
 * a second together.
 */
const sequences = new Map<number, IdSequence>();
const maxSequences = 2000;
let current: IdSequence | undefined;

/**
 * A UUIDv7. Ids of the same millisecond ascend in the order of the calls, even if calls for other times come in
 * between. After the time, a 24-bit counter starts at a random value below 2^20. The last 48 bits are random.
 */
export function newId(now: number): string {
  const random = crypto.randomUUID();
  if (current?.time !== now) current = sequenceAt(now, random);
  current.counter++;
  const counter = hexadecimal(current.counter, 6);
  return `${current.prefix}${counter.slice(0, 3)}-8${counter.slice(3)}-${random.slice(24)}`;
}

const maxTime = 2 ** 48 - 1;

/** A lower bound for the ids of this time and later. Ids of earlier times are lower. */
export function firstIdAt(time: number): string {
  const digits = hexadecimal(Math.min(Math.max(Math.ceil(time), 0), maxTime), 12);
  return `${digits.slice(0, 8)}-${digits.slice(8)}-0000-0000-000000000000`;
}

function sequenceAt(time: number, random: string): IdSequence {
  const sequence = sequences.get(time) ?? newSequence(time, random);
  sequences.delete(time);
  sequences.set(time, sequence);
  if (sequences.size > maxSequences) sequences.delete(sequences.keys().next().value as number);
  return sequence;
}

function newSequence(time: number, random: string): IdSequence {
  const digits = hexadecimal(time, 12);
  const prefix = `${digits.slice(0, 8)}-${digits.slice(8)}-7`;
  return { time, prefix, counter: Number.parseInt(random.slice(0, 5), 16) };
}

/** Pads with zeros. Adding 16^length and removing the leading 1 is faster than `padStart`. */
function hexadecimal(number: number, length: number): string {
  return (number + 16 ** length).toString(16).slice(1);
}

/** The digest under which a key or nonce is stored. */
export function keyDigest(text: string): Digest {
  const digest = Buffer.allocUnsafe(32);
  Bun.SHA256.hash(text, digest);
  return digest;
}

/** The CRC-32 that ends at `end`. Comparing numbers takes half the time of comparing texts. */
function checksumIn(text: string, end = text.length): number {
  let value = 0;
  for (let at = end - checksumLength; at < end; at++)
    value = value * 62 + (digitValues[text.charCodeAt(at)] as number);
  return value;
}

/** The CRC-32 in base62. */
function checksumOf(body: string): string {
  let text = '';
  for (let rest = Bun.hash.crc32(body); text.length < checksumLength; rest = Math.floor(rest / 62))
    text = (digits[rest % 62] as string) + text;
  return text;
}
