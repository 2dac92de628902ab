/** Writes entries to `audit_pending`. A background job chains them: see chain.ts. */
import type { Awaitable } from '../../domain/awaitable.ts';
import { Failure, fail } from '../../domain/error.ts';
import type { Db, Queries } from '../engine/db.ts';
import { inserter } from '../engine/sql.ts';
import type { NewEntry } from '../store.ts';
import { type ChainKeys, newMac, rowFormat, systemTenant } from './hash-chain.ts';

const insertPending = inserter<ReturnType<typeof rowOf>>('audit_pending', {
  at: 'bigint',
  format: 'smallint',
  tenant_id: 'uuid',
  mac: 'bytea',
  entry: 'text',
});

/** Writes entries in the transaction of a change. */
export type EntryWriter = (tx: Queries, entries: readonly NewEntry[]) => Promise<void>;

/**
 * Create one writer and use it for all changes, so that the deferred entries of a transaction are inserted in one
 * batch.
 */
export function entryWriter({ dialect }: Db, chainKeys: () => Awaitable<ChainKeys>): EntryWriter {
  return async (tx, entries) => insertEntries(tx, dialect, await chainKeys(), entries);
}

/**
 * Call this in the transaction of the change. Throws `unavailable` if the entries cannot be written, so that the change
 * fails.
 */
export async function insertEntries(
  tx: Queries,
  dialect: Db['dialect'],
  keys: ChainKeys,
  entries: readonly NewEntry[],
): Promise<void> {
  try {
    await insertPending[dialect](
      tx,
      entries.map((entry) => rowOf(keys, entry)),
    );
  } catch (error) {
    throw error instanceof Failure ? error : fail('unavailable', { cause: error });
  }
}

/** The fields must be in the order of the columns of `insertPending`. */
function rowOf(keys: ChainKeys, { tenantId = systemTenant, at, ...entry }: NewEntry) {
  const entryText = JSON.stringify(entry);
  const mac = newMac(keys, { tenantId, at, entryText });
  return { at, format: rowFormat, tenant_id: tenantId, mac, entry: entryText };
}
