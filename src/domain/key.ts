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
const checksumLength = 6;

export function mint(kind: Kind, random: Random = (bytes) => crypto.getRandomValues(bytes)): Minted {
  const bytes = random(new Uint8Array(32));
  const body = `slp_${kind}_${base62(bytes)}`;
  const text = body + checksum(body);
  return { secret: new Secret(text), digest: digestOf(text), ending: text.slice(-4) };
}

/** The kind and digest of a well-formed key or nonce, or nothing for anything else. */
export function recognise(text: string): { kind: Kind; digest: Digest } | undefined {
  const kind = shape.exec(text)?.[1] as Kind | undefined;
  if (!kind) return undefined;
  if (numberAt(text, text.length - checksumLength) !== Bun.hash.crc32(text.slice(0, -checksumLength)))
    return undefined;
  return { kind, digest: digestOf(text) };
}

/** For texts that may have come across a key or a nonce: whatever is shaped like one is left out. */
export function withoutSecrets(text: string): string {
  return text.replace(/slp_[a-z]{3}_[0-9A-Za-z]{20,}/g, '[secret]');
}

/** How far the ids of each moment have come, the latest used last: more moments than one second of refusals has. */
const counted = new Map<number, number>();
const momentsKept = 2000;

/**
 * A UUIDv7: ids made later sort later, also within one millisecond, and whatever other moments come in between.
 * Behind the moment, 24 bits count up from anywhere in their first sixteenth; the last 48 are random.
 */
export function newId(now: number): string {
  const random = crypto.randomUUID();
  const count = (counted.get(now) ?? Number.parseInt(random.slice(0, 5), 16)) + 1;
  counted.delete(now);
  counted.set(now, count);
  if (counted.size > momentsKept) counted.delete(counted.keys().next().value as number);
  const [time, place] = [hexadecimal(now, 12), hexadecimal(count, 6)];
  return `${time.slice(0, 8)}-${time.slice(8)}-7${place.slice(0, 3)}-8${place.slice(3)}-${random.slice(24)}`;
}

function hexadecimal(number: number, length: number): string {
  return number.toString(16).padStart(length, '0');
}

function digestOf(text: string): Digest {
  const digest = Buffer.allocUnsafe(32);
  Bun.SHA256.hash(text, digest);
  return digest;
}

const keyLength = 43;

/** 32 bytes as 43 digits: 62^43 is just above 2^256. Divided word by word, which no number here is too large for. */
function base62(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const words = Array.from({ length: 8 }, (_, at) => view.getUint32(4 * at));
  const text = Buffer.allocUnsafe(keyLength);
  for (let place = keyLength - 1; place >= 0; place--) {
    let rest = 0;
    for (let at = 0; at < words.length; at++) {
      const part = rest * 2 ** 32 + (words[at] as number);
      const quotient = Math.floor(part / 62);
      words[at] = quotient;
      rest = part - quotient * 62;
    }
    text[place] = digits.charCodeAt(rest);
  }
  return text.toString('latin1');
}

const values = new Uint8Array(128);
for (const [value, digit] of [...digits].entries()) values[digit.charCodeAt(0)] = value;

/** The number that the digits from there on write. */
function numberAt(text: string, from: number): number {
  let value = 0;
  for (let at = from; at < text.length; at++) value = value * 62 + (values[text.charCodeAt(at)] as number);
  return value;
}

function checksum(body: string): string {
  let rest = Bun.hash.crc32(body);
  let text = '';
  for (; text.length < checksumLength; rest = Math.floor(rest / 62)) text = digits[rest % 62] + text;
  return text;
}
