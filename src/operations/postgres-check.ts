/** Checks a PostgreSQL server for `doctor`. */
import type { Config } from '../config/settings.ts';
import { type Db, DbUnavailable } from '../store/engine/db.ts';
import { openPostgres } from '../store/engine/postgres.ts';
import { isTimeout } from '../store/engine/postgres-errors.ts';
import { readServerState, readTimeouts, type Timeouts } from '../store/operator-queries.ts';
import { type Check, fail, ok, warn } from './check.ts';

const oldestPostgres = 140_000;

export async function checkPostgres(db: Db, config: Config): Promise<Check[]> {
  return [...(await checkServer(db, config.databaseConnections)), await checkTimeouts(config)];
}

/** `maxConnections` is the size of the connection pool of a process. */
async function checkServer(db: Db, maxConnections: number): Promise<Check[]> {
  const state = await readServerState(db);
  const problems: Check[] = [];
  const failed = (message: string, hint: string) => problems.push(fail('database', message, hint));
  const warned = (message: string, hint: string) => problems.push(warn('database', message, hint));
  if (state.standby) failed('the server is a standby and read-only', 'set DATABASE_URL to the primary');
  if (state.readOnly)
    failed(
      'default_transaction_read_only is on: every write fails with 503',
      'set it to off; hosting providers turn it on when storage runs out',
    );
  if (state.fsync !== 'on')
    failed('fsync is off: a crash can corrupt the database', 'set fsync = on in postgresql.conf');
  if (state.fullPageWrites !== 'on')
    failed(
      'full_page_writes is off: a crash can corrupt the database',
      'set full_page_writes = on in postgresql.conf',
    );
  if (state.synchronousCommit === 'off')
    failed('synchronous_commit is off: a crash can lose acknowledged writes', 'set synchronous_commit = on');
  if (state.encoding !== 'UTF8')
    failed(`the encoding of the database is ${state.encoding}`, 'create a database with encoding UTF8');
  if (state.number < oldestPostgres)
    warned(`PostgreSQL ${state.version} is not supported`, 'use PostgreSQL 14 or later');
  if (state.left < maxConnections)
    warned(
      `only ${Math.max(0, state.left)} connections are free`,
      `raise max_connections: one process uses up to ${maxConnections}`,
    );
  return problems.length > 0
    ? problems
    : [ok('database', `PostgreSQL ${state.version}, ${state.left} connections free`)];
}

/** Connects with the timeouts of the service, and reads those that apply to a request. */
async function checkTimeouts({ databaseUrl, databaseTimeout }: Config): Promise<Check> {
  const db = openPostgres(databaseUrl, undefined, databaseTimeout, 1);
  try {
    return formatTimeouts(await readTimeouts(db));
  } catch (error) {
    if (!(error instanceof DbUnavailable)) throw error;
    const reason = isTimeout(error)
      ? `took longer than SALLYPORT_DATABASE_TIMEOUT, ${databaseTimeout} ms`
      : `failed: ${error.message}`;
    return fail(
      'timeouts',
      `a new connection ${reason}: the service would respond with 503`,
      'check the load of the database and the network to it, or raise SALLYPORT_DATABASE_TIMEOUT',
    );
  } finally {
    await db.close();
  }
}

function formatTimeouts({ statement, lock, idle, onConnection }: Timeouts): Check {
  const values = `statement_timeout ${statement}, lock_timeout ${lock}, idle_in_transaction_session_timeout ${idle}`;
  if ([statement, lock, idle].includes('0'))
    return warn('timeouts', `${values}: 0 is no timeout`, 'use PostgreSQL 14 or later');
  const how = onConnection
    ? 'set for each connection'
    : 'set for each transaction, because a connection pooler does not pass them on';
  return ok('timeouts', `${values}; ${how}`);
}
