import { closeSync, existsSync, openSync } from 'node:fs';
import { resolve } from 'node:path';
import { defaultDatabase } from '../../config/values.ts';
import { commandTimeout, DbUnavailable } from '../../db/db.ts';
import { readMac } from '../../db/keys/backup-mac.ts';
import { IncompatibleSchema, NoSchema } from '../../db/migrate.ts';
import { lacksPrivilege } from '../../db/postgres/postgres-errors.ts';
import { openDatabase } from '../../db/sqlite/file-ownership.ts';
import { masterKeys } from '../../operations/master-key.ts';
import { retryTimeouts } from '../../operations/slow-start.ts';
import { NotEmpty } from '../../store/copy-to-postgres.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import { type OpenedStore, openStore } from '../../store/open.ts';
import type { Command, Invocation } from '../command.ts';
import { CommandError, ErrorAbout, UsageError } from '../errors.ts';
import { databaseLabel, shortPath, sqlitePath, unavailableHint, whileWaiting } from '../terminal/database.ts';
import { requireFile } from '../terminal/files.ts';

export const commands: Command = {
  usage: 'copy-to-postgres [FILE]',
  summary: 'Copy a SQLite database to an empty PostgreSQL database.',
  examples: ['sallyport copy-to-postgres', 'sallyport copy-to-postgres /var/lib/sallyport/sallyport.db'],
  details:
    'Stop the service first. Set DATABASE_URL to the PostgreSQL database, and use the master key of the SQLite database. FILE is sallyport.db in the data folder by default. Keys, sessions, tokens and the audit log stay valid. If the command fails, PostgreSQL has no copied rows, and you can run the command again.',
  run: copyDatabase,
};

async function copyDatabase(invocation: Invocation): Promise<number> {
  const { config, args, printResult } = invocation;
  const { databaseUrl } = config;
  if (sqlitePath(databaseUrl) !== undefined)
    throw new UsageError(
      'DATABASE_URL is not the URL of a PostgreSQL database',
      'set DATABASE_URL to postgres://USER@HOST/DATABASE, the database to copy to',
    );
  const path = resolve(args[0] ?? defaultDatabase(config.dataDir));
  if (!existsSync(path))
    throw new UsageError(
      `${path} does not exist`,
      'set SALLYPORT_DATA_DIR to the folder of the SQLite database, or pass its FILE',
    );
  requireFile(path);
  requireNoBackup(path);
  const source = await openSource(invocation, path);
  try {
    const tables = await copyFrom(invocation, path, source.maintenance);
    const rows = Object.values(tables).reduce((sum, count) => sum + count, 0);
    const master_key = await source.maintenance.currentMasterKey();
    const [from, to] = [shortPath(path), databaseLabel(databaseUrl)];
    const counts = Object.entries(tables).filter(([, count]) => count > 0);
    const text = [
      `copied ${rows} rows from ${from} to ${to}`,
      ...counts.map(([table, count]) => `  ${table} ${count}`),
      `Start every node with this DATABASE_URL and the master key ${master_key}.`,
      `Store ${from} as a backup. Do not start a service on it again: keys that are revoked on PostgreSQL would still be valid there.`,
    ].join('\n');
    return printResult({ from: path, to, master_key, rows, tables }, text);
  } finally {
    await source.close();
  }
}

/** Opening a backup would change it and make its MAC invalid. */
function requireNoBackup(path: string): void {
  const file = openSync(path, 'r');
  try {
    if (readMac(file))
      throw new UsageError(
        `${path} is a backup`,
        'restore it with `sallyport restore`, then copy the result',
      );
  } finally {
    closeSync(file);
  }
}

/** Locks the file, migrates it and checks the master key. */
async function openSource(invocation: Invocation, path: string): Promise<OpenedStore> {
  const masters = masterKeys(invocation.config);
  try {
    return await openStore(`sqlite:${path}`, { masters, existing: true, exclusive: true });
  } catch (error) {
    if (error instanceof NoSchema)
      throw new CommandError(`${path} is not a Sallyport database`, 'check the path');
    if (error instanceof DbUnavailable)
      throw new CommandError(`${path}: ${error.message}`, unavailableHint(`sqlite:${path}`, error.message));
    throw error instanceof IncompatibleSchema ? new ErrorAbout(path, error) : error;
  }
}

function copyFrom(
  invocation: Invocation,
  path: string,
  { chainKeys }: Maintenance,
): Promise<Record<string, number>> {
  const { databaseUrl, databaseTimeout } = invocation.config;
  const timeout = Math.max(databaseTimeout, commandTimeout);
  return whileWaiting(invocation, async (onStep) => {
    // Without master keys, so that opening the target writes no rows.
    const target = await retryTimeouts(() => openStore(databaseUrl, { timeout, onStep }));
    const source = openDatabase(path, 'read-only');
    try {
      return await target.maintenance.copyFrom(source, {
        at: Date.now(),
        chainKeys: await chainKeys(),
        onTable: (table) => onStep(`the copy of ${table}`),
      });
    } catch (error) {
      throw targetError(error, databaseUrl);
    } finally {
      source.close();
      await target.close();
    }
  });
}

function targetError(error: unknown, databaseUrl: string): unknown {
  if (error instanceof NotEmpty)
    return new CommandError(
      `${databaseLabel(databaseUrl)} is not empty: ${error.message}`,
      'create a new database and set DATABASE_URL to it',
    );
  if (lacksPrivilege(error))
    return new CommandError(
      `the role of DATABASE_URL may not copy: ${(error as Error).message}`,
      'set DATABASE_URL to the URL of the role that owns the tables',
    );
  return error;
}
