/** Maps errors of the PostgreSQL driver to those that the store throws. */
import { SQL } from 'bun';
import { DbUnavailable, ownerDeleted } from '../db.ts';
import { failedChecks } from './postgres-checks.ts';

/** The server could not be reached, or the connection was lost. */
export class Unreachable extends DbUnavailable {}

/** A coordinator of a Citus cluster could not reach the worker with the rows of the tenant. */
export class WorkerUnreachable extends DbUnavailable {}

/** The server is a standby, or its transactions are read-only. */
export class NotWritable extends DbUnavailable {}

/** A worker of a Citus cluster cannot run a statement: rows may have moved to another one. The coordinator can. */
export class Unsettled extends DbUnavailable {}

/** A serialization failure or a deadlock: the same transaction may succeed if it runs again. */
export class Conflict extends DbUnavailable {}

/** The message of timeouts in this process, unlike those of the server. */
export const noAnswer = 'the database does not answer';

/** SQLSTATEs about the state of the server, not the statement. 42501 is a missing privilege. */
const serverState = /^(08|25|28|3D|40|42501|53|55|57|58|XX)/;
/**
 * SQLSTATEs after which the connection is useless. Some mean that the server has closed it, was shut down or crashed.
 * Others mean that a prepared statement is missing or exists already: a connection pooler has switched to another
 * connection to the server.
 */
const connectionEnded = /^(08|57P0[123]|26000|42P05)/;
const conflict = /^(40001|40P01)$/;
/** With the severity `ERROR`, the connection to the server itself remains usable. */
const connectionFailure = '08006';
/** 25001 is the answer to `refusedByStandbys` (postgres-pool.ts). */
const readOnlyTransaction = /^2500[16]$/;
const invalidSchema = '3F000';
const foreignKeyViolation = '23503';

/** `error` must be thrown by the driver itself, not by a callback that the driver has called. */
export function mapDriverError(error: unknown): unknown {
  if (!(error instanceof SQL.PostgresError)) {
    // Certificate errors are plain errors with a code. A type error is a bug.
    const { code, message } = error as { code?: unknown; message: string };
    const isBug = error instanceof TypeError || code === undefined;
    return isBug ? error : new Unreachable(message, { cause: error });
  }
  const { message } = error;
  if (error.code !== 'ERR_POSTGRES_SERVER_ERROR') {
    const isLost = /^ERR_POSTGRES_(CONNECTION|TLS)_/.test(error.code);
    return new (isLost ? Unreachable : DbUnavailable)(message, { cause: error });
  }
  const state = String(error.errno);
  if (state === foreignKeyViolation) return ownerDeleted(error);
  if (state === failedChecks.isSettled) return new Unsettled(message, { cause: error });
  if (state === failedChecks.isWritable) return new NotWritable('the server is a standby or read-only');
  if (state === failedChecks.isServer)
    return new Unreachable('the connection leads to another server, or the server was restarted');
  if (readOnlyTransaction.test(state)) return new NotWritable(message, { cause: error });
  if (state === invalidSchema)
    return new DbUnavailable('the schema does not exist: create it, or correct `schema` in DATABASE_URL');
  if (state === connectionFailure && error.severity === 'ERROR')
    return new WorkerUnreachable(message, { cause: error });
  if (conflict.test(state)) return new Conflict(message, { cause: error });
  if (connectionEnded.test(state)) return new Unreachable(message, { cause: error });
  return serverState.test(state) ? new DbUnavailable(message, { cause: error }) : error;
}

/** Connection poolers reject startup parameters that they do not know. */
const startupRejected = /^(08P01|22023|42704)$/;

export function rejectsStartupParameters(error: unknown): boolean {
  return startupRejected.test(stateOf(error));
}

/** Whether something does not exist or is not supported on this server, or may not be used by the role. */
export function isUnsupported(error: unknown): boolean {
  return /^(0A000|42501|42883)$/.test(stateOf(error));
}

export function isUniqueViolation(error: unknown): boolean {
  return stateOf(error) === '23505';
}

export function isUndefinedTable(error: unknown): boolean {
  return stateOf(error) === '42P01';
}

/** The role may not run the statement. */
export function lacksPrivilege(error: unknown): boolean {
  return error instanceof DbUnavailable && stateOf(error.cause) === '42501';
}

/** A connection, statement or lock took too long. */
export function isTimeout(error: unknown): boolean {
  if (!(error instanceof DbUnavailable)) return false;
  const { message, cause } = error;
  if (message === noAnswer || /^(55P03|57014)$/.test(stateOf(cause))) return true;
  return cause instanceof SQL.PostgresError && cause.code === 'ERR_POSTGRES_CONNECTION_TIMEOUT';
}

/** The SQLSTATE; empty if the error is not from the server. */
function stateOf(error: unknown): string {
  return error instanceof SQL.PostgresError ? String(error.errno) : '';
}
