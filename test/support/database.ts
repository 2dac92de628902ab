/** The database behind the program's back: all that it holds, and a way to break it. */
import { Database } from 'bun:sqlite';
import { existsSync, readFileSync } from 'node:fs';
import { SQL } from 'bun';
import { runSql } from './test-store.ts';

/** Every byte of the files, or every column of every table; one character per byte. */
export async function dumpDatabase(databaseUrl: string): Promise<string> {
  if (databaseUrl.startsWith('sqlite:')) {
    const path = databaseUrl.slice('sqlite:'.length);
    const files = [path, `${path}-wal`, `${path}-shm`].filter((file) => existsSync(file));
    return files.map((file) => readFileSync(file, 'latin1')).join('');
  }
  return onPostgres(databaseUrl, async (sql) => {
    const tables = await sql`select table_name from information_schema.tables where table_schema = 'public'`;
    const rows = [];
    for (const { table_name } of tables) {
      rows.push(...(await sql.unsafe(`select t::text as text from "${table_name}" t`)));
    }
    return rows.map(({ text }) => text).join('\n');
  });
}

/** Takes a table away, so that what asks for it fails. */
export async function hideTable(databaseUrl: string, table: string): Promise<void> {
  const statement = `alter table ${table} rename to ${table}_gone`;
  if (!databaseUrl.startsWith('sqlite:')) {
    await onPostgres(databaseUrl, (sql) => sql.unsafe(statement));
    return;
  }
  const database = new Database(databaseUrl.slice('sqlite:'.length));
  database.run(statement);
  database.close();
}

async function onPostgres<T>(databaseUrl: string, work: (sql: SQL) => Promise<T>): Promise<T> {
  const sql = new SQL(databaseUrl, { max: 1 });
  try {
    return await work(sql);
  } finally {
    await sql.close();
  }
}

/** Every row of every table. */
export async function allRows(databaseUrl: string): Promise<Record<string, string[]>> {
  const sqlite = databaseUrl.startsWith('sqlite:');
  const names = sqlite
    ? "select name from sqlite_master where type = 'table'"
    : "select table_name as name from information_schema.tables where table_schema = 'public'";
  const rows: Record<string, string[]> = {};
  for (const { name } of await runSql<{ name: string }>(databaseUrl, names)) {
    const all = await runSql<object>(databaseUrl, `select * from "${name}"`);
    rows[name] = all.map((row) => Bun.inspect(row)).sort();
  }
  return rows;
}

/** Has every new row of the table refused, as a full disk or a broken one would. Answers with the way back. */
export async function failInserts(databaseUrl: string, table: string): Promise<() => Promise<void>> {
  const sqlite = databaseUrl.startsWith('sqlite:');
  const refuse = sqlite
    ? [`create trigger refuse before insert on ${table} begin select raise(abort, 'no room'); end`]
    : [
        "create or replace function refuse() returns trigger language plpgsql as $$ begin raise 'no room'; end $$",
        `create trigger refuse before insert on ${table} for each row execute function refuse()`,
      ];
  for (const statement of refuse) await runSql(databaseUrl, statement);
  return async () => {
    await runSql(databaseUrl, sqlite ? 'drop trigger refuse' : `drop trigger refuse on ${table}`);
  };
}
