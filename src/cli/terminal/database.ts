/** The database of the service: its location, as shown to operators, and how commands open it. */

import { statSync } from 'node:fs';
import { relative } from 'node:path';
import type { Config } from '../../config/settings.ts';
import { commandTimeout } from '../../db/db.ts';
import { knownPositions } from '../../operations/known-positions.ts';
import { masterKeys } from '../../operations/master-key.ts';
import { reportWaiting } from '../../operations/slow-start.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import { type OpenOptions, openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import type { Invocation } from '../command.ts';
import { CommandError } from '../errors.ts';

/** Relative to the current folder if the path is below it, otherwise unchanged. Never empty. */
export function shortPath(path: string): string {
  const fromHere = relative(process.cwd(), path);
  return fromHere === '' || fromHere.startsWith('..') ? path : fromHere;
}

/**
 * A database URL without its credentials and query. A password may contain any character unescaped, so everything up
 * to the last @ is removed. If that @ is after a ? or #, the whole URL is hidden.
 */
export function databaseLabel(databaseUrl: string): string {
  const path = sqlitePath(databaseUrl);
  if (path !== undefined) return shortPath(path);
  const address = databaseUrl.replace(/^\w+:\/\//, '');
  const query = address.search(/[?#]/);
  if (query >= 0 && address.lastIndexOf('@') > query) return 'postgres://…';
  const label = address.slice(address.lastIndexOf('@') + 1, query < 0 ? undefined : query);
  return `postgres://${label}`;
}

/** Returns undefined for PostgreSQL. */
export function sqlitePath(databaseUrl: string): string | undefined {
  return databaseUrl.startsWith('sqlite:') ? databaseUrl.slice('sqlite:'.length) : undefined;
}

export const noDatabaseHint =
  'set SALLYPORT_DATA_DIR or DATABASE_URL to an existing database, or run `sallyport serve` to create one';

export function unavailableHint(databaseUrl: string | undefined, reason: string): string {
  if (databaseUrl?.startsWith('sqlite:'))
    return /disk is full/.test(reason)
      ? 'free at least 64 MiB on its disk: see "SallyportDiskFull" in docs/operations/runbooks.md'
      : 'check that this user may write to the file and its folder, and run `sallyport doctor`';
  if (reason.includes(' is behind: '))
    return 'find out which server is current: see "A server that is behind" in docs/operations/postgresql.md';
  if (reason.includes(' has a restored or copied database'))
    return 'if nodes should use it, accept it: see "Restore PostgreSQL" in docs/operations/backups.md';
  // The second one is the answer of a server with a full disk to a new connection.
  return /No space left on device|could not write init file/.test(reason)
    ? 'free space on the disk of the database: see docs/operations/postgresql.md'
    : 'check that the database runs, and that this machine can connect and write to it';
}

/** Throws if the SQLite file is missing or empty. Otherwise a mistyped path would look like a service without data. */
export function requireDatabase({ databaseUrl }: Config): void {
  const path = sqlitePath(databaseUrl);
  if (path === undefined) return;
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file) throw new CommandError(`${path} does not exist`, noDatabaseHint);
  if (file.size === 0) throw new CommandError(`${path} is empty`, noDatabaseHint);
}

/** After two seconds, tells the operator what the command waits for. */
export function whileWaiting<T>(
  { terminal }: Pick<Invocation, 'terminal'>,
  open: (onStep: (waitingFor: string) => void) => Promise<T>,
): Promise<T> {
  return reportWaiting(open, (waitingFor) => {
    if (terminal.showsDelays) terminal.writeError(`waiting for ${waitingFor}\n`);
  });
}

/** Opens the existing database of the service with its master key, and closes it after `work`. */
export async function withStore(
  invocation: Invocation,
  work: (maintenance: Maintenance, store: Store) => Promise<number>,
  options: Pick<OpenOptions, 'exclusive' | 'readOnly' | 'positions'> = {},
): Promise<number> {
  const { config } = invocation;
  requireDatabase(config);
  const masters = masterKeys(config);
  const { databaseUrl, databaseConnections: maxConnections } = config;
  const timeout = Math.max(config.databaseTimeout, commandTimeout);
  const opened = await whileWaiting(invocation, (onStep) =>
    openStore(databaseUrl, {
      positions: knownPositions(config),
      ...options,
      timeout,
      maxConnections,
      masters,
      existing: true,
      onStep,
    }),
  );
  try {
    return await work(opened.maintenance, opened.store);
  } finally {
    await opened.close();
  }
}
