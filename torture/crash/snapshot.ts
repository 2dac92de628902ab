/** Fingerprints of a database, to detect changes. */
import { Database as Sqlite } from 'bun:sqlite';
import { SQL } from 'bun';
import { auditEntries } from '../../test/support/database.ts';

export interface Snapshots {
  take(): Promise<string>;
  /** Number of audit entries of this request. */
  entriesOf(requestId: string): Promise<number>;
  close(): Promise<void>;
}

export function openSnapshots(databaseUrl: string): Snapshots {
  return databaseUrl.startsWith('sqlite:')
    ? onSqlite(databaseUrl.slice('sqlite:'.length))
    : onPostgres(databaseUrl);
}

/** Uses `data_version`, which changes with every commit of another connection. */
function onSqlite(path: string): Snapshots {
  const db = new Sqlite(path, { readonly: true });
  return {
    take: async () => String(db.query('pragma data_version').values()),
    entriesOf: (id) => successesOf(`sqlite:${path}`, id),
    close: async () => db.close(),
  };
}

function onPostgres(databaseUrl: string): Snapshots {
  const sql = new SQL(databaseUrl, { max: 1 });
  const names =
    "select table_name as name from information_schema.tables where table_schema = 'public' order by 1";
  return {
    take: async () => {
      const tables = (await sql.unsafe(names)) as { name: string }[];
      const digests = tables.map(
        ({ name }) =>
          `(select md5(coalesce(string_agg(md5(t::text), '' order by t::text), '')) from "${name}" t)`,
      );
      const [row] = await sql.unsafe(`select concat_ws(' ', ${digests.join()}) as digest`);
      return row.digest;
    },
    entriesOf: (id) => successesOf(databaseUrl, id),
    close: () => sql.close(),
  };
}

async function successesOf(databaseUrl: string, requestId: string): Promise<number> {
  const entries = await auditEntries(databaseUrl);
  return entries.filter(({ request_id, result }) => request_id === requestId && result === 'success').length;
}
