/** The first tenant, and how a tenant gets its first management key. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError } from './config.ts';
import { mint, newId, recognise, type Secret } from './domain/key.ts';
import { builtIn } from './domain/permission.ts';
import type { NewTenant, Store } from './store/store.ts';

export function newTenant(name: string, now: number): NewTenant & { secret: Secret } {
  const key = mint('mgt');
  const application = {
    id: newId(now),
    name: `${name}: first management key`.slice(0, 200),
    type: 'management' as const,
    permissions: [...builtIn],
    rules: [],
    createdBy: undefined,
    createdAt: now,
    expiresAt: undefined,
  };
  return { id: newId(now), name, createdAt: now, application, key, secret: key.secret };
}

export interface Bootstrapped {
  /** The first management key, when this start has made it. */
  readonly secret: Secret | undefined;
}

/**
 * On an empty database: makes a tenant and writes its key to the file. The key waits under another name until
 * the tenant is durable, so that a crash in between leaves neither a tenant without a key file nor a key file
 * without a tenant; the next start finishes what was begun.
 */
export async function bootstrap(store: Store, keyFile: string, now: number): Promise<Bootstrapped> {
  const pending = `${keyFile}.new`;
  await finishEarlier(store, pending, keyFile);
  if ((await store.tenants.list()).length > 0) return { secret: undefined };
  if (existsSync(keyFile)) {
    throw new ConfigError(
      `SALLYPORT_MANAGEMENT_KEY_FILE ${keyFile} holds a key already, but the database is empty: move the file away, or name another`,
    );
  }
  const tenant = newTenant('default', now);
  writeKey(pending, tenant.secret);
  const mine = await store.tenants.createFirst(tenant);
  if (mine) renameSync(pending, keyFile);
  else rmSync(pending);
  return { secret: mine ? tenant.secret : undefined };
}

async function finishEarlier(store: Store, pending: string, keyFile: string): Promise<void> {
  if (!existsSync(pending)) return;
  const key = recognise(readFileSync(pending, 'utf8').trim());
  const known = key && (await store.credentials.find(key.kind, key.digest));
  if (known) renameSync(pending, keyFile);
  else rmSync(pending);
}

function writeKey(path: string, secret: Secret): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, `${secret.reveal()}\n`, { mode: 0o600, flag: 'wx', flush: true });
  } catch (error) {
    throw new ConfigError(`SALLYPORT_MANAGEMENT_KEY_FILE cannot be written: ${(error as Error).message}`);
  }
}
