/** Creates the first tenant and the first management key of a tenant. */
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError } from '../config/settings.ts';
import { DbUnavailable } from '../db/db.ts';
import { createFolder, writeOwned } from '../db/sqlite/file-ownership.ts';
import { type AuditedReads, byOperator, readsOperation, readsSetting } from '../domain/audit.ts';
import { Failure } from '../domain/error.ts';
import { cut } from '../domain/escape.ts';
import { mint, newId, newTag, type ParsedKey, parseKey, type Secret } from '../domain/key.ts';
import { builtIn, hasTrait } from '../domain/permission.ts';
import type { Maintenance, NewTenant } from '../store/maintenance.ts';
import type { OpenedStore } from '../store/open.ts';
import type { NewApplication, Store } from '../store/store.ts';

export function newTenant(name: string, now: number): NewTenant & { secret: Secret } {
  const tag = newTag();
  const key = mint('mgt', tag);
  const application = managementOf(`${name}: first management key`, now);
  return { id: newId(now), tag, name, createdAt: now, application, key, secret: key.secret };
}

/** A management application with every built-in permission that needs no rule. */
export function managementOf(name: string, now: number): NewApplication {
  return {
    id: newId(now),
    name: cut(name, 200),
    type: 'management',
    permissions: builtIn.filter((name) => !hasTrait(name, 'destination')),
    rules: [],
    createdBy: undefined,
    createdAt: now,
    expiresAt: undefined,
  };
}

export interface Bootstrapped {
  /** The first management key, if this start created it. */
  readonly secret: Secret | undefined;
  /** Whether the key file contains a management key that is valid in this database. */
  readonly keyFileValid: boolean;
}

/**
 * On an empty database, creates a tenant and writes its key to the file. The key is written to a temporary file before
 * the commit and renamed after it. Every start that finds a temporary file renames or deletes it. Neither a crash nor
 * concurrent starts can therefore leave a tenant without a key file, or a key file without a tenant.
 */
export async function bootstrap(
  { store, maintenance }: Pick<OpenedStore, 'store' | 'maintenance'>,
  keyFile: string,
  now: number,
): Promise<Bootstrapped> {
  const temporary = `${keyFile}.new`;
  const tenant = newTenant('default', now);
  const created =
    !(await maintenance.tenants.exist()) &&
    (await maintenance.createFirstTenant(tenant, () => {
      refuseToReplace(keyFile);
      writeKey(temporary, tenant.secret);
    }));
  await finishKeyFile(store, temporary, keyFile);
  return { secret: created ? tenant.secret : undefined, keyFileValid: await isValid(store, keyFile) };
}

/** Returns false if the file is missing or unreadable, or if its key is invalid or of another database. */
async function isValid(store: Store, keyFile: string): Promise<boolean> {
  const key = parseKey(textOf(keyFile)?.trim() ?? '');
  if (key?.kind !== 'mgt') return false;
  return isKnown(store, key).catch((error) => {
    // Its tenant is on a worker of a Citus cluster that is lost.
    if (error instanceof DbUnavailable) return true;
    throw error;
  });
}

/** Returns false for a key of a tenant that moves or has moved to another installation. */
async function isKnown(store: Store, key: ParsedKey): Promise<boolean> {
  try {
    return (await store.credentials.find(key)) !== undefined;
  } catch (error) {
    if (error instanceof Failure && (error.code === 'tenant_moved' || error.expected)) return false;
    throw error;
  }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** Renames the temporary file if its key is valid. Deletes it if the start that wrote it did not commit. */
async function finishKeyFile(store: Store, temporary: string, keyFile: string): Promise<void> {
  const text = ifExists(() => readFileSync(temporary, 'utf8'));
  if (text === undefined) return;
  const key = parseKey(text.trim());
  const known = key && (await isKnown(store, key));
  ifExists(() => (known ? renameSync(temporary, keyFile) : rmSync(temporary)));
}

/** Returns undefined if the file does not exist: a concurrent start has renamed or deleted it. */
function ifExists<T>(work: () => T): T | undefined {
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
    `SALLYPORT_MANAGEMENT_KEY_FILE: ${keyFile} contains the key of another database, and this one is empty`,
    'for a new database, set SALLYPORT_DATA_DIR or SALLYPORT_MANAGEMENT_KEY_FILE to another path; otherwise check DATABASE_URL',
  );
}

function writeKey(path: string, secret: Secret): void {
  try {
    createFolder(dirname(path));
    rmSync(path, { force: true });
    writeOwned(path, `${secret.reveal()}\n`);
  } catch (error) {
    throw new ConfigError(`SALLYPORT_MANAGEMENT_KEY_FILE cannot be written: ${(error as Error).message}`);
  }
}

/** Writes an entry at the first start, and if the setting has changed since the last start. */
export async function recordAuditedReads(
  { changeTenants }: Pick<Maintenance, 'changeTenants'>,
  reads: AuditedReads,
  now: number,
): Promise<void> {
  await changeTenants(async (tx) => {
    const changed = await tx.settings.replace(readsSetting, reads, now);
    if (!changed) return;
    const from = changed.from !== undefined && { from: changed.from };
    const difference = { SALLYPORT_AUDIT_READS: { ...from, to: reads } };
    tx.record({ ...byOperator, at: now, operation: readsOperation, difference });
  });
}
