/** A second PostgreSQL connection that holds locks while a test runs. */
import { SQL } from 'bun';
import { runPostgres } from './test-server.ts';
import { until } from './until.ts';

/** Takes the advisory lock that serializes migrations, bootstrap, key rotation and recovery. */
export const maintenanceLock = 'select pg_advisory_xact_lock(7255901877)';

/** Runs `sql` in a transaction that stays open until `during` resolves. `run` adds statements to the transaction. */
export async function duringTransaction<T>(
  url: string,
  sql: string,
  during: (run: (sql: string) => Promise<unknown>) => Promise<T>,
): Promise<T> {
  const other = new SQL(url, { max: 1 });
  try {
    return (await other.begin(async (tx) => {
      await tx.unsafe(sql);
      return during(async (more) => tx.unsafe(more));
    })) as T;
  } finally {
    await other.close();
  }
}

/** Resolves when this many connections wait for a lock. */
export async function untilBlocked(url: string, connections = 1): Promise<void> {
  await untilWaiting(url, `${connections} connections wait for a lock`, (count) => count >= connections);
}

/** Resolves when no connection waits for a lock. */
export async function untilNoneBlocked(url: string): Promise<void> {
  await untilWaiting(url, 'no connection waits for a lock', (count) => count === 0);
}

async function untilWaiting(
  url: string,
  what: string,
  isReached: (connections: number) => boolean,
): Promise<void> {
  const sql =
    "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
  await until(what, async () => isReached((await runPostgres(url, sql)).length));
}
