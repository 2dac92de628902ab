import { statSync } from 'node:fs';
import type { Config } from '../../config.ts';
import { masterKeys } from '../../operations/master-key.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import { type OpenOptions, openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import type { Invocation } from '../command.ts';
import { CommandError } from '../errors.ts';
import { sqlitePath } from './paths.ts';

export const noDatabaseHint =
  'set SALLYPORT_DATA_DIR or DATABASE_URL to an existing database, or run `sallyport serve` to create one';

/** Throws if the SQLite file is missing or empty, so that a mistyped path is not taken for a service without data. */
export function requireDatabase({ databaseUrl }: Config): void {
  const path = sqlitePath(databaseUrl);
  if (path === undefined) return;
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file) throw new CommandError(`${path} does not exist`, noDatabaseHint);
  if (file.size === 0) throw new CommandError(`${path} is empty`, noDatabaseHint);
}

/** Opens the existing database of the service with its master key, and closes it after `work`. */
export async function withStore(
  { config }: Pick<Invocation, 'config'>,
  work: (maintenance: Maintenance, store: Store) => Promise<void>,
  options: Pick<OpenOptions, 'alone'> = {},
): Promise<number> {
  requireDatabase(config);
  const masters = masterKeys(config);
  const { databaseUrl, databaseTimeout: timeout } = config;
  const opened = await openStore(databaseUrl, { ...options, timeout, masters, existing: true });
  try {
    await work(opened.maintenance, opened.store);
    return 0;
  } finally {
    await opened.close();
  }
}
