/**
 * PostgreSQL chooses plans by statistics, which autovacuum updates about once a minute. While the statistics say that a
 * table is almost empty, it is scanned sequentially. On the first day or after a quiet night, a table can grow by
 * thousands of rows in that minute. So fast-growing tables are analyzed here.
 */
import type { Db } from './db.ts';

const tables = ['applications', 'application_keys', 'sessions', 'tokens', 'token_contents', 'idempotency'];

/**
 * Table sizes in pages. Below `small`, any query plan is fast. If statistics were made at `large` or more pages, they
 * are good enough. Above `huge`, `analyze` would time out.
 */
const [small, large, huge] = [64, 1000, 20_000];

const pages = "pg_relation_size(oid) / current_setting('block_size')::int";

/** Changed rows below which the statistics of a table that was emptied and filled again are good enough. */
const few = 2000;

/**
 * Tables that have several times as many pages, or changed rows, as the statistics say. The rows matter after most rows
 * were deleted: new rows then fill the same pages. Only the owner of a table can analyze it.
 */
const outgrown = (names: readonly string[]) => `select relname as name from pg_class
  where oid in (${names.map((name) => `'${name}'::regclass`).join(', ')}) and pg_has_role(relowner, 'usage')
    and ${pages} between ${small} and ${huge}
    and (relpages < ${large} and ${pages} >= 4 * relpages
      or (select n_mod_since_analyze from pg_stat_user_tables where relid = oid) > greatest(${few}, 4 * reltuples))`;

/** Milliseconds before another attempt after a failure: another node may be analyzing the table. */
const pause = 60_000;

/**
 * Returns a function that analyzes tables that have outgrown their statistics and returns their names. `more` are tables
 * in addition to those above.
 */
export function analyzeGrownTables(db: Db, more: readonly string[]): () => Promise<string[]> {
  const sql = outgrown([...tables, ...more]);
  const failed = new Map<string, number>();

  async function analyze(name: string): Promise<boolean> {
    const last = failed.get(name);
    if (last !== undefined && performance.now() < last + pause) return false;
    try {
      await db.run(`analyze ${name}`);
      return true;
    } catch {
      failed.set(name, performance.now());
      return false;
    }
  }

  return async () => {
    if (db.dialect === 'sqlite') return [];
    const analyzed: string[] = [];
    for (const { name } of await db.all<{ name: string }>(sql)) if (await analyze(name)) analyzed.push(name);
    return analyzed;
  };
}
