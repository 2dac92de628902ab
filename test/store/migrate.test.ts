import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newTenant } from '../../src/bootstrap.ts';
import type { Db } from '../../src/store/db.ts';
import { migrate, newestSchema, SchemaTooNew } from '../../src/store/migrate.ts';
import { openStore } from '../../src/store/open.ts';
import { openPostgres } from '../../src/store/postgres.ts';
import { raw } from '../support/stores.ts';
import { databases, postgres } from '../support/world.ts';

/** The version that makes the table of Sessions anew. */
const sessionsAnew = 11;

test('a migration alters one table that others use, so that it never waits with one in hand', () => {
  const folder = join(import.meta.dirname, '../../src/store/migrations');
  const files = readdirSync(folder).filter((name) => name > '0011_sessions.sql');
  for (const file of files) {
    const sql = readFileSync(join(folder, file), 'utf8');
    const made = Array.from(sql.matchAll(/^create table (\w+)/gm), ([, table]) => table);
    const altered = sql.matchAll(
      /^(?:alter table|drop table|create (?:unique )?index \w+ on|update) (\w+)/gm,
    );
    const others = Array.from(altered, ([, table]) => table).filter((table) => !made.includes(table));
    expect([file, new Set(others).size]).toEqual([file, Math.min(1, others.length)]);
  }
});

describe.each(databases)('the store on %s: migrations', (_, database) => {
  let folder: string;
  let url: string;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sallyport-migrate-'));
    url = await database.fresh(folder);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('of several nodes that start at once on an empty database, one makes the schema and all can use it', async () => {
    const nodes = await Promise.all(Array.from({ length: 5 }, () => openStore(url)));
    const from = nodes.map(({ migrated }) => migrated.from).toSorted();
    expect(from).toEqual([0, ...Array(4).fill(newestSchema)]);
    for (const { store } of nodes) {
      await store.tenants.create(newTenant('test', Date.now()));
      await store.close();
    }
  });

  test('a second start changes nothing', async () => {
    const first = await openStore(url);
    await first.store.tenants.create(newTenant('kept', Date.now()));
    await first.store.close();
    const { store, migrated } = await openStore(url);
    expect(migrated).toEqual({ from: newestSchema, to: newestSchema });
    expect((await store.tenants.list()).map(({ name }) => name)).toEqual(['kept']);
    await store.close();
  });

  test('an older schema is brought up by one of several nodes that start at once', async () => {
    await (await openStore(url)).store.close();
    const undo = ['drop index sessions_by_application', 'drop index sessions_by_expiry'];
    for (const statement of undo) await raw(url, statement);
    await raw(url, `delete from schema_versions where version >= ${sessionsAnew}`);
    const nodes = await Promise.all(Array.from({ length: 3 }, () => openStore(url)));
    expect(nodes.map(({ migrated }) => migrated.to)).toEqual([newestSchema, newestSchema, newestSchema]);
    for (const { store } of nodes) await store.close();
    const versions = await raw<{ version: number }>(
      url,
      'select version from schema_versions order by version',
    );
    expect(versions.map(({ version }) => version)).toEqual(
      Array.from({ length: newestSchema }, (_, at) => at + 1),
    );
  });

  test('a schema newer than the program is refused, and left as it is', async () => {
    await (await openStore(url)).store.close();
    await raw(url, "insert into schema_versions (version, name) values (999, 'from the future')");
    const opening = openStore(url);
    await expect(opening).rejects.toThrow(SchemaTooNew);
    await expect(opening).rejects.toThrow('999');
    expect(await raw(url, 'select version from schema_versions where version = 999')).toHaveLength(1);
  });
});

test('a new database is never asked to lock a table, which some that speak PostgreSQL’s language cannot', async () => {
  const db = openPostgres(await postgres.fresh(''));
  const sent: string[] = [];
  const exclusively: Db['exclusively'] = (work) =>
    db.exclusively((tx) =>
      work({
        ...tx,
        run: (sql, params) => {
          sent.push(sql);
          return tx.run(sql, params);
        },
      }),
    );
  expect(await migrate({ ...db, exclusively })).toEqual({ from: 0, to: newestSchema });
  await db.close();
  expect(sent.filter((sql) => sql.startsWith('create table')).length).toBeGreaterThan(5);
  expect(sent.filter((sql) => sql.startsWith('lock'))).toEqual([]);
});
