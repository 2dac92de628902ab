import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { JsonText } from '../../../src/domain/json-text.ts';
import { newTenant } from '../../../src/operations/bootstrap.ts';
import type { Db } from '../../../src/store/engine/db.ts';
import { migrate, newestSchema, SchemaTooNew } from '../../../src/store/engine/migrate.ts';
import { openPostgres } from '../../../src/store/engine/postgres.ts';
import { openStore } from '../../../src/store/open.ts';
import type { TokenContent } from '../../../src/store/store.ts';
import { databases, generousTimeout, postgres, testMasterKey } from '../../support/test-server.ts';
import { masterKeys, runSql } from '../../support/test-store.ts';

/** The version that adds the index of tokens by type. */
const tokensByType = 14;
/** The version that makes the table of containers anew, on SQLite. */
const containersAnew = 12;

/** Back to the tables that were there before. */
const inTheOldTable = [
  'drop table application_storage',
  'drop trigger token_containers_go',
  'drop table token_metadata',
  'alter table tokens rename to newer_tokens',
  `create table tokens (tenant_id text not null references tenants (id), seq text primary key, id text not null,
     type text not null, container text not null, container_folded text not null, version integer not null,
     data blob not null, masked blob, mask text, metadata text, created_by text, created_at integer not null,
     modified_by text, modified_at integer, expires_at integer, unique (tenant_id, id), unique (tenant_id, seq)) strict`,
  `insert into tokens select tenant_id, seq, id, type, container, container_folded, version, data, masked, mask,
     metadata, created_by, created_at, modified_by, modified_at, expires_at from newer_tokens`,
  'drop table newer_tokens',
  `create table token_metadata (tenant_id text not null, name text not null, value text not null,
     seq text not null references tokens (seq) on delete cascade, primary key (tenant_id, name, value, seq)) strict`,
  `insert into token_metadata select tenant_id, 'colour', 'blue', seq from tokens`,
  'alter table token_containers rename to newer',
  `create table token_containers (tenant_id text not null, container text not null, own integer not null,
     seq text not null references tokens (seq) on delete cascade, id text not null,
     primary key (tenant_id, container, own, seq)) strict`,
  `insert into token_containers select newer.tenant_id, newer.container, own, newer.seq, id
     from newer join tokens on tokens.seq = newer.seq`,
  'drop table newer',
  'create index token_containers_by_id on token_containers (tenant_id, container, own, id)',
  'create index token_containers_by_token on token_containers (seq)',
  `delete from schema_versions where version >= ${containersAnew}`,
];

test('a migration alters one table that others use, so that it never waits with one in hand', () => {
  const folder = join(import.meta.dirname, '../../../src/store/engine/migrations');
  const files = readdirSync(folder).filter((name) => name > '0011_sessions.sql' && !name.includes('sqlite'));
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
    url = await database.createEmpty(folder);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('of several nodes that start at once on an empty database, one makes the schema and all can use it', async () => {
    const nodes = await Promise.all(
      Array.from({ length: 5 }, () => openStore(url, { timeout: generousTimeout })),
    );
    const from = nodes.map(({ migrated }) => migrated.from).toSorted();
    expect(from).toEqual([0, ...Array(4).fill(newestSchema)]);
    for (const { maintenance, close } of nodes) {
      await maintenance.tenants.create(newTenant('test', Date.now()));
      await close();
    }
  });

  test('a second start changes nothing', async () => {
    const first = await openStore(url, { timeout: generousTimeout });
    await first.maintenance.tenants.create(newTenant('kept', Date.now()));
    await first.close();
    const { maintenance, migrated, close } = await openStore(url, { timeout: generousTimeout });
    expect(migrated).toEqual({ from: newestSchema, to: newestSchema });
    expect((await maintenance.tenants.list()).map(({ name }) => name)).toEqual(['kept']);
    await close();
  });

  test('an older schema is brought up by one of several nodes that start at once', async () => {
    await (await openStore(url, { timeout: generousTimeout })).close();
    await runSql(url, 'drop table application_storage');
    await runSql(url, 'drop index tokens_by_type');
    await runSql(url, `delete from schema_versions where version >= ${tokensByType}`);
    const nodes = await Promise.all(
      Array.from({ length: 3 }, () => openStore(url, { timeout: generousTimeout })),
    );
    expect(nodes.map(({ migrated }) => migrated.to)).toEqual([newestSchema, newestSchema, newestSchema]);
    for (const { close } of nodes) await close();
    const versions = await runSql<{ version: number }>(
      url,
      'select version from schema_versions order by version',
    );
    expect(versions.map(({ version }) => version)).toEqual(
      Array.from({ length: newestSchema }, (_, at) => at + 1),
    );
  });

  test('a schema newer than the program is refused, and left as it is', async () => {
    await (await openStore(url, { timeout: generousTimeout })).close();
    await runSql(url, "insert into schema_versions (version, name) values (999, 'from the future')");
    const opening = openStore(url, { timeout: generousTimeout });
    await expect(opening).rejects.toThrow(SchemaTooNew);
    await expect(opening).rejects.toThrow('999');
    expect(await runSql(url, 'select version from schema_versions where version = 999')).toHaveLength(1);
  });
});

test('a new database is never asked to lock a table, which some that speak PostgreSQL’s language cannot', async () => {
  const db = openPostgres(await postgres.createEmpty(''), undefined, generousTimeout);
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

test('Tokens in an older schema of SQLite are found where they lie, and leave nothing behind', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-migrate-'));
  const url = `sqlite:${join(folder, 'sallyport.db')}`;
  const masters = masterKeys(testMasterKey);
  const content: TokenContent = {
    type: 'card',
    container: '/a/b/',
    data: JsonText.of('secret'),
    mask: undefined,
    masked: undefined,
    metadata: { colour: 'blue' },
    expiresAt: undefined,
  };
  const before = await openStore(url, { masters, timeout: generousTimeout });
  const tenant = newTenant('test', Date.now());
  const change = { by: tenant.application.id, at: Date.now() };
  await before.maintenance.tenants.create(tenant);
  await before.store.tokens.create(tenant.id, 'card-1', content, change);
  await before.close();
  for (const statement of inTheOldTable) await runSql(url, statement);

  const { store, migrated, close } = await openStore(url, { masters, timeout: generousTimeout });
  expect(migrated).toEqual({ from: containersAnew - 1, to: newestSchema });
  const one = await store.tokens.storageUsed(tenant.id, change.by);
  await store.tokens.create(tenant.id, 'card-2', content, change);
  const scopes = [{ container: { value: '/a/', exact: false } }];
  const query = { visible: { scopes, exact: true }, show: () => 'reveal' as const, size: 9 };
  for (const filter of [{}, { type: 'card' }, { metadata: { colour: 'blue' } }]) {
    const { rows } = await store.tokens.list(tenant.id, { ...query, filter });
    expect(rows.map(({ token, data }) => [token.id, data?.value()]).sort()).toEqual([
      ['card-1', 'secret'],
      ['card-2', 'secret'],
    ]);
  }
  expect(await store.tokens.storageUsed(tenant.id, change.by)).toEqual({ tokens: 2, bytes: 2 * one.bytes });
  for (const id of ['card-1', 'card-2']) await store.tokens.delete(tenant.id, id, () => {});
  for (const table of ['token_containers', 'token_metadata'])
    expect(await runSql(url, `select seq from ${table}`)).toEqual([]);
  await close();
  rmSync(folder, { recursive: true, force: true });
});
