import { Entry, type LogEntry, results, unreadable } from '../../domain/audit.ts';
import { type Awaitable, then } from '../../domain/awaitable.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { Failure, fail } from '../../domain/error.ts';
import { firstIdAt, newId } from '../../domain/key.ts';
import { inserter } from '../engine/bulk-insert.ts';
import type { Db, DbTime, Queries } from '../engine/db.ts';
import { all, Params } from '../engine/sql-params.ts';
import type { AuditChain } from '../maintenance.ts';
import type { AuditFilter, AuditLog, LogPage, NewEntry } from '../store.ts';
import { exportLines } from './export.ts';
import {
  type AuditRow,
  auditColumns,
  type ChainKeys,
  type Checkpoint,
  checkpointText,
  genesis,
  isSealedAtOnce,
  link,
  macFor,
  type SignedCheckpoint,
  signText,
} from './hash-chain.ts';

/** Entries that one page of the log examines at most, and characters of JSON that it returns at most. */
export const maxExamined = 2000;
const maxPageBytes = 4 * 1024 * 1024;

export function auditLog(db: Db, chainKeys: () => Awaitable<ChainKeys>): AuditLog & AuditChain {
  return {
    write: async (entries) => {
      const keys = await chainKeys();
      return db.transaction((tx) => insertEntries(tx, db.dialect, keys, entries));
    },

    list: (tenant, filter, { limit, before }) => {
      const select = (what: string, floor: string | undefined, suffix: string, count: number) => {
        const params = new Params();
        // SQLite starts and ends a scan at one bound each, and checks all others row by row.
        const highest = present(before, filter.to === undefined ? undefined : firstIdAt(filter.to))[0];
        const lowest = present(floor, filter.from === undefined ? undefined : firstIdAt(filter.from)).at(-1);
        const where = all(
          `tenant_id = ${params.add(tenant)}`,
          highest !== undefined && `id < ${params.add(highest)}`,
          lowest !== undefined && `id >= ${params.add(lowest)}`,
          floor !== undefined && matching(params, filter),
        );
        const sql = `select ${what} from audit where ${where} order by id desc ${suffix} ${params.add(count)}`;
        return [sql, params.values] as const;
      };
      const page = (floor: string | undefined) =>
        then(db.all<AuditRow>(...select(auditColumns, floor, 'limit', limit + 1)), (rows) =>
          pageOf(rows, limit, floor),
        );
      if (matching(new Params(), filter) === '') return page(undefined);
      const last = db.get<{ id: string }>(...select('id', undefined, 'limit 1 offset', maxExamined - 1));
      return then(last, (row) => page(row?.id ?? firstIdAt(0)));
    },

    range: (filter, { after, upTo }, from) => {
      const order = from === 'oldest' ? 'seq' : 'seq desc';
      const last = db.get<{ seq: DbTime }>(
        `select seq from audit where seq > $1 and seq <= $2 order by ${order} limit 1 offset ${maxExamined - 1}`,
        [after, upTo],
      );
      return then(last, (row) => {
        const end = row && Number(row.seq);
        const params = new Params();
        const where = all(
          `seq > ${params.add(from === 'newest' && end !== undefined ? end - 1 : after)}`,
          `seq <= ${params.add(from === 'oldest' && end !== undefined ? end : upTo)}`,
          filter.tenant !== undefined && `tenant_id = ${params.add(filter.tenant)}`,
          matching(params, filter),
          filter.from !== undefined && `at >= ${params.add(filter.from)}`,
          filter.to !== undefined && `at < ${params.add(filter.to)}`,
        );
        const sql = `select ${auditColumns} from audit where ${where} order by seq`;
        return then(db.all<AuditRow>(sql, params.values), (rows) => ({ entries: rows.map(toLogEntry), end }));
      });
    },

    append: async (limit) => {
      if (isSealedAtOnce(db)) return 0;
      if (!(await db.get('select 1 as one from audit where seq is null limit 1'))) return 0;
      const keys = await chainKeys();
      return db.exclusively((tx) => sealNext(tx, keys, limit));
    },

    head: () => headOf(db),
    export: (at) => exportLines(db, chainKeys, at),
  };
}

/** The ids that are given, in their order. */
function present(...ids: (string | undefined)[]): string[] {
  return ids.filter((id) => id !== undefined).sort();
}

/** The last checkpoint. */
export function headOf(db: Queries): Awaitable<SignedCheckpoint | undefined> {
  const sql = 'select seq, at, hash, signature from audit_checkpoints order by seq desc limit 1';
  type Row = Omit<SignedCheckpoint, 'seq' | 'at'> & { seq: DbTime; at: DbTime };
  return then(db.get<Row>(sql), (row) => row && { ...row, seq: Number(row.seq), at: Number(row.at) });
}

/** In the transaction of what they tell about, if that changed anything: what cannot be told does not happen. */
export async function insertEntries(
  tx: Queries,
  dialect: Db['dialect'],
  keys: ChainKeys,
  entries: readonly NewEntry[],
): Promise<void> {
  const rows = entries.map((entry) => rowOf(keys, entry));
  try {
    if (isSealedAtOnce({ dialect })) await insertSealed(tx, await sealed(tx, keys, rows));
    else await insertWaiting(tx, rows);
  } catch (error) {
    throw error instanceof Failure ? error : fail('unavailable', { cause: error });
  }
}

type Row = ReturnType<typeof rowOf>;

const columns = {
  id: 'uuid',
  tenant_id: 'uuid',
  at: 'bigint',
  actor_id: 'uuid',
  operation: 'text',
  entity_id: 'text',
  result: 'text',
  entry: 'text',
  mac: 'bytea',
} as const;
const insertWaiting = inserter<Row>('audit', columns).postgres;
const insertSealed = inserter<Row & Link>('audit', { ...columns, seq: 'bigint', hash: 'bytea' }).sqlite;

/** Its fields stand in the order of the columns. */
function rowOf(keys: ChainKeys, { tenantId, at, ...entry }: NewEntry) {
  const row = {
    id: newId(at),
    tenant_id: tenantId ?? null,
    at,
    actor_id: entry.actor.id ?? null,
    operation: entry.operation,
    entity_id: entry.entity?.id ?? null,
    result: entry.result,
    entry: JSON.stringify(entry),
  };
  return { ...row, mac: macFor(keys, row) };
}

/** A place in the chain. */
type Link = { readonly seq: number; readonly hash: Uint8Array };

/** The next rows of the chain, each with its place, behind which the end is signed. */
async function sealed<R extends { readonly at: DbTime; readonly mac: Uint8Array }>(
  tx: Queries,
  keys: ChainKeys,
  rows: readonly R[],
): Promise<(R & Link)[]> {
  let { seq, hash } = await endOf(tx);
  const linked = rows.map((row) => {
    seq += 1;
    hash = link(keys, hash, seq, row.mac);
    return { ...row, seq, hash };
  });
  await signEnd(tx, keys, { seq, hash, at: Number(rows.at(-1)?.at) });
  return linked;
}

/** No log has as many rows. A number beyond it was put there by somebody else, and none could follow it. */
const most = 2 ** 52;
const lastRow = `from audit where seq is not null and seq < ${most} order by seq desc limit 1`;

/** Where the chain goes on: behind its last row, or behind the last that was signed, if somebody took rows away. */
async function endOf(tx: Queries): Promise<Link> {
  const last = await tx.get<{ seq: DbTime; hash: Uint8Array | null }>(`select seq, hash ${lastRow}`);
  const signed = await tx.get<{ seq: DbTime | null }>(
    `select max(seq) as seq from audit_checkpoints where seq < ${most}`,
  );
  const seq = Math.max(Number(last?.seq ?? 0), Number(signed?.seq ?? 0));
  return { seq, hash: last?.hash ?? genesis };
}

/** That of the last row, before there is one behind it. */
const ofSameSecond = `delete from audit_checkpoints where seq = (select seq ${lastRow}) and at / 1000 = $1`;

/** The one before gives way, if it is of the same second: only the last is needed. */
async function signEnd(tx: Queries, keys: ChainKeys, end: Checkpoint): Promise<void> {
  const { seq, at, hash } = end;
  await tx.run(ofSameSecond, [Math.floor(at / 1000)]);
  await tx.run('insert into audit_checkpoints (seq, at, hash, signature) values ($1, $2, $3, $4)', [
    seq,
    at,
    hash,
    signText(keys, checkpointText(end)),
  ]);
}

/** Goes by the codes that rows were written with: who has changed one since has not changed its link. */
async function sealNext(tx: Queries, keys: ChainKeys, limit: number): Promise<number> {
  const rows = await tx.all<{ id: string; at: DbTime; mac: Uint8Array | null }>(
    'select id, at, mac from audit where seq is null order by id limit $1',
    [limit],
  );
  if (rows.length === 0) return 0;
  const coded = rows.map(({ mac, ...row }) => ({ ...row, mac: mac ?? noCode }));
  await writeLinks(tx, await sealed(tx, keys, coded));
  return rows.length;
}

/** That of a row which somebody else has put in. */
const noCode = new Uint8Array();

async function writeLinks(tx: Queries, links: readonly (Link & { readonly id: string })[]): Promise<void> {
  const list = links.map(({ id, seq, hash }) => ({ id, seq, hash: Buffer.from(hash).toString('hex') }));
  const written = await tx.run(
    `update audit as a set seq = l.seq, hash = decode(l.hash, 'hex')
     from json_to_recordset(cast(cast($1 as text) as json)) as l (id uuid, seq bigint, hash text)
     where a.id = l.id`,
    [JSON.stringify(list)],
  );
  if (written !== links.length) throw new Error('rows of the audit log were lost while they were sealed');
}

/** The conditions that no index covers; empty if there are none. */
function matching(params: Params, filter: AuditFilter): string {
  return all(
    filter.actor && `actor_id = ${params.add(filter.actor)}`,
    filter.entity && `entity_id = ${params.add(filter.entity)}`,
    filter.operation && `operation = ${params.add(filter.operation)}`,
    filter.result && `result = ${params.add(filter.result)}`,
  );
}

/** `next` is the last entry of a page that is full, or else the last entry that was examined. */
function pageOf(rows: readonly AuditRow[], limit: number, floor: string | undefined): LogPage {
  const shown = withinBytes(rows.slice(0, limit));
  const entries = shown.map(toLogEntry);
  if (shown.length < rows.length) return { entries, next: shown.at(-1)?.id };
  return { entries, next: floor === firstIdAt(0) ? undefined : floor };
}

/** At least one, and as many as fit into a reply. */
function withinBytes(rows: readonly AuditRow[]): readonly AuditRow[] {
  let bytes = 0;
  const end = rows.findIndex(({ entry }) => {
    bytes += entry.length;
    return bytes > maxPageBytes;
  });
  return end < 0 ? rows : rows.slice(0, Math.max(1, end));
}

/** The last moment with a year of four digits. */
const lastMoment = Date.UTC(10_000, 0) - 1;

/** One that somebody has changed is shown as that, and hides none of the others: `audit verify` tells more. */
function toLogEntry(row: AuditRow): LogEntry {
  const entry = Entry.safeParse(parsed(row.entry));
  return {
    id: row.id,
    ...(row.tenant_id !== null && { tenant_id: row.tenant_id }),
    at: timestamp(Math.min(Math.max(Number(row.at), 0), lastMoment)),
    ...(entry.success ? entry.data : leftOf(row)),
  };
}

function leftOf({ operation, result }: AuditRow): Entry {
  const known = results.find((one) => one === result) ?? 'failed';
  return { actor: { kind: 'unknown' }, operation, result: known, reason: unreadable, from: {} };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
