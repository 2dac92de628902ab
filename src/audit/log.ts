/** Writes, seals and reads the audit log. */

import type { Database } from 'bun:sqlite';
import type { Db, DbTime, Queries } from '../db/db.ts';
import type { ChainKeys } from '../db/keys/keyring.ts';
import { databaseTime, numberIn } from '../db/sql.ts';
import { sql } from '../db/statement.ts';
import {
  type AuditedReads,
  type LogEntry,
  type LogGap,
  readsSetting,
  unrecordedTransforms,
} from '../domain/audit.ts';
import { timestamp } from '../domain/common-fields.ts';
import {
  type AuditDb,
  allChains,
  type Chain,
  chainOf,
  eachSegment,
  firstHeader,
  firstSealedAt,
  headerAt,
} from './log/chain.ts';
import { countDenials, countEntries } from './log/count.ts';
import { cursorOf, timeOfId, toLogEntry } from './log/entry.ts';
import { countPending, type EntryWriter, entryWriter } from './log/pending.ts';
import { pacedReader } from './log/reader.ts';
import { type Sealer, sealer } from './log/seal.ts';
import { entryWithId, searchBackwards, searchForwards } from './log/search.ts';
import { hexOf } from './log/segment.ts';
import { isBetween, matches } from './log/terms.ts';
import type { AuditFilter, AuditLog, Head, LogPage, LogWindow } from './records.ts';

export type { EntryWriter } from './log/pending.ts';

/** The audit log, bound to a database and its keys. */
export interface OpenLog extends AuditDb {
  readonly writeEntries: EntryWriter;
  /** For changes by requests. Throws `unavailable` if the tenant moves to another installation. */
  readonly writeChanges: EntryWriter;
  readonly sealer: Sealer;
}

export function openAuditLog(db: Db, keys: () => Promise<ChainKeys>): OpenLog {
  const seals = sealer({ db, keys });
  const writer = (ofRequests: boolean) => entryWriter({ db, keys }, seals.written, ofRequests);
  return { db, keys, sealer: seals, writeEntries: writer(false), writeChanges: writer(true) };
}

/** A writer for a tool that seals the entries later, or leaves that to the service. */
export function toolWriter(db: Db, keys: ChainKeys): EntryWriter {
  return entryWriter({ db, keys: async () => keys }, () => {});
}

/** For request handlers. */
export function auditLog(log: OpenLog): AuditLog {
  const { db, writeEntries } = log;
  return {
    // A unique symbol as the entity, so that these writes do not wait for other changes.
    write: (entries) =>
      db.change(
        async (tx) => {
          for (const entry of entries) await tx.defer(writeEntries, entry);
        },
        Symbol('audit entries'),
        entries[0]?.tenantId,
      ),
    list: (...args) => list(log, ...args),
    count: async (tenantId, filter, now, isWithDenials = false, pace = {}) => {
      const reader = pacedReader(db, pace);
      const counts = await countEntries(reader, tenantId, filter, now);
      const denials = isWithDenials ? await countDenials(reader, tenantId, filter, counts) : undefined;
      return { ...counts, denials, gaps: await gapsOf(db, tenantId, filter) };
    },
  };
}

async function list(
  { db, sealer: seals }: OpenLog,
  tenantId: string,
  filter: AuditFilter,
  window: LogWindow,
): Promise<LogPage> {
  const reader = pacedReader(db, window);
  if (window.after !== undefined) {
    await seals.sealForReader(tenantId);
    return searchForwards(reader, tenantId, filter, window.after, window.limit);
  }
  const page =
    filter.id === undefined
      ? await searchBackwards(reader, tenantId, filter, window)
      : { entries: await entryWithId(reader, tenantId, filter, filter.id) };
  return window.before === undefined ? { ...page, gaps: await gapsOf(reader, tenantId, filter) } : page;
}

/** The end of a chain, as operators see it. */
export interface ChainHead extends Head {
  /** The number of entries since the first one, including deleted ones. */
  readonly seq: number;
  /** The latest time of its entries. */
  readonly at: number;
}

export interface LogTail {
  /** The newest `count` matching entries of all chains, oldest first. Call it once, before `more`. */
  last(count: number): Promise<LogEntry[]>;
  /** Matching entries since the previous call, by chain. If a call fails, the next one continues where it stopped. */
  more(): AsyncGenerator<LogEntry[]>;
}

/** For background jobs and operator tools. */
export interface LogMaintenance {
  /** See `Sealer`. Each returns the number of sealed entries. */
  sealDue(): Promise<number>;
  sealRest(goOn: () => boolean): Promise<number>;
  seal(): Promise<number>;
  /** All chains, the system chain first. */
  heads(): Promise<ChainHead[]>;
  /** Like `AuditLog.list`, for any chain. */
  list(tenantId: string, filter: AuditFilter, window: LogWindow): Promise<LogPage>;
  /** Reads the newest entries of one chain or all, and then those that follow. */
  tail(filter: AuditFilter, tenantId?: string): LogTail;
  /** The number of pending entries, counted up to `max`, and the age in milliseconds of the oldest one. */
  pending(max: number): Promise<PendingEntries>;
}

export function logMaintenance(log: OpenLog): LogMaintenance {
  const { db, sealer: seals } = log;
  return {
    sealDue: seals.sealDue,
    sealRest: seals.sealRest,
    seal: seals.sealAll,
    heads: async () =>
      (await allChains(db)).map(({ tenantId, number, hash, seq, sealed_at }) => {
        return { tenantId, number, hash, seq, at: sealed_at };
      }),
    list: (...args) => list(log, ...args),
    tail: (filter, tenantId) => auditTail(log, filter, tenantId),
    pending: (max) => pendingEntries(db, max),
  };
}

export interface PendingEntries {
  readonly entries: number;
  readonly age: number;
}

/** See `LogMaintenance.pending`. */
export async function pendingEntries(db: Db, max: number): Promise<PendingEntries> {
  return { entries: await countPending(db, max), age: await oldestPending(db) };
}

async function oldestPending(db: Db): Promise<number> {
  const now = await databaseTime(db);
  const first = await db.get<{ id: string }>('select id from audit_pending order by id limit 1');
  return first ? Math.max(0, now - timeOfId(first.id)) : 0;
}

export interface LogGauges {
  /** Sealed entries of at most 10,000 chains. */
  readonly sealed: number;
  /** Entries that are not sealed yet, counted up to 10,000. */
  readonly unsealed: number;
}

/** Reads a bounded number of rows. */
export async function logGauges(db: Db): Promise<LogGauges> {
  const sql = `select sum(length) as value from
    (select seq - base_seq as length from audit_chains order by tenant_id limit ${maxCounted}) as chains`;
  const sealed = await numberIn(db, sql);
  const counted = await countPending(db, maxCounted);
  if (counted < maxCounted || db.isEmbedded) return { sealed, unsealed: counted };
  const estimate = `select pg_stat_get_live_tuples('audit_pending'::regclass) as value`;
  const estimated = await numberIn(db, estimate);
  return { sealed, unsealed: Math.max(counted, estimated) };
}

/** Chains and entries that wait are counted up to this number. PostgreSQL estimates the number of more entries. */
const maxCounted = 10_000;

/**
 * The latest time of an entry, and for a log with entries after `now`, whether the clock was fast for a while and is
 * correct again. If so, the first segment after `now` is later than the one before it by at least `newest - now`, and
 * the last segment is not after `now`.
 */
export async function newestTimes(db: Db, now: number): Promise<{ newest: number; wasFast: boolean }> {
  const pending = await db.get<{ at: DbTime | null }>('select max(at) as at from audit_pending');
  const chains = await allChains(db);
  const newest = Math.max(Number(pending?.at ?? 0), ...chains.map(({ sealed_at }) => sealed_at));
  const ahead = chains.filter(({ sealed_at }) => sealed_at > now);
  let wasFast = ahead.length > 0 && Number(pending?.at ?? 0) <= now;
  for (const { tenantId, number } of ahead) {
    const first = (await firstSealedAt(db, tenantId, now + 1)) ?? number;
    const timeAt = async (at: number) => Number((await headerAt(db, tenantId, at))?.sealed_at);
    const leap = (await timeAt(first)) - (await timeAt(first - 1));
    const last = await headerAt(db, tenantId, number);
    wasFast &&= last !== undefined && last.latest_at <= now && leap >= newest - now;
  }
  return { newest, wasFast };
}

/** The ends of the chains in a SQLite database that is not opened as a store. */
export function headsIn(database: Database): Head[] {
  const sql = 'select tenant_id as tenantId, number, hash from audit_chains';
  const rows = database.query<{ tenantId: string; number: number; hash: Uint8Array }, []>(sql).all();
  return rows.map(({ hash, ...head }) => ({ ...head, hash: hexOf(hash) }));
}

/** The tables with rows of tenants. */
export const tenantTables = [
  'audit_pending',
  'audit_chains',
  'audit_segments',
  'audit_index',
  'audit_deliveries',
] as const;

/** Whether the tenant has or had sealed entries. */
export async function hasChain(db: Pick<Queries, 'get'>, tenantId: string): Promise<boolean> {
  return (await chainOf(db, tenantId)) !== undefined;
}

/** The tables that grow with the log. */
export const growingTables = ['audit_segments', 'audit_index'] as const;

type Reader = Pick<Db, 'get' | 'all'>;

/** The latest time that a `Date` can have. */
const maxDate = 8.64e15;
const readOperations = ['token.read', 'token.replay'];

/** Maximum number of changes of the setting that are read. Earlier changes are ignored. */
const maxChanges = 100;

/** Periods for which a search may miss matching entries: the entries were archived, or reads were not recorded. */
async function gapsOf(db: Reader, tenantId: string, filter: AuditFilter): Promise<LogGap[]> {
  const gaps = [...(await archived(db, tenantId)), ...(await unrecordedReads(db, filter))];
  return gaps.filter(({ from, to }) => overlaps(filter, from, to)).map(toLogGap);
}

interface Gap extends Pick<LogGap, 'reason' | 'transforms'> {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

function overlaps(filter: AuditFilter, from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY) {
  return (filter.from === undefined || filter.from < to) && (filter.to === undefined || filter.to > from);
}

function toLogGap({ from, to, ...gap }: Gap): LogGap {
  return {
    ...gap,
    ...(from !== undefined && { from: timestamp(from) }),
    ...(to !== undefined && { to: timestamp(to) }),
  };
}

/** The period of the archived entries. No archived entry is later than `max_delay` after the first remaining entry. */
async function archived(db: Reader, tenantId: string): Promise<Gap[]> {
  const chain = await chainOf(db, tenantId);
  if (!chain || chain.base.number === 0) return [];
  const first = await firstHeader(db, chain);
  return [{ reason: 'archived', to: first && Math.min(first.earliest_at + first.max_delay, maxDate) }];
}

/** Periods in which reads that match the filter were not recorded. */
async function unrecordedReads(db: Reader, filter: AuditFilter): Promise<Gap[]> {
  const { operation = 'token.read', result = 'success', entity, transform } = filter;
  if (!readOperations.includes(operation) || result !== 'success') return [];
  if (entity !== undefined || filter.changes === 'true') return [];
  const newestFirst = await db.all<{ at: DbTime; value: AuditedReads }>(sql`
    select at, value from setting_changes where name = ${readsSetting} order by at desc limit ${maxChanges}`);
  const changes = newestFirst.toReversed();
  return changes.flatMap(({ at, value }, index): Gap[] => {
    const transforms = unrecordedTransforms[value].filter((one) => (transform ?? one) === one);
    const next = changes[index + 1];
    const to = next && Number(next.at);
    return transforms.length === 0
      ? []
      : [{ reason: 'reads_not_recorded', transforms, from: Number(at), to }];
  });
}

/** Maximum number of entries per page. */
const maxPage = 500;

/** Reads the newest entries of all chains, or of one, and then those that follow. */
function auditTail({ db, sealer: seals }: OpenLog, filter: AuditFilter, tenant: string | undefined): LogTail {
  /** The tenant of each chain → the segment up to which it was read. */
  const read = new Map<string, number>();

  /** The chains, after all entries that were written are sealed. */
  async function sealedChains(): Promise<Chain[]> {
    await seals.sealAll();
    const chains = await allChains(db);
    return tenant === undefined ? chains : chains.filter(({ tenantId }) => tenantId === tenant);
  }

  /** Reads backwards from the end until `count` entries match. */
  async function newest({ tenantId, number }: Chain, count: number): Promise<LogEntry[]> {
    const found: LogEntry[] = [];
    let before: string | undefined = cursorOf({ number: number + 1, offset: 0 });
    while (before !== undefined && found.length < count) {
      const window = { limit: Math.min(count - found.length, maxPage), before };
      const page: LogPage = await searchBackwards(db, tenantId, filter, window);
      found.push(...page.entries);
      before = page.next;
    }
    return found.reverse();
  }

  return {
    last: async (count) => {
      let found: LogEntry[] = [];
      for (const chain of (await sealedChains()).toSorted((a, b) => b.sealed_at - a.sealed_at)) {
        // No entry of a chain is newer than its end.
        const isOlder = found.length === count && chain.sealed_at < timeOf(found[0] as LogEntry);
        if (!isOlder) found = sorted([...(await newest(chain, count)), ...found]).slice(-count);
        read.set(chain.tenantId, chain.number);
      }
      return found;
    },
    async *more() {
      for (const { tenantId, number, base } of await sealedChains()) {
        const first = Math.max(read.get(tenantId) ?? 0, base.number) + 1;
        for await (const segment of eachSegment(db, tenantId, { first, last: number })) {
          const entries = (segment.packed.all() ?? []).filter(({ at }) => isBetween(at, filter));
          yield entries.map((entry) => toLogEntry(tenantId, entry)).filter((one) => matches(one, filter));
          read.set(tenantId, segment.number);
        }
      }
    },
  };
}

function timeOf({ at }: LogEntry): number {
  return Date.parse(at);
}

/** By time, and entries of the same time by id: in the order in which a process wrote them. */
function sorted(entries: LogEntry[]): LogEntry[] {
  return entries.sort((a, b) => timeOf(a) - timeOf(b) || (a.id < b.id ? -1 : 1));
}
