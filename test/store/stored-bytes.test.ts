/** A token counts to the storage quota about as many bytes as it takes in the database. */
import { describe, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { JsonText } from '../../src/domain/json-text.ts';
import { newId } from '../../src/domain/key.ts';
import type { TokenContent } from '../../src/store/store.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const tables = [
  'tokens',
  'token_contents',
  'token_containers',
  'token_metadata',
  'token_search',
  'idempotency',
];
const growth = {
  SQLite: `select sum(pgsize) as bytes from dbstat where name in
    (select name from sqlite_schema where tbl_name in (${tables.map((table) => `'${table}'`).join(', ')}))`,
  PostgreSQL: `select ${tables.map((table) => `pg_total_relation_size('${table}')`).join(' + ')} as bytes`,
};

const text = (length: number) => randomBytes(length).toString('base64url').slice(0, length);
const entries = (count: number, length: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`n${n}`, text(length)]));
const searchOf = (count: number) => {
  const values = entries(count, 10);
  const search = Object.fromEntries(Object.keys(values).map((name) => [name, '{{ data }}']));
  return { search, searchValues: values };
};
const deepest = `/${'a/'.repeat(16)}`;
const longest = `/${'abcdefghijklm/'.repeat(16)}`;
const uneven = `/${'a'.repeat(216)}/${'b/'.repeat(15)}`;
const cjk = () => Array.from(randomBytes(500), (byte) => String.fromCodePoint(0x4e00 + 16 * byte)).join('');

const shapes: [name: string, count: number, make: () => Partial<TokenContent>, idLength?: number][] = [
  ['only a letter', 1000, () => ({})],
  ['a long id and an expiry', 300, () => ({ expiresAt: 9e12 }), 200],
  ['16 levels', 200, () => ({ container: deepest })],
  ['16 long levels', 200, () => ({ container: longest })],
  ['a long level above 15 short ones', 200, () => ({ container: uneven })],
  ['one search value', 300, () => searchOf(1)],
  ['5 search values in a long container', 200, () => ({ container: longest, ...searchOf(5) })],
  ['50 short metadata entries', 100, () => ({ metadata: entries(50, 1) })],
  ['50 long metadata entries', 40, () => ({ metadata: entries(50, 500) })],
  ['a metadata entry of 1.5 KB', 200, () => ({ metadata: { wide: cjk() } })],
  [
    '50 metadata entries of 1.5 KB',
    20,
    () => ({ metadata: Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`n${n}`, cjk()])) }),
  ],
  ['data of half a page', 200, () => ({ data: JsonText.of(text(2040)) })],
  ['data of more than a page', 200, () => ({ data: JsonText.of(text(4200)) })],
  [
    'large data with a mask',
    20,
    () => ({ data: JsonText.of(text(90_000)), mask: 'm', masked: JsonText.of(text(40_000)) }),
  ],
  [
    'all of it',
    100,
    () => ({ container: deepest, ...searchOf(5), metadata: entries(50, 5), data: JsonText.of(text(700)) }),
  ],
];

// The sizes of shards on a Citus cluster are those of PostgreSQL.
const measured = databases.filter(([name]) => name in growth);

describe.each(measured)('on %s, the storage that is counted', async (name, database) => {
  const on = await openTestStore(database);
  const tenant = await on.tenant();
  const size = async () => Number((await on.runSql<{ bytes: number }>(growth[name as 'SQLite']))[0]?.bytes);

  test.each(shapes)(
    'of tokens with %s is between 1/1.3 and 2 times their growth of the database',
    async (_, count, make, idLength = 36) => {
      const by = (await on.application(tenant)).id;
      const before = await size();
      await on.store.change(tenant, async (tx) => {
        for (let n = 0; n < count; n++) {
          const content = { type: 'token', container: '/general/', data: JsonText.of('x'), mask: undefined };
          const none = { masked: undefined, metadata: undefined, expiresAt: undefined };
          const at = on.clock.now() + n;
          const id = newId(at).padEnd(idLength, '-');
          await tx.tokens.create(tenant, id, { ...content, ...none, ...make() }, { by, at });
        }
      });
      const { tokens, bytes } = await on.store.tokens.storageUsed(tenant, by);
      const ratio = bytes / ((await size()) - before);
      expect(tokens).toBe(count);
      expect(ratio).toBeGreaterThan(1 / 1.3);
      expect(ratio).toBeLessThan(2);
    },
  );

  test.each([50, 1500, 6000, 60_000])(
    'of idempotency records with %d bytes is between 1/1.3 and 2 times their growth of the database',
    async (length) => {
      const by = (await on.application(tenant)).id;
      const before = await size();
      await on.store.change(tenant, async (tx) => {
        for (let n = 0; n < 200; n++) {
          const request = { caller: by, application: by, key: `${n}`, request: `${n}` };
          await tx.idempotency.save(tenant, request, text(length), on.clock.now());
        }
      });
      const { bytes } = await on.store.tokens.storageUsed(tenant, by);
      const ratio = bytes / ((await size()) - before);
      expect(ratio).toBeGreaterThan(1 / 1.3);
      expect(ratio).toBeLessThan(2);
    },
  );
});
