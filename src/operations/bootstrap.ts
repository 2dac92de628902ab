/** The first tenant, and how a tenant gets its first management key. */
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError } from '../config.ts';
import { mint, newId, parseKey, type Secret } from '../domain/key.ts';
import { builtIn } from '../domain/permission.ts';
import { makeFolder, writeOwned } from '../store/engine/file-ownership.ts';
import type { Maintenance, NewTenant } from '../store/maintenance.ts';
import type { NewApplication, Store } from '../store/store.ts';

export function newTenant(name: string, now: number): NewTenant & { secret: Secret } {
  const key = mint('mgt');
  const application = managementOf(`${name}: first management key`, now);
  return { id: newId(now), name, createdAt: now, application, key, secret: key.secret };
}

/** One that may do all that there is. */
export function managementOf(name: string, now: number): NewApplication {
  return {
    id: newId(now),
    name: [...name].slice(0, 200).join(''),
    type: 'management',
    permissions: [...builtIn],
    rules: [],
    createdBy: undefined,
    createdAt: now,
    expiresAt: undefined,
  };
}

export interface Bootstrapped {
  /** The first management key, when this start has made it. */
  readonly secret: Secret | undefined;
  /** Whether the key file holds a management key that is valid on this database. */
  readonly keyFileValid: boolean;
}

interface Opened {
  readonly store: Store;
  readonly maintenance: Maintenance;
}

/**
 * On an empty database: makes a tenant and writes its key to the file. The key waits under another name until
 * the tenant is durable, and any start that finds one waiting settles what becomes of it. So neither a crash
 * nor several starts at once leave a tenant without a key file, or a key file without a tenant.
 */
export async function bootstrap(
  { store, maintenance }: Opened,
  keyFile: string,
  now: number,
): Promise<Bootstrapped> {
  const waiting = `${keyFile}.new`;
  const tenant = newTenant('default', now);
  const empty = (await maintenance.tenants.list()).length === 0;
  const mine =
    empty &&
    (await maintenance.createFirstTenant(tenant, () => {
      refuseToReplace(keyFile);
      writeKey(waiting, tenant.secret);
    }));
  await settle(store, waiting, keyFile);
  return { secret: mine ? tenant.secret : undefined, keyFileValid: await isValid(store, keyFile) };
}

/** False as well if the file is missing or unreadable: it may be of another user, or of another database. */
async function isValid(store: Store, keyFile: string): Promise<boolean> {
  const key = parseKey(textOf(keyFile)?.trim() ?? '');
  return key?.kind === 'mgt' && (await store.credentials.find(key.kind, key.digest)) !== undefined;
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** There is a tenant by now: a waiting key is known, or it is of a start that did not get that far. */
async function settle(store: Store, waiting: string, keyFile: string): Promise<void> {
  const text = unlessGone(() => readFileSync(waiting, 'utf8'));
  if (text === undefined) return;
  const key = parseKey(text.trim());
  const known = key && (await store.credentials.find(key.kind, key.digest));
  unlessGone(() => (known ? renameSync(waiting, keyFile) : rmSync(waiting)));
}

/** A file that is gone has been settled by another start. */
function unlessGone<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new ConfigError(`SALLYPORT_MANAGEMENT_KEY_FILE: ${(error as Error).message}`);
  }
}

function refuseToReplace(keyFile: string): void {
  if (!existsSync(keyFile)) return;
  throw new ConfigError(
    `SALLYPORT_MANAGEMENT_KEY_FILE: ${keyFile} holds the key of another database, and this one is empty`,
    'for a new database set SALLYPORT_DATA_DIR or SALLYPORT_MANAGEMENT_KEY_FILE to another place; otherwise check DATABASE_URL',
  );
}

function writeKey(path: string, secret: Secret): void {
  try {
    makeFolder(dirname(path));
    rmSync(path, { force: true });
    writeOwned(path, `${secret.reveal()}\n`);
  } catch (error) {
    throw new ConfigError(`SALLYPORT_MANAGEMENT_KEY_FILE cannot be written: ${(error as Error).message}`);
  }
}
