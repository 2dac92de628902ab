import { describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import {
  applicationKinds,
  firstIdAt,
  type Kind,
  mint,
  newId,
  newTag,
  nilTag,
  nilTenant,
  parseKey,
  redactSecrets,
  Secret,
} from '../../src/domain/key.ts';

const kinds: Kind[] = ['mgt', 'pvt', 'pub', 'ses', 'non'];
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const tag = 'k3ZrT9';
const minted = fc.constantFrom(...kinds).map((kind) => ({ kind, key: mint(kind, tag) }));

describe('a key', () => {
  test('is parsed to its kind, tag and SHA-256 digest', () => {
    fc.assert(
      fc.property(minted, ({ kind, key }) => {
        const text = key.secret.reveal();
        const digest = createHash('sha256').update(text).digest();
        expect(text).toMatch(new RegExp(`^slp_${kind}_${tag}[0-9A-Za-z]{49}$`));
        expect(parseKey(text)).toEqual({ kind, tag, digest });
        expect(key.digest).toEqual(digest);
        expect(key.ending).toBe(text.slice(-4));
      }),
    );
  });

  test('has 43 random digits of base62, each with the same probability', () => {
    // Each byte value once. 248 of the values give each of the 62 digits four times; the other 8 are skipped.
    const bytes = fc.shuffledSubarray(
      Array.from({ length: 256 }, (_, byte) => byte),
      { minLength: 256 },
    );
    fc.assert(
      fc.property(bytes, (order) => {
        let at = 0;
        const random = (target: Uint8Array<ArrayBuffer>) => target.map(() => order[at++ % 256] as number);
        const expected = order.filter((byte) => byte < 248).map((byte) => digits[byte % 62]);
        expect(mint('ses', tag, random).secret.reveal().slice(14, -6)).toBe(expected.slice(0, 43).join(''));
      }),
    );
  });

  test('does not use the bytes that would favour a digit', () => {
    let calls = 0;
    const random = (target: Uint8Array<ArrayBuffer>) => target.fill(calls++ < 3 ? 248 : 247);
    expect(mint('ses', tag, random).secret.reveal().slice(14, -6)).toBe('z'.repeat(43));
  });

  test('of a new tenant has six random digits, which are not those of the nil tenant', () => {
    let calls = 0;
    expect(newTag((target) => target.fill(calls++))).toBe('111111');
    expect([nilTag, nilTenant]).toEqual(['000000', '00000000-0000-0000-0000-000000000000']);
  });

  test('ends with its CRC-32 in base62', () => {
    fc.assert(
      fc.property(minted, ({ key }) => {
        const text = key.secret.reveal();
        let value = 0;
        for (const digit of text.slice(-6)) value = value * 62 + digits.indexOf(digit);
        expect(value).toBe(crc32(text.slice(0, -6)));
      }),
    );
  });

  test('is invalid with any character changed', () => {
    const change = fc.record({
      minted,
      at: fc.nat(),
      to: fc.constantFrom(...digits, '_', '-', ' ', 'é', '\n'),
    });
    fc.assert(
      fc.property(change, ({ minted, at, to }) => {
        const text = minted.key.secret.reveal();
        const index = at % text.length;
        fc.pre(text[index] !== to);
        expect(parseKey(text.slice(0, index) + to + text.slice(index + 1))).toBeUndefined();
      }),
      { numRuns: 2000 },
    );
  });

  test('is invalid with two characters swapped, one missing or one doubled', () => {
    fc.assert(
      fc.property(minted, fc.nat(61), ({ key }, at) => {
        const text = key.secret.reveal();
        const [a, b] = [text[at]!, text[at + 1]!];
        fc.pre(a !== b);
        expect(parseKey(text.slice(0, at) + b + a + text.slice(at + 2))).toBeUndefined();
        expect(parseKey(text.slice(0, at) + text.slice(at + 1))).toBeUndefined();
        expect(parseKey(text.slice(0, at) + a + text.slice(at))).toBeUndefined();
      }),
    );
  });

  test.each([
    ['', 'nothing'],
    ['slp_pvt_', 'a beginning'],
    [`slp_xyz_${'0'.repeat(55)}`, 'of an unknown kind'],
    [`SLP_PVT_${'0'.repeat(55)}`, 'another case'],
    ['__proto__', 'a name of the language'],
    ['\0', 'NUL'],
  ])('is not %p, which is %s', (text) => {
    expect(parseKey(text)).toBeUndefined();
  });

  test('is invalid with text around it', () => {
    const text = mint('pvt', tag).secret.reveal();
    for (const other of [` ${text}`, `${text} `, `${text}\n`, `${text}, ${text}`, `Bearer ${text}`]) {
      expect(parseKey(other)).toBeUndefined();
    }
  });

  test('is invalid with a correct checksum but a wrong form', () => {
    const summed = (body: string) => {
      let [text, rest] = ['', crc32(body)];
      for (; text.length < 6; rest = Math.floor(rest / 62)) text = digits[rest % 62] + text;
      return body + text;
    };
    const body = mint('pvt', tag).secret.reveal().slice(0, -6);
    expect(parseKey(summed(body))).toBeDefined();
    for (const other of ['', 'hello', ` ${body}`, `${body}0`, `${body}000000`, body.replace('pvt', 'xyz')])
      expect(parseKey(summed(other))).toBeUndefined();
  });

  test('is different each time', () => {
    const keys = Array.from({ length: 1000 }, () => mint('ses', tag).secret.reveal());
    expect(new Set(keys).size).toBe(1000);
  });

  test('contains the type of its application', () => {
    expect(Object.keys(applicationKinds).toSorted()).toEqual(['management', 'private', 'public']);
    expect(new Set(Object.values(applicationKinds)).size).toBe(3);
  });
});

describe('a secret', () => {
  const secret = new Secret('hunter2');

  test.each<[string, () => string]>([
    ['String()', () => String(secret)],
    ['a template', () => `${secret}`],
    ['joining', () => [secret].join()],
    ['JSON', () => JSON.stringify({ secret, list: [secret] })],
    ['inspect', () => inspect({ deep: { secret } }, { depth: 9, showHidden: true })],
    ["the runtime's own inspect", () => Bun.inspect({ deep: [secret] })],
    ['an error', () => inspect(new Error('failed', { cause: secret }))],
    ['its fields', () => JSON.stringify([Object.entries(secret), { ...secret }, Reflect.ownKeys(secret)])],
    ['a copy', () => JSON.stringify(structuredClone({ secret }))],
  ])('is not exposed by %s', (_, show) => {
    expect(show()).not.toContain('hunter2');
  });

  test('is displayed as [secret]', () => {
    expect([String(secret), JSON.stringify(secret), inspect(secret), Bun.inspect(secret)]).toEqual([
      '[secret]',
      '"[secret]"',
      '[secret]',
      '[secret]',
    ]);
  });

  test('is not printed by the console', () => {
    const printed = Bun.spawnSync([
      process.execPath,
      '--no-env-file',
      '-e',
      `import { Secret } from ${JSON.stringify(join(import.meta.dirname, '../../src/domain/key.ts'))};
       const secret = new Secret('hunter2');
       console.log(secret, [secret], { secret });
       console.error('%s %o %j', secret, secret, secret);
       console.table([{ secret }]);
       throw Object.assign(new Error('failed'), { secret });`,
    ]);
    const text = `${printed.stdout}${printed.stderr}`;
    expect(text).toContain('[secret]');
    expect(text.replaceAll("new Secret('hunter2')", '')).not.toContain('hunter2');
  });

  test('is returned by reveal', () => {
    expect(secret.reveal()).toBe('hunter2');
  });
});

describe('redactSecrets', () => {
  test('leaves text whose checksum is the right one plus 2^32', () => {
    const body = mint('ses', tag).secret.reveal().slice(0, -6);
    let [rest, checksum] = [crc32(body) + 2 ** 32, ''];
    for (; checksum.length < 6; rest = Math.floor(rest / 62)) checksum = `${digits[rest % 62]}${checksum}`;
    const text = body.slice('slp_ses_'.length) + checksum;
    expect(redactSecrets(text)).toBe(text);
  });

  test('removes keys, nonces and text of the same form', () => {
    const [key, nonce] = [mint('pvt', tag).secret.reveal(), mint('non', tag).secret.reveal()];
    expect(redactSecrets(`key=${key}, nonce="${nonce}".`)).toBe('key=[secret], nonce="[secret]".');
    expect(redactSecrets(`${key.slice(0, 28)} ${key}more`)).toBe('[secret] [secret]');
    expect(redactSecrets(`slp_xyz_${'0'.repeat(55)}`)).toBe('[secret]');
  });

  test('removes keys without their prefix', () => {
    for (const kind of [...Object.values(applicationKinds), 'ses', 'non'] as const) {
      const bare = mint(kind, tag).secret.reveal().slice('slp_xyz_'.length);
      for (const text of [bare, `${kind}_${bare}`, `ticket 7: ${bare}.`, `x${bare}y`]) {
        expect(redactSecrets(text)).toContain('[secret]');
        expect(redactSecrets(text)).not.toContain(bare.slice(0, 49));
      }
      const typo = `${bare[0] === 'A' ? 'B' : 'A'}${bare.slice(1)}`;
      expect(redactSecrets(typo)).toBe(typo);
    }
  });

  test('finds a key without its prefix anywhere in a long run of letters and digits', () => {
    const bare = mint('pvt', tag).secret.reveal().slice('slp_xyz_'.length);
    for (const length of [1, 48, 49, 50, 1000, 100_000]) {
      expect(redactSecrets(`${'x'.repeat(length)}${bare}`)).toBe('[secret]');
      expect(redactSecrets(`${bare}${'x'.repeat(length)}`)).toBe('[secret]');
    }
    const long = 'x7Q'.repeat(20_000);
    expect(redactSecrets(long)).toBe(long);
  });

  test('does not change other text', () => {
    const hash = '0123456789abcdef'.repeat(8);
    for (const text of [
      hash,
      `${hash}${'z'.repeat(5000)}`,
      '',
      'slp_pvt_',
      `slp_pvt_${'0'.repeat(19)}`,
      `slp_${'0'.repeat(49)}`,
    ])
      expect(redactSecrets(text)).toBe(text);
  });
});

describe('an id', () => {
  test('is a UUIDv7 that contains its time', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 47 }), (now) => {
        const id = newId(now);
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)).toBe(now);
      }),
    );
  });

  test('is higher than earlier ids, also within a millisecond', () => {
    const ids = Array.from({ length: 20_000 }, (_, index) =>
      newId(1_800_000_000_000 + Math.floor(index / 10_000)),
    );
    expect(ids.every((id, index) => index === 0 || id > (ids[index - 1] as string))).toBe(true);
  });

  test('is higher than earlier ids of the same time, also after ids of other times', () => {
    const times = Array.from({ length: 1500 }, (_, index) => index);
    const first = times.map(newId);
    for (let round = 0; round < 5; round++) {
      newId(1000 + round);
      const next = times.map(newId);
      expect(next.every((id, time) => id > (first[time] as string))).toBe(true);
    }
  });

  test('follows the last one of its time, unless there were ids of 2000 other times since', () => {
    const counterOf = (id: string) => Number.parseInt(id.slice(15, 18) + id.slice(20, 23), 16);
    const start = 1_900_000_000_000;
    const continues = (otherTimes: number) => {
      const times = [start, start + 1, start + 2];
      const before = times.map((time) => counterOf(newId(time)));
      for (let other = 0; other < otherTimes; other++) newId(start + 10 + other);
      return times.map((time, at) => counterOf(newId(time)) === (before[at] as number) + 1);
    };
    expect(continues(1997)).toEqual([true, true, true]);
    // A new counter starts at a random value, which may by chance continue an old counter. So one difference suffices.
    expect(continues(2000)).toContain(false);
  });

  test.each([
    [0, '00000000-0000'],
    [-1, '00000000-0000'],
    [0.5, '00000000-0001'],
    [0x0123456789ab, '01234567-89ab'],
    [2 ** 48 - 1, 'ffffffff-ffff'],
    [2 ** 48, 'ffffffff-ffff'],
    [Number.POSITIVE_INFINITY, 'ffffffff-ffff'],
  ])('of time %d or later is not below the bound %s', (time, prefix) => {
    expect(firstIdAt(time)).toBe(`${prefix}-0000-0000-000000000000`);
  });
});
