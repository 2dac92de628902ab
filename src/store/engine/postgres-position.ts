/** Reads and checks the position of a PostgreSQL server: see domain/database-position.ts. */
import type { SQL } from 'bun';
import {
  describePosition,
  type KnownPositions,
  newerThan,
  type Position,
} from '../../domain/database-position.ts';
import { isUndefinedTable, isUnsupported, mapDriverError, Unreachable } from './postgres-errors.ts';
import type { Pool } from './postgres-pool.ts';
import type { PostgresTarget } from './postgres-url.ts';

/**
 * The timeline is the first part of the names of WAL files. A standby has none of its own, and databases that are only
 * compatible with PostgreSQL do not know these functions.
 */
const timeline =
  'case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end';

/** Undefined if the database has no schema yet. */
export async function readPosition(sql: SQL, schema: string | undefined): Promise<Position | undefined> {
  const read = (selected: string) =>
    sql.unsafe(
      `select installation, era, beat, ${selected} as timeline
       from ${schema === undefined ? '' : `"${schema}".`}heartbeat`,
    );
  try {
    const [row] = await read(timeline).catch((error) => {
      if (!isUnsupported(error)) throw error;
      return read('null');
    });
    return row && { ...row, beat: Number(row.beat), timeline: Number.parseInt(row.timeline ?? '0', 16) };
  } catch (error) {
    if (isUndefinedTable(error)) return undefined;
    throw error;
  }
}

/** Throws `Unreachable`, so that the node looks for another server, if this one is behind. */
export async function checkPosition(
  { sql, host }: Pool,
  { schema }: PostgresTarget,
  positions: KnownPositions,
): Promise<Position | undefined> {
  const seen = await positions.newest();
  const found = await readPosition(sql, schema).catch((error) => {
    throw mapDriverError(error);
  });
  const newer = found && newerThan(found, seen);
  if (newer) throw new Unreachable(`${host} is behind: ${describePosition(newer)} was seen`);
  if (found) positions.saw(found, host);
  return found;
}
