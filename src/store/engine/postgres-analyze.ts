/**
 * PostgreSQL plans a statement by what it knew of its tables, and keeps the plan until it looks again: of its own
 * accord, about once a minute. A table that it took to be all but empty it goes through whole, and so it would for
 * that minute after a quiet night or on the first day, while Sessions pour in.
 */
import type { Db } from './db.ts';

const tables = ['applications', 'application_keys', 'sessions', 'tokens', 'audit', 'idempotency'];

/**
 * Pages. Below the first no plan is a bad one; above the second none takes the table for a small one; above the third
 * looking takes longer than a statement may.
 */
const [small, large, huge] = [64, 1000, 20_000];

const pages = "pg_relation_size(oid) / current_setting('block_size')::int";

/** Those that it takes to be small, and that have become several times as large; a stranger's it would only warn of. */
const outgrown = `select relname as name from pg_class
  where oid in (${tables.map((name) => `'${name}'::regclass`).join(', ')}) and relpages < ${large}
    and ${pages} between greatest(${small}, 4 * relpages) and ${huge} and pg_has_role(relowner, 'usage')`;

/** Milliseconds for which one that could not be looked at is left alone: somebody else may be looking. */
const pause = 60_000;

/** Has it look again at tables that have outgrown what it knows, and answers which. */
export function analyzeGrownTables(db: Db): () => Promise<string[]> {
  const failed = new Map<string, number>();

  async function renew(name: string): Promise<boolean> {
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
    const renewed: string[] = [];
    for (const { name } of await db.all<{ name: string }>(outgrown))
      if (await renew(name)) renewed.push(name);
    return renewed;
  };
}
