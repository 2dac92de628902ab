/**
 * Keys and nonces: `slp_<kind>_` + 256 random bits in 43 base62 digits + CRC-32 of all before it in 6 more.
 * The checksum turns typos and junk away before any database read; only the SHA-256 digest is ever stored.
 */
export const applicationKinds = { management: 'mgt', private: 'pvt', public: 'pub' } as const;
export type Kind = 'mgt' | 'pvt' | 'pub' | 'ses' | 'non';
export type Digest = Buffer;

/** A value that must not appear in logs, errors or JSON by accident; only `reveal()` gives it out. */
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

/** A freshly made credential: the secret goes to its owner once, the rest to the store. */
export interface Minted {
  readonly secret: Secret;
  readonly digest: Digest;
  /** The last four characters, by which people tell keys apart. */
  readonly ending: string;
}

export type Random = (bytes: Uint8Array<ArrayBuffer>) => Uint8Array;

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const shape = /^slp_(mgt|pvt|pub|ses|non)_[0-9A-Za-z]{49}$/;
const prefixLength = 8;
const randomLength = 43;
const checksumLength = 6;
const checksumAt = prefixLength + randomLength;

export function mint(kind: Kind, random: Random = (bytes) => crypto.getRandomValues(bytes)): Minted {
  const bytes = Buffer.allocUnsafe(checksumAt + checksumLength);
  bytes.write(`slp_${kind}_`, 'latin1');
  writeRandom(bytes, random(new Uint8Array(32)));
  writeChecksum(bytes);
  const text = bytes.toString('latin1');
  return { secret: new Secret(text), digest: digestOf(text), ending: text.slice(-4) };
}

/** The kind and digest of a well-formed key or nonce, or nothing for anything else. */
export function parseKey(text: string): { kind: Kind; digest: Digest } | undefined {
  const kind = shape.exec(text)?.[1] as Kind | undefined;
  if (!kind) return undefined;
  if (numberAt(text, text.length - checksumLength) !== Bun.hash.crc32(text.slice(0, -checksumLength)))
    return undefined;
  return { kind, digest: digestOf(text) };
}

/** For texts that may have come across a key or a nonce: whatever is shaped like one is left out. */
export function redactSecrets(text: string): string {
  return text.replace(/slp_[a-z]{3}_[0-9A-Za-z]{20,}/g, '[secret]');
}

/** How far the ids of one moment have come, and what all of them begin with. */
interface Moment {
  readonly at: number;
  readonly beginning: string;
  count: number;
}

/** The latest used last: more of them than one second of refusals has. */
const moments = new Map<number, Moment>();
const momentsKept = 2000;
let latest: Moment | undefined;

/**
 * A UUIDv7: ids made later sort later, also within one millisecond, and whatever other moments come in between.
 * Behind the moment, 24 bits count up from anywhere in their first sixteenth; the last 48 are random.
 */
export function newId(now: number): string {
  const random = crypto.randomUUID();
  if (latest?.at !== now) latest = turnTo(now, random);
  latest.count++;
  const place = hexadecimal(latest.count, 6);
  return `${latest.beginning}${place.slice(0, 3)}-8${place.slice(3)}-${random.slice(24)}`;
}

const lastMoment = 2 ** 48 - 1;

/** The lowest id of a moment: ids of earlier moments are lower, all others are not. */
export function firstIdAt(moment: number): string {
  const time = hexadecimal(Math.min(Math.max(Math.ceil(moment), 0), lastMoment), 12);
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`;
}

function turnTo(now: number, random: string): Moment {
  const moment = moments.get(now) ?? momentAt(now, random);
  moments.delete(now);
  moments.set(now, moment);
  if (moments.size > momentsKept) moments.delete(moments.keys().next().value as number);
  return moment;
}

function momentAt(now: number, random: string): Moment {
  const time = hexadecimal(now, 12);
  const beginning = `${time.slice(0, 8)}-${time.slice(8)}-7`;
  return { at: now, beginning, count: Number.parseInt(random.slice(0, 5), 16) };
}

/** The one in front of it keeps its zeros, which is quicker than to pad it. */
function hexadecimal(number: number, length: number): string {
  return (number + 16 ** length).toString(16).slice(1);
}

function digestOf(text: string): Digest {
  const digest = Buffer.allocUnsafe(32);
  Bun.SHA256.hash(text, digest);
  return digest;
}

const codes = Uint8Array.from(digits, (digit) => digit.charCodeAt(0));

/** The digits of 2^0, 2^32, 2^64 and so on to 2^224, lowest first: all eight lowest, then all eight second lowest. */
const powers = new Float64Array(8 * randomLength);
for (let word = 0; word < 8; word++) {
  let power = 2n ** BigInt(32 * word);
  for (let place = 0; place < randomLength; place++, power /= 62n)
    powers[8 * place + word] = Number(power % 62n);
}

/**
 * 32 bytes as 43 digits: 62^43 is just above 2^256. A digit is the sum of what the words have there and of what was
 * carried: no sum is too large to be exact, and there is one division for each digit.
 */
function writeRandom(target: Buffer, bytes: Uint8Array): void {
  const words = new Float64Array(8);
  for (let word = 0; word < 8; word++) words[word] = wordAt(bytes, 28 - 4 * word);
  let carried = 0;
  for (let place = 0; place < randomLength; place++) {
    let sum = 0;
    for (let word = 0; word < 8; word++)
      sum += (words[word] as number) * (powers[8 * place + word] as number);
    sum += carried;
    carried = Math.floor(sum / 62);
    target[checksumAt - 1 - place] = codes[sum - carried * 62] as number;
  }
}

function wordAt(bytes: Uint8Array, at: number): number {
  let word = 0;
  for (let next = at; next < at + 4; next++) word = word * 256 + (bytes[next] as number);
  return word;
}

/** Of all that is before it. */
function writeChecksum(target: Buffer): void {
  let rest = Bun.hash.crc32(target.toString('latin1', 0, checksumAt));
  for (let at = target.length - 1; at >= checksumAt; at--) {
    const carried = Math.floor(rest / 62);
    target[at] = codes[rest - carried * 62] as number;
    rest = carried;
  }
}

const values = new Uint8Array(128);
for (const [value, code] of codes.entries()) values[code] = value;

/** The number that the digits from there on write. */
function numberAt(text: string, from: number): number {
  let value = 0;
  for (let at = from; at < text.length; at++) value = value * 62 + (values[text.charCodeAt(at)] as number);
  return value;
}
