import { statSync } from 'node:fs';
import type { Config } from '../../config.ts';
import { masterKeys } from '../../operations/master-key.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import { type OpenOptions, openStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import type { Invocation } from '../command.ts';
import { Refused } from '../errors.ts';
import { sqlitePath } from './paths.ts';

/** What to do where there is no database: it may be another that was meant. */
export const noDatabaseHint =
  'SALLYPORT_DATA_DIR or DATABASE_URL says where it is; sallyport serve makes a new one';

/** A path that is mistyped must not look like a service without data. */
export function mustBeThere({ databaseUrl }: Config): void {
  const path = sqlitePath(databaseUrl);
  if (path === undefined) return;
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file) throw new Refused(`${path} is not there`, noDatabaseHint);
  if (file.size === 0) throw new Refused(`${path} is empty`, noDatabaseHint);
}

/**
 * Opens the database that the service uses, with its master key: every change leaves an audit entry. Only the
 * service itself, and `migrate`, make one.
 */
export async function withStore(
  { config }: Pick<Invocation, 'config'>,
  work: (maintenance: Maintenance, store: Store) => Promise<void>,
  options: Pick<OpenOptions, 'alone'> = {},
): Promise<number> {
  mustBeThere(config);
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
