/** The search index during a rotation of its key: no search misses a token, and no row of the old key is left. */

import { describe, expect, test } from 'bun:test';
import type { Db } from '../../src/db/db.ts';
import { boundOf, type Statement } from '../../src/db/statement.ts';
import { JsonText } from '../../src/domain/json-text.ts';
import { newId } from '../../src/domain/key.ts';
import { duringTransaction, untilBlocked } from '../support/postgres-locks.ts';
import { databases, postgres } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const search = { pan: '{{ data.number }}', none: '{{ data.none }}' };
const content = (number: string, container = '/a/b/') => ({
  type: 'card',
  container,
  data: JsonText.of({ number, none: '' }),
  mask: undefined,
  masked: undefined,
  search,
  searchValues: { pan: number },
  metadata: undefined,
  expiresAt: undefined,
});

describe.each(databases)('the search index on %s', async (name, database) => {
  let tenant: string;
  const on = await openTestStore(database, 6);

  const change = () => ({ by: newId(on.clock.now()), at: on.clock.now() });
  const create = (id: string, number: string, container?: string) =>
    on.store.tokens.create(tenant, id, content(number, container), change());
  const find = async (number: string, store = on.store, container = '/') => {
    const visible = { scopes: [{ container: { value: container, exact: false } }], exact: true };
    const filter = { equals: { pan: number } };
    const query = {
      visible,
      decide: () => ({ allowed: true, transform: 'redact', rule: undefined }) as const,
      filter,
      size: 100,
    };
    return (await store.tokens.list(tenant, query)).rows.map(({ token }) => token.id).sort();
  };
  const versions = () =>
    on.runSql<{ search_version: number; reindexing: number }>(
      `select search_version, reindexing from data_keys where tenant_id = '${tenant}'`,
    );
  const digests = async () =>
    (
      await on.runSql<{ digest: string }>(`select digest from token_search where tenant_id = '${tenant}'`)
    ).map(({ digest }) => digest);
  const rotate = () => on.maintenance.changeTenants((tx) => tx.tenants.rotateSearchKey(tenant));

  test('is written again in batches after a rotation, while every search finds all tokens', async () => {
    tenant = await on.tenant();
    expect(await rotate()).toBe(false);
    const ids = Array.from({ length: 70 }, (_, at) => `card-${at}`).sort();
    for (const id of ids) await create(id, '42');
    const old = new Set(await digests());
    expect(await rotate()).toBe(true);
    expect(await rotate()).toBe(false);
    expect(await find('42')).toEqual(ids);
    await create('new', '42');
    expect(await on.maintenance.reindexSearch()).toBe(50);
    expect(await find('42', undefined, '/a/')).toEqual([...ids, 'new']);
    await on.store.tokens.update(tenant, 'card-69', change(), async () => ({
      ...content('42', '/c/'),
      data: undefined,
    }));
    await on.store.tokens.delete(tenant, 'card-68', () => {});
    const left = [...ids, 'new'].filter((id) => id !== 'card-68');
    expect([await find('42'), await find('42', undefined, '/c/')]).toEqual([left, ['card-69']]);
    // Another node continues where this one stopped.
    const { maintenance } = await on.open();
    while ((await maintenance.reindexSearch()) > 0) {}
    expect(await versions()).toEqual([{ search_version: 2, reindexing: 0 }]);
    expect((await digests()).filter((digest) => old.has(digest))).toEqual([]);
    expect([await find('42'), await find('42', undefined, '/c/')]).toEqual([left, ['card-69']]);
    expect(await rotate()).toBe(true);
  });

  test('is complete for a search during which the key is rotated and all tokens are indexed again', async () => {
    tenant = await on.tenant();
    await create('card', '42');
    let isFirst = true;
    const rotatesBeforeRead = (db: Db): Db => ({
      ...db,
      all: async <R>(statement: Statement) => {
        if (boundOf(statement)[0].includes('token_search r') && isFirst) {
          isFirst = false;
          expect(await rotate()).toBe(true);
          while ((await on.maintenance.reindexSearch()) > 0) {}
        }
        return db.all<R>(statement);
      },
    });
    const store = await on.openNode(undefined, rotatesBeforeRead);
    expect([await find('42', store), isFirst]).toEqual([['card'], false]);
  });

  test('differs between tenants, names and values, and does not contain the value', async () => {
    const rows: string[] = [];
    for (let at = 0; at < 2; at++) {
      tenant = await on.tenant();
      await create('card', '42', '/');
      const values = { pan: '42', other: '42', third: '43' };
      await on.store.tokens.create(tenant, 'more', { ...content('42', '/'), searchValues: values }, change());
      rows.push(...(await digests()));
    }
    expect([rows.length, new Set(rows).size]).toEqual([8, 6]);
    for (const row of rows) expect(row).toMatch(/^[\w-]{43}$/);
  });

  test.if(name === postgres.name)(
    'a rotation waits for transactions that write with the old key',
    async () => {
      tenant = await on.tenant();
      await create('card', '42');
      const lock = `select 1 from data_keys where tenant_id = '${tenant}' for share`;
      const rotated = await duringTransaction(on.url, lock, async () => {
        const rotating = rotate();
        await untilBlocked(on.url);
        return { rotating };
      });
      expect(await rotated.rotating).toBe(true);
      const waiting = await duringTransaction(
        on.url,
        `update data_keys set reindexing = 1 where tenant_id = '${tenant}'`,
        async () => {
          const creating = create('late', '42');
          await untilBlocked(on.url);
          return { creating };
        },
      );
      expect(await waiting.creating).toBeDefined();
    },
  );
});
