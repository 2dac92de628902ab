/**
 * Counts the tokens of each application, and their bytes. The counts are updated in the transaction that changes a
 * token.
 */
import { type Awaitable, then } from '../domain/awaitable.ts';
import { fail } from '../domain/error.ts';
import { storageUnit, storedSize } from '../domain/token.ts';
import type { DbTime, Executor, Queries, Value } from './engine/db.ts';
import type { StorageUsed } from './store.ts';
import { deleteTokenRows } from './token-index.ts';

interface Sized {
  readonly data_bytes: number;
  readonly masked_bytes: number;
  readonly mask: string | null;
  readonly metadata: string | null;
}

export function sizeOf({ data_bytes, masked_bytes, mask, metadata }: Sized): number {
  return storedSize(data_bytes + masked_bytes + bytesOf(mask) + bytesOf(metadata));
}

function bytesOf(text: string | null): number {
  return text === null ? 0 : Buffer.byteLength(text);
}

/** A change of the storage that the creator of a token uses. */
export interface Charge extends StorageUsed {
  readonly tenant: string;
  /** Null for a token that no application created. */
  readonly creator: string | null;
}

const columns = 'tenant_id, application_id, shard, tokens, bytes';
const addToStored = `on conflict (tenant_id, application_id, shard)
  do update set tokens = stored.tokens + excluded.tokens, bytes = stored.bytes + excluded.bytes`;

/** Charges of deleted applications are ignored. */
const addOne = `insert into application_storage as stored (${columns})
  select tenant_id, id, 0, $3, $4 from applications where tenant_id = $1 and id = $2 ${addToStored}`;

/**
 * Each application has up to 16 rows. A transaction locks one of them until it commits. The connection determines which
 * one, so that few transactions wait for each other. Rows are locked in the order of the applications, so that
 * transactions cannot deadlock.
 */
const addAll = `insert into application_storage as stored (${columns})
  select c.tenant, c.creator, pg_backend_pid() % 16, c.tokens, c.bytes
  from json_to_recordset(cast(cast($1 as text) as json))
    as c (tenant uuid, creator uuid, tokens bigint, bytes bigint)
  join applications a on a.tenant_id = c.tenant and a.id = c.creator order by c.creator ${addToStored}`;

export const writeCharges: Record<
  Executor['dialect'],
  (tx: Queries, charges: readonly Charge[]) => Promise<void>
> = {
  sqlite: async (tx, charges) => {
    for (const { tenant, creator, tokens, bytes } of summed(charges))
      await tx.run(addOne, [tenant, creator, tokens, bytes]);
  },
  postgres: async (tx, charges) => {
    const sums = summed(charges);
    if (sums.length > 0) await tx.run(addAll, [JSON.stringify(sums)]);
  },
};

/** Adds up the charges of each application. */
function summed(charges: readonly Charge[]): Charge[] {
  const sums = new Map<string, Charge>();
  for (const charge of charges) {
    if (charge.creator === null) continue;
    const name = `${charge.tenant} ${charge.creator}`;
    const sum = sums.get(name);
    const added = sum && { tokens: sum.tokens + charge.tokens, bytes: sum.bytes + charge.bytes };
    sums.set(name, { ...charge, ...added });
  }
  return [...sums.values()];
}

const total = `select coalesce(sum(tokens), 0) as tokens, coalesce(sum(bytes), 0) as bytes from application_storage
  where tenant_id = $1 and application_id = $2`;

export function storageUsedBy(
  db: Pick<Queries, 'get'>,
  tenant: string,
  application: string,
): Awaitable<StorageUsed> {
  return then(db.get<{ tokens: DbTime; bytes: DbTime }>(total, [tenant, application]), (row) => ({
    tokens: Number(row?.tokens ?? 0),
    bytes: Number(row?.bytes ?? 0),
  }));
}

/** Computes `sizeOf` in SQL, for a statement that deletes tokens. */
const returningSize = `returning tenant_id, seq, created_by, (data_bytes + masked_bytes
  + coalesce(octet_length(mask), 0) + coalesce(octet_length(metadata), 0)
  + ${storageUnit - 1}) / ${storageUnit} * ${storageUnit} as size`;

interface Deleted {
  readonly tenant_id: string;
  readonly seq: string;
  readonly created_by: string | null;
  readonly size: DbTime;
}

/**
 * Runs the statement `deletion`, deletes all other rows of the deleted tokens, and subtracts their size from the
 * storage of their creators. Returns the number of deleted tokens.
 */
export async function deleteTokens(
  tx: Queries,
  dialect: Executor['dialect'],
  deletion: string,
  params: readonly Value[],
): Promise<number> {
  const deleted = await tx.all<Deleted>(`${deletion} ${returningSize}`, params);
  await deleteTokenRows(tx, dialect, deleted);
  const credits = deleted.map(({ tenant_id, created_by, size }) => ({
    tenant: tenant_id,
    creator: created_by,
    tokens: -1,
    bytes: -Number(size),
  }));
  if (credits.length > 0) await writeCharges[dialect](tx, credits);
  return deleted.length;
}

/** Throws `storage_full` if the growth of a token would take its creator beyond the quota. */
export async function checkGrowth(
  tx: Queries,
  tenant: string,
  creator: string | null,
  growth: number,
  quota: number | undefined,
): Promise<void> {
  if (growth <= 0 || quota === undefined || creator === null) return;
  const { bytes } = await storageUsedBy(tx, tenant, creator);
  if (bytes + growth > quota) throw fail('storage_full');
}
