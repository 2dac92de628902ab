import { beforeEach, describe, expect, test } from 'bun:test';
import type { Queries } from '../../src/db/db.ts';
import { JsonText } from '../../src/domain/json-text.ts';
import { newId } from '../../src/domain/key.ts';
import type { StoredToken, TokenContent, TokenRecord } from '../../src/store/store.ts';
import { dumpDatabase } from '../support/database.ts';
import { duringTransaction, untilBlocked } from '../support/postgres-locks.ts';
import { databases, postgres } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

const data = { number: '4242424242424242', name: 'Ada Lovelace' };
const masked = { number: 'XXXXXXXXXXXX4242' };

const content = (given: Partial<TokenContent> = {}): TokenContent => ({
  type: 'card',
  container: '/customers/42/',
  data: JsonText.of(data),
  mask: { number: '{{ data.number | reveal_last: 4 }}' },
  masked: JsonText.of(masked),
  metadata: undefined,
  expiresAt: undefined,
  ...given,
});

describe.each(databases)('encrypted tokens on %s', async (_, database) => {
  const on = await openTestStore(database);

  const change = () => ({ by: newId(on.clock.now()), at: on.clock.now() });

  async function create(tenant: string, id: string, given?: Partial<TokenContent>): Promise<void> {
    expect(await on.store.tokens.create(tenant, id, content(given), change())).toBeDefined();
  }
  async function get(tenant: string, id: string): Promise<StoredToken> {
    const token = await on.store.tokens.get(tenant, id);
    if (!token) throw new Error('the Token is gone');
    return token;
  }
  const rowOf = (tenant: string, id: string) => `where tenant_id = '${tenant}' and id = '${id}'`;
  const contentOf = (tenant: string, id: string) =>
    `where tenant_id = '${tenant}' and seq = (select seq from tokens ${rowOf(tenant, id)})`;
  /** The first column of the first row as a literal. On Citus, a statement cannot copy it to another tenant. */
  const literalOf = async (query: string) => {
    const [row] = await on.runSql<Record<string, Uint8Array>>(query);
    const hex = Buffer.from(Object.values(row!)[0]!).toString('hex');
    return database.name === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'`;
  };
  const column = (name: 'data' | 'masked', tenant: string, id: string) =>
    literalOf(`select ${name} from token_contents ${contentOf(tenant, id)}`);
  const cannotDecrypt = (part: string, id = 'card-1') => `the ${part} of token ${id} cannot be decrypted`;

  test('concurrent reads of several tenants find their own tokens, also with equal and unusual ids', async () => {
    const [one, other] = [await on.tenant(), await on.tenant()];
    const ids = ['NULL', 'null', 'a.b:c_d-e', '...', 'nil'];
    for (const id of ids) await create(one, id, { data: JsonText.of(id) });
    await create(other, 'NULL', { data: JsonText.of('of the other tenant') });
    const read = async (tenant: string, id: string) =>
      (await on.store.tokens.get(tenant, id))?.plaintext().value();
    const reads = [...ids, 'Null', 'none'].map((id) => read(one, id));
    expect(await read(other, 'NULL')).toBe('of the other tenant');
    expect(await Promise.all(reads)).toEqual([...ids, undefined, undefined]);
    expect(await Promise.all([read(one, 'NULL'), read(other, 'NULL'), read(other, 'null')])).toEqual([
      'NULL',
      'of the other tenant',
      undefined,
    ]);
  });

  test('the database contains neither the data nor the masked value in plain text', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1', {
      data: JsonText.of({ secret: 'PLAIN-9f3c' }),
      masked: JsonText.of('MASKED-9f3c'),
    });
    expect((await get(tenant, 'card-1')).plaintext().value()).toEqual({ secret: 'PLAIN-9f3c' });
    const everything = await dumpDatabase(on.url);
    for (const secret of ['PLAIN-9f3c', 'MASKED-9f3c']) {
      expect(everything).not.toContain(secret);
      expect(everything).not.toContain(Buffer.from(secret).toString('hex'));
    }
  });

  test('the same data encrypts to a different ciphertext each time', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1');
    await create(tenant, 'card-2');
    const rows = await on.runSql<{ data: Uint8Array; masked: Uint8Array }>(
      `select data, masked from token_contents where tenant_id = '${tenant}'`,
    );
    const texts = rows
      .flatMap((row) => [row.data, row.masked])
      .map((each) => Buffer.from(each).toString('hex'));
    expect(new Set(texts.map((text) => text.slice(0, 24))).size).toBe(4);
  });

  test('data that was swapped between two tokens does not decrypt', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1');
    await create(tenant, 'card-2');
    await on.runSql(
      `update token_contents set data = ${await column('data', tenant, 'card-2')} ${contentOf(tenant, 'card-1')}`,
    );
    const token = await get(tenant, 'card-1');
    expect(token.plaintext).toThrow(cannotDecrypt('data'));
    expect(token.masked()?.value()).toEqual(masked);
  });

  test('data that was copied into the masked value does not decrypt', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1');
    await on.runSql(`update token_contents set masked = data ${contentOf(tenant, 'card-1')}`);
    expect((await get(tenant, 'card-1')).masked).toThrow(cannotDecrypt('masked'));
  });

  test('data of another tenant does not decrypt, even with the same id and version', async () => {
    const [here, there] = [await on.tenant(), await on.tenant()];
    await create(here, 'card-1');
    await create(there, 'card-1');
    await on.runSql(
      `update token_contents set data = ${await column('data', there, 'card-1')} ${contentOf(here, 'card-1')}`,
    );
    expect((await get(here, 'card-1')).plaintext).toThrow(cannotDecrypt('data'));
  });

  test('data does not decrypt under another token id', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1');
    await on.runSql(`update tokens set id = 'card-9' ${rowOf(tenant, 'card-1')}`);
    expect((await get(tenant, 'card-9')).plaintext).toThrow(cannotDecrypt('data', 'card-9'));
  });

  test('older data does not decrypt under a newer version, nor newer data under an older one', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1', { data: JsonText.of('old') });
    await create(tenant, 'keep', { data: JsonText.of('x') });
    await on.runSql(
      `update token_contents set masked = ${await column('data', tenant, 'card-1')} ${contentOf(tenant, 'keep')}`,
    );
    await on.store.tokens.update(tenant, 'card-1', change(), async () =>
      content({ data: JsonText.of('new') }),
    );
    expect((await get(tenant, 'card-1')).plaintext().value()).toBe('new');
    await on.runSql(`update tokens set content_version = 1 ${rowOf(tenant, 'card-1')}`);
    expect((await get(tenant, 'card-1')).plaintext).toThrow(cannotDecrypt('data'));
    await on.runSql(`update tokens set content_version = 2 ${rowOf(tenant, 'card-1')}`);
    expect((await get(tenant, 'card-1')).plaintext().value()).toBe('new');
    await on.runSql(
      `update token_contents set data = ${await column('masked', tenant, 'keep')} ${contentOf(tenant, 'card-1')}`,
    );
    expect((await get(tenant, 'card-1')).plaintext).toThrow(cannotDecrypt('data'));
  });

  test('data of a deleted token does not decrypt in a new token with the same id', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1', { data: JsonText.of('old') });
    await create(tenant, 'other');
    await on.runSql(
      `update token_contents set masked = ${await column('data', tenant, 'card-1')} ${contentOf(tenant, 'other')}`,
    );
    await on.store.tokens.delete(tenant, 'card-1', () => {});
    await create(tenant, 'card-1', { data: JsonText.of('new') });
    await on.runSql(
      `update token_contents set data = ${await column('masked', tenant, 'other')} ${contentOf(tenant, 'card-1')}`,
    );
    expect((await get(tenant, 'card-1')).plaintext).toThrow(cannotDecrypt('data'));
  });

  test('other changes leave the ciphertexts alone, and removing the mask deletes the masked value', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1');
    const stored = () => on.runSql(`select * from token_contents ${contentOf(tenant, 'card-1')}`);
    const [before] = await stored();
    const { data: _, masked: __, ...fields } = content({ type: 'other', container: '/moved/' });
    await on.store.tokens.update(tenant, 'card-1', change(), async () => fields);
    expect(await stored()).toEqual([before]);
    expect((await get(tenant, 'card-1')).masked()?.value()).toEqual(masked);
    await on.store.tokens.update(tenant, 'card-1', change(), async () => ({ ...fields, mask: undefined }));
    expect(await stored()).toEqual([{ ...(before as object), masked: null }]);
    expect((await get(tenant, 'card-1')).plaintext().value()).toEqual(data);
  });

  test('a token whose contents were deleted by another program cannot be read or changed', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1');
    await on.runSql(`delete from token_contents ${contentOf(tenant, 'card-1')}`);
    expect((await get(tenant, 'card-1')).plaintext).toThrow(cannotDecrypt('data'));
    const changing = on.store.tokens.update(tenant, 'card-1', change(), async () => content());
    await expect(changing).rejects.toThrow('the contents of token card-1 are missing');
  });

  test('data with a flipped bit or a missing byte does not decrypt', async () => {
    const tenant = await on.tenant();
    await create(tenant, 'card-1');
    const [row] = await on.runSql<{ data: Uint8Array }>(
      `select data from token_contents ${contentOf(tenant, 'card-1')}`,
    );
    const sealed = Buffer.from(row?.data as Uint8Array);
    const flipped = (at: number) => Buffer.from(sealed).fill((sealed.at(at) as number) ^ 1, at, at + 1);
    const bad = [
      flipped(0),
      flipped(12),
      flipped(sealed.length - 1),
      sealed.subarray(0, -1),
      sealed.subarray(0, 27),
      Buffer.alloc(0),
    ];
    for (const bytes of bad) {
      const hex = bytes.toString('hex');
      const literal = database.name === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'`;
      await on.runSql(`update token_contents set data = ${literal} ${contentOf(tenant, 'card-1')}`);
      expect((await get(tenant, 'card-1')).plaintext).toThrow(cannotDecrypt('data'));
    }
  });

  test('the data key of another tenant cannot be unwrapped in place of the own one', async () => {
    const [here, there] = [await on.tenant(), await on.tenant()];
    await create(here, 'card-1');
    await create(there, 'card-1');
    const wrapped = await literalOf(`select wrapped from data_keys where tenant_id = '${there}'`);
    await on.runSql(`update data_keys set wrapped = ${wrapped} where tenant_id = '${here}'`);
    const restarted = await on.openNode();
    await expect(restarted.tokens.get(here, 'card-1') as Promise<unknown>).rejects.toThrow(
      `the data key ${here} cannot be unwrapped: its row was changed by another program`,
    );
  });

  test('all nodes use one data key per tenant, even if several create it concurrently', async () => {
    const tenant = await on.tenant();
    const nodes = await Promise.all([on.openNode(), on.openNode(), on.openNode()]);
    const ids = Array.from({ length: 12 }, (_, at) => `card-${at}`);
    const make = (id: string, at: number) =>
      (nodes[at % 3] as TestStore['store']).tokens.create(tenant, id, content(), change());
    await Promise.all(ids.map(make));
    for (const id of ids) expect((await get(tenant, id)).plaintext().value()).toEqual(data);
    expect(await on.runSql(`select 1 as one from data_keys where tenant_id = '${tenant}'`)).toHaveLength(1);
  });
});

describe('concurrent changes of a token on PostgreSQL', () => {
  let on: TestStore;
  beforeEach(async () => {
    on = await openTestStore(postgres);
  });

  test('the id of an expired token is free, even if the sweep removes the token concurrently', async () => {
    const [tenant, change] = [await on.tenant(), { by: newId(1), at: 1 }];
    await on.store.tokens.create(tenant, 'card-1', content({ expiresAt: on.clock.now() }), change);
    const swept: number[] = [];
    const sweepAfterwards = (tx: Queries): Queries => ({
      ...tx,
      run: async (statement) => {
        const changed = await tx.run(statement);
        if (swept.length === 0) swept.push(await on.maintenance.sweep(10));
        return changed;
      },
    });
    const node = await on.openNode(undefined, (db) => ({
      ...db,
      transaction: (work) => db.transaction((tx) => work(sweepAfterwards(tx))),
    }));
    await node.tokens.get(tenant, 'none');
    swept.length = 0;
    expect(await node.tokens.create(tenant, 'card-1', content(), change)).toMatchObject({ id: 'card-1' });
    expect(swept).toEqual([1]);
  });

  test.each<[string, (tenant: string, look: (token: TokenRecord) => void) => Promise<unknown>]>([
    [
      'changes it',
      (tenant, look) =>
        on.store.tokens.update(tenant, 'card-1', { by: newId(1), at: 1 }, async (token) => {
          look(token);
          return content({ container: token.container });
        }),
    ],
    ['deletes it', (tenant, look) => on.store.tokens.delete(tenant, 'card-1', look)],
  ])('a transaction that %s sees the change of the one before', async (_, change) => {
    const tenant = await on.tenant();
    await on.store.tokens.create(tenant, 'card-1', content(), { by: newId(1), at: 1 });
    const seen: string[] = [];
    const { changing } = await duringTransaction(
      on.url,
      "update tokens set container = '/moved/'",
      async () => {
        const changing = change(tenant, ({ container }) => seen.push(container));
        await untilBlocked(on.url);
        return { changing };
      },
    );
    await changing;
    expect(seen).toEqual(['/moved/']);
  });
});
