/** Direct access to a test database: dump its contents, or make statements fail. */
import { Database as Sqlite } from 'bun:sqlite';
import { existsSync, readFileSync } from 'node:fs';
import { PackedEntries } from '../../src/audit/log/segment.ts';
import type { Entry } from '../../src/domain/audit.ts';
import { runPostgres } from './test-server.ts';
import { runSql } from './test-store.ts';

/** SQLite: every byte of the files, as Latin-1. PostgreSQL: every row as text. */
export async function dumpDatabase(databaseUrl: string): Promise<string> {
  if (databaseUrl.startsWith('sqlite:')) {
    const path = databaseUrl.slice('sqlite:'.length);
    const files = [path, `${path}-wal`, `${path}-shm`].filter((file) => existsSync(file));
    return files.map((file) => readFileSync(file, 'latin1')).join('');
  }
  return Object.values(await allRows(databaseUrl))
    .flat()
    .join('\n');
}

/** Renames a table, so that statements that use it fail. */
export async function hideTable(databaseUrl: string, table: string): Promise<void> {
  await runSql(databaseUrl, `alter table ${table} rename to ${table}_hidden`);
}

/** Every row of every table as text, by table. */
export async function allRows(databaseUrl: string): Promise<Record<string, string[]>> {
  const rows: Record<string, string[]> = {};
  if (databaseUrl.startsWith('sqlite:')) {
    const db = new Sqlite(databaseUrl.slice('sqlite:'.length));
    for (const { name } of db.query<{ name: string }, []>(tablesOf.sqlite).all())
      rows[name] = db
        .query(`select * from "${name}"`)
        .values()
        .map((row) => row.map(String).join('|'))
        .sort();
    db.close();
    return rows;
  }
  for (const { name } of await runPostgres<{ name: string }>(databaseUrl, tablesOf.postgres)) {
    const all = await runPostgres<{ text: string }>(databaseUrl, `select t::text as text from "${name}" t`);
    rows[name] = all.map(({ text }) => text).sort();
  }
  return rows;
}

const tablesOf = {
  sqlite: "select name from sqlite_master where type = 'table'",
  postgres:
    "select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'",
};

/** Makes every insert into the table fail, like a full disk. Returns a function that undoes it. */
export async function failInserts(databaseUrl: string, table: string): Promise<() => Promise<void>> {
  const sqlite = databaseUrl.startsWith('sqlite:');
  const [fail, undo] = sqlite
    ? [
        `create trigger fail_insert before insert on ${table} begin select raise(abort, 'disk full'); end`,
        'drop trigger fail_insert',
      ]
    : [
        `alter table ${table} add constraint "disk full" check (false) not valid`,
        `alter table ${table} drop constraint "disk full"`,
      ];
  await runSql(databaseUrl, fail);
  return async () => {
    await runSql(databaseUrl, undo);
  };
}

/** All audit entries in a database: the sealed ones by tenant, then the pending ones, in the order of arrival. */
export async function auditEntries(databaseUrl: string): Promise<(Entry & { tenant_id: string })[]> {
  interface Row {
    tenant_id: string;
    number: number;
    first: number;
    last: number;
    packed: Uint8Array | null;
    id: string;
    text: string;
  }
  // One statement, so that an entry that the service seals at the same time is not missed.
  const rows = await runSql<Row>(
    databaseUrl,
    `select tenant_id, number, first_seq as first, last_seq as last, entries as packed, null as id, null as text
       from audit_segments
     union all
     select tenant_id, null, null, null, null, cast(id as text), entry from audit_pending`,
  );
  const isBefore = (a: Row, b: Row) =>
    a.packed && b.packed
      ? a.tenant_id.localeCompare(b.tenant_id) || Number(a.number) - Number(b.number)
      : Number(!a.packed) - Number(!b.packed) || a.id.localeCompare(b.id);
  return rows.sort(isBefore).flatMap(({ tenant_id, first, last, packed, text }) => {
    const range = { first: Number(first), last: Number(last) };
    const texts = packed ? new PackedEntries(range, packed).all()?.map((entry) => entry.text) : [text];
    return (texts ?? []).map((json) => ({ tenant_id, ...JSON.parse(json) }));
  });
}
