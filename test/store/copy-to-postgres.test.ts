import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { join } from 'node:path';
import { newChainKeys, unpackChainKeys } from '../../src/db/keys/keyring.ts';
import { tablesOf } from '../../src/db/migrate.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { copiedTables, copyToPostgres } from '../../src/store/copy-to-postgres.ts';
import { openStore } from '../../src/store/open.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { fewConnections, generousTimeout, postgres, sqlite, startTime } from '../support/test-server.ts';

let folder: string;
let path: string;
let source: Database;
let target: string;

beforeEach(async () => {
  folder = temporaryFolder();
  path = join(folder, 'test.db');
  await (await openStore(await sqlite.createEmpty(folder))).close();
  source = new Database(path);
  target = await postgres.createMigrated(folder);
});
afterEach(() => {
  source.close();
});

const keys = unpackChainKeys(newChainKeys());

async function copy(): Promise<Record<string, number>> {
  const db = openPostgres(target, undefined, generousTimeout, fewConnections);
  try {
    return await copyToPostgres(source, db, { at: startTime, chainKeys: keys });
  } finally {
    await db.close();
  }
}

interface Column {
  readonly name: string;
  readonly type: string;
}

/** The value of every column of a type. With equal values, all foreign keys and checks hold. */
const values: Record<string, string | number | Uint8Array> = {
  uuid: '01890a5d-ac96-774b-bcce-b302099a8057',
  text: 'private',
  integer: 1,
  smallint: 1,
  bigint: 1_700_000_000_001,
  bytea: Uint8Array.of(0, 39, 92, 255),
};

/** The columns of all tables of the target, in alphabetical order. */
async function columns(): Promise<Map<string, Column[]>> {
  const db = openPostgres(target, undefined, generousTimeout, fewConnections);
  const rows = await db.all<Column & { table: string }>(
    `select table_name as table, column_name as name, data_type as type from information_schema.columns
     where table_schema = 'public' order by table_name, column_name`,
  );
  await db.close();
  return Map.groupBy(rows, ({ table }) => table);
}

test('every table of both schemas is copied, except the list of running nodes and what only PostgreSQL needs', async () => {
  const created = source.query("select name from sqlite_master where type = 'table'").values().flat();
  const expected = [...copiedTables, 'nodes', 'schema_versions'].sort();
  expect(created.map(String).sort()).toEqual(expected);
  expect([...(await columns()).keys()]).toEqual([...expected, 'heartbeat', 'search_locks'].sort());
  expect([...tablesOf('sqlite'), 'heartbeat', 'search_locks'].sort()).toEqual(tablesOf('postgres').sort());
});

test('every column of every table is copied', async () => {
  const tables = await columns();
  for (const table of copiedTables) {
    const row = (tables.get(table) ?? []).map(({ name, type }) => [name, values[type]] as const);
    const names = row.map(([name]) => name).join(', ');
    const places = row.map(() => '?').join(', ');
    source
      .query(`insert into ${table} (${names}) values (${places})`)
      .run(...row.map(([, value]) => value as string));
  }
  const counts = await copy();
  expect(counts).toEqual(Object.fromEntries(copiedTables.map((table) => [table, 1])));
  const db = openPostgres(target, undefined, generousTimeout, fewConnections);
  for (const table of copiedTables) {
    const [row] = await db.all<Record<string, unknown>>(`select * from ${table}`);
    const expected = source.query(`select * from ${table}`).get() as Record<string, unknown>;
    const comparable = (one: Record<string, unknown> = {}) =>
      Object.fromEntries(
        Object.entries(one).map(([name, value]) => [
          name,
          value instanceof Uint8Array ? value.toHex() : String(value),
        ]),
      );
    expect([table, comparable(row)]).toEqual([table, comparable(expected)]);
  }
  await db.close();
});

test('tables with more rows than fit into one insert are copied completely', async () => {
  const insert = source.query('insert into settings (name, value) values (?, ?)');
  source.transaction(() => {
    for (let index = 0; index < 1201; index++)
      insert.run(`setting ${index}`, index % 300 === 0 ? 'x'.repeat(3_000_000) : "it's \\ 😀\n");
  })();
  expect(await copy()).toMatchObject({ settings: 1201 });
  const db = openPostgres(target, undefined, generousTimeout, fewConnections);
  const copied = await db.all('select name, value from settings order by name collate "C"');
  expect(Bun.deepEquals(copied, source.query('select name, value from settings order by name').all())).toBe(
    true,
  );
  await db.close();
});
