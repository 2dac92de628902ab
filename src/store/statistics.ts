/**
 * PostgreSQL plans a statement by what it knew of its tables, and keeps the plan until it looks again: of its own
 * accord, about once a minute. A table that it took to be all but empty it goes through whole, and so it would for
 * that minute after a quiet night or on the first day, while Sessions pour in.
 */
import type { Db } from './db.ts';

const tables = ['applications', 'application_keys', 'sessions', 'tokens', 'audit', 'idempotency'];

/** Pages. Below the first no plan is a bad one; above the second none takes the table for a small one. */
const [small, large] = [64, 1000];

/** Those that it takes to be small, and that have become several times as large; a stranger's it would only warn of. */
const outgrown = `select relname as name from pg_class
  where oid in (${tables.map((name) => `'${name}'::regclass`).join(', ')}) and relpages < ${large}
    and pg_relation_size(oid) / current_setting('block_size')::int >= greatest(${small}, 4 * relpages)
    and pg_has_role(relowner, 'usage')`;

/** Has it look again at tables that have outgrown what it knows, and answers which. */
export async function renewStatistics(db: Db): Promise<string[]> {
  if (db.dialect === 'sqlite') return [];
  const names = (await db.all<{ name: string }>(outgrown)).map(({ name }) => name);
  for (const name of names) await db.run(`analyze ${name}`);
  return names;
}
