/**
 * Counts the tokens of each application, and the bytes of its tokens and idempotency records. The counts are updated in
 * the transaction that changes a token or a record.
 */

import { type DbTime, type Executor, type Queries, rowLock } from '../db/db.ts';
import { type Clause, clause, list, none, raw, sql } from '../db/statement.ts';
import { fail } from '../domain/error.ts';
import { pauses } from '../domain/steps.ts';
import type { Token } from '../domain/token.ts';
import { notExpired } from './applications.ts';
import type { DecidedBy, StorageUsed, Tokens } from './store.ts';
import { containersOf, deleteTokenRows } from './token-index.ts';

interface Stored extends Pick<Token, 'id' | 'type' | 'container'> {
  readonly data_bytes: number;
  readonly masked_bytes: number;
  readonly mask: string | null;
  readonly search: string | null;
  readonly written_by: string | null;
  readonly metadata: string | null;
}

/**
 * About the bytes that a token takes in the database with all rows and index entries. The numbers were measured;
 * test/store/stored-bytes.test.ts compares them with both databases. Ciphertexts are rounded up: an exact count would
 * reveal the size of hidden data to a caller that replaces it.
 */
export function storedBytes(token: Stored): number {
  const { id, type, container, mask, search, written_by, metadata } = token;
  const texts = [mask, search, written_by, metadata].reduce((sum, text) => sum + bytesOf(text), 0);
  const row = inPages(210 + id.length + type.length + 2 * container.length + texts);
  const contents = inPages(100 + roundedUp(token.data_bytes) + roundedUp(token.masked_bytes));
  const keys = 340 + id.length + type.length;
  const containers = containersOf(token).map(({ length }) => 120 + 2.5 * length);
  const values = Object.keys(JSON.parse(search ?? '{}')).map(() => 2 * (150 + container.length));
  const entries = Object.keys(JSON.parse(metadata ?? '{}')).map(() => 240);
  const indexes = [...containers, ...values, ...entries].reduce((sum, bytes) => sum + bytes, 0);
  return Math.round(row + contents + keys + indexes);
}

const pageBytes = 4096;

/** A page has whole rows. The last part of a larger row can share its page. */
function inPages(bytes: number): number {
  return bytes < pageBytes ? pageBytes / Math.floor(pageBytes / bytes) : 1.03 * bytes;
}

function roundedUp(bytes: number): number {
  return Math.ceil(bytes / 512) * 512;
}

function bytesOf(text: string | null): number {
  return text === null ? 0 : Buffer.byteLength(text);
}

/**
 * Tokens and idempotency records are counted in separate rows, so that a restore, which deletes all records, can delete
 * their counts.
 */
const firstShard = { tokens: 0, records: 16 };
export const deleteRecordCounts = `delete from application_storage where shard >= ${firstShard.records}`;

export interface Charge extends StorageUsed {
  readonly tenant: string;
  /** Null for a token that no application created. */
  readonly application: string | null;
  readonly kind: keyof typeof firstShard;
}

/** The charge for tokens of the creator of `token`. */
export function chargeOf(
  { tenant_id: tenant, created_by: application }: Pick<Deleted, 'tenant_id' | 'created_by'>,
  tokens: number,
  bytes: number,
): Charge {
  return { tenant, application, kind: 'tokens', tokens, bytes };
}

/** The sum of the charges of an application and kind. */
type Sum = Record<'tenant' | 'application', string> & Record<'shard' | 'tokens' | 'bytes', number>;

const into = raw(
  'insert into application_storage as stored (tenant_id, application_id, shard, tokens, bytes)',
);
const addToStored = raw(`on conflict (tenant_id, application_id, shard)
  do update set tokens = stored.tokens + excluded.tokens, bytes = stored.bytes + excluded.bytes`);

/** Charges of deleted applications are ignored. */
const addOne = ({ tenant, application, shard, tokens, bytes }: Sum) =>
  sql`${into} select tenant_id, id, ${shard}, ${tokens}, ${bytes} from applications
    where tenant_id = ${tenant} and id = ${application} ${addToStored}`;

/**
 * Each application has up to 16 rows of each kind. A transaction locks one of them until it commits. The connection
 * determines which one, so that few transactions wait for each other. The application of such a row exists.
 */
const sharedShard = (first: number) => clause`cast(${first} as integer) + pg_backend_pid() % 16`;
const addToShared = ({ tenant, application, shard, tokens, bytes }: Sum) =>
  sql`update application_storage set tokens = tokens + ${tokens}, bytes = bytes + ${bytes}
    where tenant_id = ${tenant} and application_id = ${application} and shard = ${sharedShard(shard)}`;
/** With `insert … select`, Citus would wait while any shard moves. */
const applicationExists = ({ tenant, application }: Sum) =>
  sql`select 1 as one from applications where tenant_id = ${tenant} and id = ${application} for key share`;
const insertShared = ({ tenant, application, shard, tokens, bytes }: Sum) =>
  sql`${into} values (${tenant}, ${application}, ${sharedShard(shard)}, ${tokens}, ${bytes}) ${addToStored}`;

/** Rows are locked in the order of the applications, so that transactions cannot deadlock. */
export async function writeCharges(tx: Queries, charges: readonly Charge[]): Promise<void> {
  const sums = summed(charges);
  if (tx.isEmbedded) {
    for (const sum of sums) await tx.run(addOne(sum));
    return;
  }
  const updated = await Promise.all(sums.map((sum) => tx.run(addToShared(sum))));
  for (const sum of sums.filter((_, at) => updated[at] === 0))
    if (await tx.get(applicationExists(sum))) await tx.run(insertShared(sum));
}

/** Adds up the charges of each application and kind. Sorted by application. */
function summed(charges: readonly Charge[]): Sum[] {
  const sums = new Map<string, Sum>();
  for (const charge of charges) {
    const { tenant, application, kind, tokens, bytes } = charge;
    if (application === null) continue;
    const name = `${tenant} ${application} ${kind}`;
    const sum = sums.get(name);
    const added = sum ? { tokens: sum.tokens + tokens, bytes: sum.bytes + bytes } : { tokens, bytes };
    sums.set(name, { tenant, application, shard: firstShard[kind], ...added });
  }
  return [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum);
}

export async function storageUsedBy(
  db: Pick<Queries, 'get'>,
  tenant: string,
  application: string,
): Promise<StorageUsed> {
  const row = await db.get<{ tokens: DbTime; bytes: DbTime }>(sql`
    select coalesce(sum(tokens), 0) as tokens, coalesce(sum(bytes), 0) as bytes from application_storage
      where tenant_id = ${tenant} and application_id = ${application}`);
  return { tokens: Number(row?.tokens ?? 0), bytes: Number(row?.bytes ?? 0) };
}

interface Deleted {
  readonly tenant_id: string;
  readonly seq: string;
  readonly created_by: string | null;
  readonly bytes: number;
}

/**
 * Runs the statement `deletion`, deletes all other rows of the deleted tokens, and subtracts their size from the
 * storage of their creators. Returns the number of deleted tokens.
 */
export async function deleteTokens(tx: Queries, deletion: Clause): Promise<number> {
  const deleted = await tx.returning<Deleted>(sql`${deletion} returning tenant_id, seq, created_by, bytes`);
  await deleteTokenRows(tx, deleted);
  const credits = deleted.map((row) => chargeOf(row, -1, -row.bytes));
  if (credits.length > 0) await writeCharges(tx, credits);
  return deleted.length;
}

/** Milliseconds after which a deletion of many tokens ends, because others wait for its locks. */
const maxDeletionTime = 150;

/** See `Tokens.deleteAll`. Deletes all rows of the tokens, and subtracts their size from the storage of their creators. */
export async function deleteAllowed(
  db: Executor,
  tenant: string,
  seqs: readonly string[],
  mayDelete: (token: DecidedBy) => boolean,
): ReturnType<Tokens['deleteAll']> {
  const { deleted, next } = await db.transaction(async (tx) => {
    const end = performance.now() + maxDeletionTime;
    const pause = pauses();
    const deleted: (Deleted & DecidedBy)[] = [];
    // On SQLite, statements block the process, and rows need no locks.
    const [lockedAtOnce, atOnce] = tx.isEmbedded ? [64, 8] : [seqs.length, 64];
    let last: string | undefined;
    for (let start = 0; start < seqs.length; start += lockedAtOnce) {
      const locked = await lockAll(tx, tenant, seqs.slice(start, start + lockedAtOnce));
      for (let from = 0; from < locked.length; from += atOnce) {
        if (last !== undefined && performance.now() >= end) return { deleted, next: last };
        const some = locked.slice(from, from + atOnce);
        const allowed = some.filter(mayDelete);
        if (allowed.length > 0) await deleteLocked(tx, tenant, allowed);
        deleted.push(...allowed);
        last = some.at(-1)?.seq;
        await pause();
      }
    }
    return { deleted, next: undefined };
  });
  await Promise.all(deleted.map((row) => db.defer(writeCharges, chargeOf(row, -1, -row.bytes))));
  return { deleted, next };
}

async function deleteLocked(tx: Queries, tenant: string, tokens: readonly Deleted[]): Promise<void> {
  const seqs = list(tokens.map(({ seq }) => seq));
  await tx.run(sql`delete from tokens where tenant_id = ${tenant} and seq in ${seqs}`);
  await deleteTokenRows(tx, tokens);
}

/**
 * Newest first. Locked in the order of their ids, so that transactions cannot deadlock. SQLite has no such locks, and would
 * read all tokens to have this order.
 */
async function lockAll(
  tx: Queries,
  tenant: string,
  seqs: readonly string[],
): Promise<(Deleted & DecidedBy)[]> {
  if (seqs.length === 0) return [];
  const locked = await tx.all<Deleted & DecidedBy>(sql`
    select t.tenant_id, t.seq, t.id, t.container, t.max_uses, t.created_by, t.bytes from tokens t
      where t.tenant_id = ${tenant} and t.seq in ${list(seqs)} and ${notExpired('t')}
      ${tx.isEmbedded ? none : clause`order by t.id ${rowLock(tx, 'for update')}`}`);
  return locked.sort((a, b) => (a.seq < b.seq ? 1 : -1));
}

/** Throws `storage_full` if `growth` more bytes would take the application beyond the quota. */
export async function checkGrowth(
  tx: Queries,
  tenant: string,
  application: string | null,
  growth: number,
  quota: number | undefined,
): Promise<void> {
  if (growth <= 0 || quota === undefined || application === null) return;
  const { bytes } = await storageUsedBy(tx, tenant, application);
  if (bytes + growth > quota) throw fail('storage_full');
}
