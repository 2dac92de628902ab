import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { Db } from '../../src/db/db.ts';
import {
  hashOf,
  IncompatibleSchema,
  type Migration,
  migrate,
  migrations,
  newestSchema,
  SchemaTooNew,
} from '../../src/db/migrate.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { openSqlite } from '../../src/db/sqlite/sqlite.ts';
import { boundOf } from '../../src/db/statement.ts';
import { newTenant } from '../../src/operations/bootstrap.ts';
import { openStore } from '../../src/store/open.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { allRows } from '../support/database.ts';
import { databases, fewConnections, generousTimeout } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';

/** The migrations of a later version. */
const later: Migration[] = [
  { name: '9001_colour', sql: 'alter table tenants add column colour text' },
  {
    name: '9002_parts',
    sql: 'create table parts (id uuid primary key)',
    only: { sqlite: 'create index one on parts (id)' },
  },
];
const all = [...migrations, ...later];

/** The hashes that databases of released versions store. The release of 1.0.0 adds the first two, which then never change. */
const released: [name: string, dialect: Db['dialect'], hash: string][] = [];

test('released migrations are unchanged', () => {
  for (const [name, dialect, hash] of released) {
    const migration = migrations.find((one) => one.name === name) as Migration;
    expect([name, hashOf(dialect, migration)]).toEqual([name, hash]);
  }
});

test('the primary key and every unique constraint of a table with a tenant contain the tenant, first', () => {
  const text = migrations.flatMap(({ sql, only = {} }) => [sql, ...Object.values(only)]).join(';\n');
  const tables = Array.from(text.matchAll(/^create table (\w+) \((.*?)^\)/gms), ([, name, body]) => ({
    name: name as string,
    body: body as string,
  })).filter(({ name, body }) => /^ {2}tenant_id /m.test(body) && !name.startsWith('audit'));
  expect(tables.length).toBeGreaterThan(15);
  for (const { name, body } of tables) {
    const keys = Array.from(body.matchAll(/^ {2}(?:primary key|unique) \((\w+)/gm), ([, first]) => first);
    const inline = /^ {2}(\w+) .*\b(?:unique|primary key)\b/m.exec(
      body.replace(/^ {2}(?:unique|primary).*/gm, ''),
    );
    expect([name, ...new Set([...keys, ...(inline ? [inline[1]] : [])])]).toEqual([name, 'tenant_id']);
  }
  expect(text).not.toMatch(/create unique index/);
});

/** The existing tables that a migration alters. */
function alteredTables({ sql, only }: Migration): Set<string> {
  const text = `${sql};${only?.postgres ?? ''}`;
  const created = Array.from(text.matchAll(/\bcreate table (\w+)/g), ([, table]) => table);
  const altered = text.matchAll(/\b(?:alter table|drop table|create (?:unique )?index \w+ on|update) (\w+)/g);
  return new Set(Array.from(altered, ([, table]) => table as string).filter((one) => !created.includes(one)));
}

test('every migration after the first alters at most one existing table, so that it cannot deadlock with requests', () => {
  const deadlocks = {
    name: 'x',
    sql: 'alter table tenants add a text; create index b on applications (name)',
  };
  expect(alteredTables(deadlocks).size).toBe(2);
  for (const migration of [...migrations.slice(1), ...later])
    expect([migration.name, alteredTables(migration).size <= 1]).toEqual([migration.name, true]);
});

describe.each(databases)('migrations on %s', (_, database) => {
  let folder: string;
  let url: string;
  const opened: Db[] = [];
  beforeEach(async () => {
    folder = temporaryFolder();
    url = await database.createEmpty(folder);
  });
  afterEach(async () => {
    for (const db of opened.splice(0)) await db.close();
  });

  function connect(): Db {
    const sqlite = url.startsWith('sqlite:');
    const db = sqlite
      ? openSqlite(url.slice('sqlite:'.length), Date.now)
      : openPostgres(url, undefined, generousTimeout, fewConnections);
    opened.push(db);
    return db;
  }
  const open = () => openStore(url, { timeout: generousTimeout, maxConnections: fewConnections });
  /** Replaces the empty database by one of this version. */
  const create = async () => {
    url = await database.createMigrated(folder);
  };
  const applied = () =>
    runSql<{ version: number; name: string }>(url, 'select * from schema_versions order by version');

  test('if several nodes start concurrently on an empty database, one creates the schema', async () => {
    const nodes = await Promise.all(Array.from({ length: 5 }, open));
    expect(nodes.filter(({ migrated }) => migrated.from === 0)).toHaveLength(1);
    expect((await applied()).map(({ name }) => name)).toEqual(migrations.map(({ name }) => name));
    for (const { maintenance, close } of nodes) {
      await maintenance.tenants.create(newTenant('test', Date.now()));
      await close();
    }
  });

  test('a second start changes nothing', async () => {
    const first = await open();
    await first.maintenance.tenants.create(newTenant('first', Date.now()));
    await first.close();
    const { maintenance, migrated, close } = await open();
    expect(migrated).toEqual({ from: newestSchema, to: newestSchema });
    expect((await maintenance.tenants.list()).map(({ name }) => name)).toEqual(['first']);
    await close();
  });

  test('if several nodes of a newer version start concurrently, one applies the new migrations', async () => {
    await create();
    const results = await Promise.all([connect(), connect(), connect()].map((db) => migrate(db, all)));
    expect(results.map(({ to }) => to)).toEqual(Array(3).fill(all.length));
    expect((await applied()).map(({ version, name }) => [Number(version), name])).toEqual(
      all.map(({ name }, at) => [at + 1, name]),
    );
    await runSql(url, 'select colour from tenants, parts');
  });

  test('a database of a newer version is not opened, and not changed', async () => {
    await migrate(connect(), all);
    const opening = open();
    await expect(opening).rejects.toThrow(SchemaTooNew);
    await expect(opening).rejects.toThrow(`the database has schema ${all.length}`);
    expect(await applied()).toHaveLength(all.length);
  });

  test.each<[string, string]>([
    ['its hash', "set hash = 'f00'"],
    ['its name', "set name = '0001_other'"],
    ['its number', 'set version = 0'],
  ])('a database is not opened if a migration differs from that of the program by %s', async (_, change) => {
    await create();
    await runSql(url, `update schema_versions ${change} where version = 1`);
    const opening = open();
    await expect(opening).rejects.toThrow(IncompatibleSchema);
    await expect(opening).rejects.toThrow(/migration 0001_\w+ of the database differs/);
  });

  test.each<[string, string[]]>([
    ['has no record of its migrations', ['delete from schema_versions']],
    ['belongs to another program', ['drop table schema_versions', 'drop table audit_index']],
  ])('a database with our tables that %s is not opened, and not changed', async (_, changes) => {
    await create();
    for (const change of changes) await runSql(url, change);
    const before = await allRows(url);
    const opening = open();
    await expect(opening).rejects.toThrow(IncompatibleSchema);
    await expect(opening).rejects.toThrow('has a table tenants, but no record that Sallyport created it');
    expect(await allRows(url)).toEqual(before);
  });

  test('a migration that was edited after a database applied it is found', async () => {
    await migrate(connect(), all);
    const edited = [...all.slice(0, -1), { name: '9002_parts', sql: 'create table parts (id uuid)' }];
    await expect(migrate(connect(), edited)).rejects.toThrow('migration 9002_parts of the database differs');
    const commented = all.map((one) => ({ ...one, sql: `-- A comment; it has no effect.\n${one.sql}` }));
    expect(await migrate(connect(), commented)).toEqual({ from: all.length, to: all.length });
  });

  test('a failed migration leaves the ones before it applied', async () => {
    await create();
    const broken = [...all.slice(0, -1), { name: '9002_parts', sql: 'create table tenants (id uuid)' }];
    await expect(migrate(connect(), broken)).rejects.toThrow('tenants');
    expect(await applied()).toHaveLength(newestSchema + 1);
    expect(await migrate(connect(), all)).toMatchObject({ to: all.length });
  });

  test('every migration runs in a separate transaction', async () => {
    const db = connect();
    const transactions: string[][] = [];
    const exclusively: Db['exclusively'] = (work, pace) =>
      db.exclusively((tx) => {
        const sent: string[] = [];
        transactions.push(sent);
        const run: typeof tx.run = (statement) => {
          sent.push(boundOf(statement)[0]);
          return tx.run(statement);
        };
        return work({ ...tx, run });
      }, pace);
    await migrate({ ...db, exclusively }, all);
    const changing = /^(create (table (?!if)|index)|alter|do )/;
    // On Citus, another transaction distributes the tables.
    const sent = transactions
      .map((sqls) => sqls.filter((sql) => changing.test(sql)))
      .filter(({ length }) => length);
    expect(sent.map((sqls) => sqls.length > 5)).toEqual(all.map((_, at) => at === 0));
    expect(sent.slice(-later.length)).toEqual([
      ['alter table tenants add column colour text'],
      expect.arrayContaining([expect.stringContaining('create table parts')]),
    ]);
  });
});
