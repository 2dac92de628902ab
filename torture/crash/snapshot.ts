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

const bytesAsText = (_key: string, value: unknown) =>
  value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;

/**
 * Reads all rows only if `data_version` changed. That alone says too much: it also changes when a checkpoint begins the log
 * anew.
 */
function onSqlite(path: string): Snapshots {
  const db = new Sqlite(path, { readonly: true });
  let version: unknown;
  let digest = '';
  const digestRows = db.transaction(() => {
    const hash = new Bun.CryptoHasher('sha256');
    const names = db.query("select name from sqlite_master where type = 'table' order by name").values();
    for (const [name] of names) {
      hash.update(`${name}\n`);
      const rows = db.prepare(`select * from "${name}"`);
      for (const row of rows.values()) hash.update(`${JSON.stringify(row, bytesAsText)}\n`);
      rows.finalize();
    }
    return hash.digest('hex');
  });
  return {
    take: async () => {
      const now = db.query('pragma data_version').values().flat()[0];
      if (now !== version) digest = digestRows();
      version = now;
      return digest;
    },
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
