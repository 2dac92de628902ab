/**
 * What the sources of the service use and Node 20 does not have. `build.ts` imports this into them. Timers are read
 * once, so that the fake answers while a test has replaced them.
 */
import { createHash, createHmac } from 'node:crypto';

const { setImmediate } = globalThis;

/** CRC-32 by table, as `node:zlib` has it only from Node 20.15 on. */
const table = Int32Array.from({ length: 256 }, (_, byte) => {
  let register = byte;
  for (let bit = 0; bit < 8; bit++) register = (register >>> 1) ^ (register & 1 ? 0xedb8_8320 : 0);
  return register;
});

function crc32(text: string): number {
  let register = -1;
  for (const byte of Buffer.from(text))
    register = (table[(register ^ byte) & 255] as number) ^ (register >>> 8);
  return ~register >>> 0;
}

class CryptoHasher {
  readonly #hmac;

  constructor(algorithm: string, key: Uint8Array) {
    this.#hmac = createHmac(algorithm, key);
  }
  update(data: Uint8Array): this {
    this.#hmac.update(data);
    return this;
  }
  digest(): Buffer {
    return this.#hmac.digest();
  }
}

const bun = {
  hash: { crc32 },
  SHA256: {
    hash: (text: string, into: Buffer) => into.set(createHash('sha256').update(text).digest()),
  },
  CryptoHasher,
  /** The waiting times of the service hide how long it takes. Tests do not need them. */
  sleep: async () => {},
};

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

function groupBy<K, T>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

function withResolvers<T>() {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((...functions) => {
    [resolve, reject] = functions;
  });
  return { promise, resolve, reject };
}

export const node = { bun, hex, groupBy, withResolvers, setImmediate };
