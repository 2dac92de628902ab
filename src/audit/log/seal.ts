/**
 * Seals pending entries: moves the oldest ones of a tenant into a new segment of its chain, signs it and adds it to the
 * index.
 */

import { type Queries, rowLock } from '../../db/db.ts';
import type { ChainKeys } from '../../db/keys/keyring.ts';
import { list, sql } from '../../db/statement.ts';
import type { Entry } from '../../domain/audit.ts';
import { nextTurn } from '../../domain/steps.ts';
import { DamagedChain } from '../errors.ts';
import { formatPosition, genesis, type Position, systemTenant } from '../records.ts';
import { type AuditDb, type Chain, chainOf, emptyChain } from './chain.ts';
import { nextPending, type PendingEntry, tenantsIn } from './pending.ts';
import {
  bytesOf,
  contentHashOf,
  hashOf,
  headerText,
  insertSegment,
  maxEntries,
  packEntries,
  type SegmentHeader,
  type SignedHeader,
  segmentValues,
  sha256,
  signingKeyId,
  signText,
  timesOf,
} from './segment.ts';
import { insertIndex, packIndex, termsOf } from './terms.ts';

/** Milliseconds that an entry of a tenant with few entries waits. */
const maxWait = 5000;
/** Minimum milliseconds between two times that readers cause entries of a tenant to be sealed. */
const readerInterval = 1000;
/** Milliseconds for which the end of the system chain, which the segments of tenants name, is not read again. */
const systemAge = 1000;
/** Maximum number of tenants whose times are remembered. */
const maxTenants = 10_000;
/** Attempts to seal a segment while other nodes seal entries of the same tenant. */
const maxAttempts = 5;
/** Milliseconds after which a failure ends a round. Until then, tenants on other servers of a cluster are sealed. */
const maxFailing = 5000;
/** Entries that are prepared before other requests can be handled. */
const entriesPerTurn = 64;

/** Called before each segment. Returns false, or throws, to stop. */
type GoOn = () => boolean | Promise<boolean>;

type Tenants = Iterable<string> | AsyncIterable<string>;

interface Waiting {
  readonly since: number;
  entries: number;
}

export interface Sealer {
  /** Says that this process has written an entry. It is not necessarily committed. */
  written(tenantId: string): void;
  /** Seals entries of this process: of tenants with 1024 of them, and those that have waited for five seconds. */
  sealDue(): Promise<number>;
  /** Seals all pending entries of all tenants. Skips chains that other nodes have locked. */
  sealAll(goOn?: GoOn): Promise<number>;
  /** Like `sealAll`, without the tenants whose entries `sealDue` will seal. */
  sealRest(goOn: GoOn): Promise<number>;
  /** Seals all pending entries of a tenant. */
  sealTenant(tenantId: string): Promise<number>;
  /** Seals at most one segment, and at most once per second and tenant. */
  sealForReader(tenantId: string): Promise<void>;
}

/** `clock` is a monotonic clock in milliseconds. */
export function sealer(audit: AuditDb, clock: () => number = () => performance.now()): Sealer {
  const waiting = new Map<string, Waiting>();
  const read = new Map<string, number>();
  let system: { readonly end: Position; readonly readAt: number } | undefined;

  async function endOfSystem(): Promise<Position> {
    const readAt = clock();
    if (system && readAt - system.readAt < systemAge) return system.end;
    const { number, hash } = (await chainOf(audit.db, systemTenant)) ?? genesis;
    system = { end: { number, hash }, readAt };
    return system.end;
  }

  /** Forgets the end of the system chain after a failure, which may have led to another server. */
  async function sealNext(tenantId: string, lock: Lock): Promise<Sealed> {
    const next = await sealSegment(audit, tenantId, lock, endOfSystem).catch((error) => {
      system = undefined;
      throw error;
    });
    if (tenantId === systemTenant) system = undefined;
    return next;
  }

  async function sealWhole(tenantId: string, lock: Lock, goOn: GoOn = () => true): Promise<number> {
    let total = 0;
    for (let isFull = true; isFull && (await goOn()); ) {
      const next = await sealNext(tenantId, lock);
      total += next.sealed;
      isFull = next.isFull;
    }
    return total;
  }

  /** The tenants with pending entries. */
  async function* pendingTenants(goOn: GoOn) {
    for await (const tenant of tenantsIn(audit.db)) {
      if (!(await goOn())) return;
      yield tenant;
    }
  }

  const sealRest = (goOn: GoOn, isIncluded: (tenantId: string) => boolean) =>
    sealEach(clock, pendingTenants(goOn), async (tenant) =>
      isIncluded(tenant) ? sealWhole(tenant, 'for update skip locked', goOn) : 0,
    );

  return {
    written: (tenantId) => {
      const known = waiting.get(tenantId);
      if (known) known.entries += 1;
      else waiting.set(tenantId, { since: clock(), entries: 1 });
    },
    sealDue: () =>
      sealEach(clock, waiting.keys(), async (tenantId) => {
        const { since, entries } = waiting.get(tenantId) as Waiting;
        const isOld = clock() - since >= maxWait;
        if (!isOld && entries < maxEntries) return 0;
        waiting.delete(tenantId);
        // Entries that are not committed yet are sealed with later ones, or by `sealRest`.
        return isOld
          ? sealWhole(tenantId, 'for update')
          : sealNext(tenantId, 'for update').then(({ sealed }) => sealed);
      }),
    sealAll: (goOn = () => true) => sealRest(goOn, () => true),
    sealRest: (goOn) => sealRest(goOn, (tenant) => !waiting.has(tenant)),
    sealTenant: (tenantId) => sealWhole(tenantId, 'for update'),
    sealForReader: async (tenantId) => {
      const last = read.get(tenantId);
      if (last !== undefined && clock() - last < readerInterval) return;
      if (read.size >= maxTenants) read.clear();
      read.set(tenantId, clock());
      await sealNext(tenantId, 'for update');
    },
  };
}

/**
 * Seals entries of several tenants. The failure of one tenant does not stop the others, for a few seconds; the first one
 * is thrown at the end.
 */
async function sealEach(
  clock: () => number,
  tenants: Tenants,
  seal: (tenantId: string) => Promise<number>,
): Promise<number> {
  let total = 0;
  let failed: { error: unknown; at: number } | undefined;
  for await (const tenant of tenants) {
    if (failed && clock() - failed.at > maxFailing) break;
    total += await seal(tenant).catch((error) => {
      failed ??= { error, at: clock() };
      return 0;
    });
  }
  if (failed) throw failed.error;
  return total;
}

type Lock = 'for update' | 'for update skip locked';

interface Sealed {
  /** The number of entries: 0 if none are pending, or if `lock` skips a chain that another node has locked. */
  readonly sealed: number;
  /** Whether more entries may be pending. */
  readonly isFull: boolean;
}

/**
 * Seals one segment. It is prepared before the transaction, so that other changes do not wait for it. If other nodes have
 * sealed entries in the meantime, it is prepared again. Throws `DamagedChain` if no other node did: then a segment is
 * stored where the next one belongs.
 */
async function sealSegment(
  audit: AuditDb,
  tenantId: string,
  lock: Lock,
  endOfSystem: () => Promise<Position>,
): Promise<Sealed> {
  const { db } = audit;
  const none = { sealed: 0, isFull: false };
  const ends = new Set<number>();
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const { entries, isFull } = await nextPending(db, tenantId);
    if (entries.length === 0) return none;
    const prepared = await prepare(audit, tenantId, entries, endOfSystem);
    const outcome = await db
      .transaction((tx) => commit(tx, audit, prepared, lock), tenantId)
      .catch((error) => {
        if (error instanceof StaleSegment) return 'changed' as const;
        throw error;
      });
    if (outcome === 'sealed') return { sealed: entries.length, isFull };
    if (outcome === 'locked') return none;
    ends.add(prepared.before.number);
  }
  if (ends.size === 1) throw new DamagedChain(tenantId, 'sealed');
  return none;
}

interface Prepared {
  /** The end of the chain that the segment continues. */
  readonly before: Chain;
  readonly segment: SignedHeader;
  readonly packed: Uint8Array;
  readonly index: Uint8Array;
  readonly ids: readonly string[];
}

async function prepare(
  { db, keys }: AuditDb,
  tenantId: string,
  entries: readonly PendingEntry[],
  endOfSystem: () => Promise<Position>,
): Promise<Prepared> {
  const before = (await chainOf(db, tenantId)) ?? emptyChain(tenantId);
  const { index, counts } = await indexOf(entries);
  const header = {
    format: entries[0]?.format as number,
    tenantId,
    number: before.number + 1,
    first: before.seq + 1,
    last: before.seq + entries.length,
    ...timesOf(entries, before),
    ...counts,
    previous: before.hash,
    ...(tenantId !== systemTenant && { system: formatPosition(await endOfSystem()) }),
    content: contentHashOf(entries),
    index: sha256(index),
  };
  const segment = signed(await keys(), header);
  return { before, segment, packed: await packEntries(entries), index, ids: entries.map(({ id }) => id) };
}

/** Adds the signature, and the id of its key. */
export function signed(keys: ChainKeys, unsigned: Omit<SegmentHeader, 'key'>): SignedHeader {
  const header = { ...unsigned, key: signingKeyId(keys) };
  return { ...header, signature: signText(keys, headerText(header)) };
}

/** The packed index, and the results. An entry that was altered and is not JSON has no terms. */
export async function indexOf(entries: readonly { readonly text: string }[]) {
  const counts = { success: 0, denied: 0, failed: 0 };
  const terms: number[][] = [];
  for (const { text } of entries) {
    const entry = parse(text);
    terms.push(entry ? termsOf(entry) : []);
    counts[entry && entry.result in counts ? entry.result : 'failed'] += 1;
    if (terms.length % entriesPerTurn === 0) await nextTurn();
  }
  return { index: packIndex(terms), counts };
}

function parse(text: string): Entry | undefined {
  try {
    const entry = JSON.parse(text) as Entry;
    return entry.actor && typeof entry.operation === 'string' ? entry : undefined;
  } catch {
    return undefined;
  }
}

/** Throws `StaleSegment` if the segment must be prepared again. */
async function commit(
  tx: Queries,
  { db }: AuditDb,
  { before, segment, packed, index, ids }: Prepared,
  lock: Lock,
): Promise<'sealed' | 'locked'> {
  const { tenantId, number, last, sealed_at, max_delay } = segment;
  if (before.number === 0) await insertChain(tx, tenantId);
  if (lock === 'for update skip locked' && !(await chainOf(tx, tenantId, rowLock(db, lock)))) return 'locked';
  // Sent together, to save round trips.
  const [extended, deleted, inserted] = await Promise.all([
    // Changes nothing if another node has extended the chain.
    tx.run(sql`update audit_chains set number = ${number}, seq = ${last}, hash = ${bytesOf(hashOf(segment))},
      sealed_at = ${sealed_at}, max_delay = ${max_delay}
      where tenant_id = ${tenantId} and number = ${before.number} and hash = ${bytesOf(before.hash)}`),
    tx.run(sql`delete from audit_pending where tenant_id = ${tenantId} and id in ${list(ids)}`),
    tx.run([`${insertSegment} on conflict do nothing`, segmentValues(segment, packed)]),
    insertIndex(tx, segment, index),
  ]);
  if (extended !== 1 || deleted !== ids.length || inserted !== 1) throw new StaleSegment();
  return 'sealed';
}

async function insertChain(tx: Queries, tenantId: string): Promise<void> {
  const hash = bytesOf(genesis.hash);
  await tx.run(sql`
    insert into audit_chains (tenant_id, number, seq, hash, sealed_at, max_delay, base_number, base_seq, base_hash,
       recorded_number, recorded_at)
     values (${tenantId}, 0, 0, ${hash}, 0, 0, 0, 0, ${hash}, 0, 0) on conflict (tenant_id) do nothing`);
}

/** Rolls the transaction back. */
class StaleSegment extends Error {}
