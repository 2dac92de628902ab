import { Entry, type LogEntry, results, unreadable } from '../../domain/audit.ts';
import { type Awaitable, then } from '../../domain/awaitable.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { Failure, fail } from '../../domain/error.ts';
import { firstIdAt, newId } from '../../domain/key.ts';
import type { Db, DbTime, Queries } from '../engine/db.ts';
import { all, inserter, Params } from '../engine/sql.ts';
import type { AuditChain } from '../maintenance.ts';
import type { AuditFilter, AuditLog, LogPage, NewEntry } from '../store.ts';
import { exportLines } from './export.ts';
import {
  type AuditRow,
  auditColumns,
  auditFormat,
  type ChainKeys,
  type Checkpoint,
  checkpointColumns,
  checkpointText,
  genesis,
  isChainedOnWrite,
  link,
  macFor,
  type SignedCheckpoint,
  signText,
} from './hash-chain.ts';

/** How many entries one page of the log examines, and how many characters of JSON it returns. */
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
      if (isChainedOnWrite(db)) return 0;
      if (!(await db.get('select 1 as one from audit where seq is null limit 1'))) return 0;
      const keys = await chainKeys();
      return db.exclusively((tx) => chainNext(tx, keys, limit));
    },

    head: () => headOf(db),
    export: (at) => exportLines(db, chainKeys, at),
  };
}

/** The ids that are given, sorted. */
function present(...ids: (string | undefined)[]): string[] {
  return ids.filter((id) => id !== undefined).sort();
}

/** The last checkpoint. */
export function headOf(db: Queries): Awaitable<SignedCheckpoint | undefined> {
  const sql = `select ${checkpointColumns} from audit_checkpoints order by seq desc limit 1`;
  type Row = Omit<SignedCheckpoint, 'seq' | 'at'> & { seq: DbTime; at: DbTime };
  return then(db.get<Row>(sql), (row) => row && { ...row, seq: Number(row.seq), at: Number(row.at) });
}

/** Call it in the transaction of the change. If the entries cannot be written, the change fails with `unavailable`. */
export async function insertEntries(
  tx: Queries,
  dialect: Db['dialect'],
  keys: ChainKeys,
  entries: readonly NewEntry[],
): Promise<void> {
  const rows = entries.map((entry) => rowOf(keys, entry));
  try {
    if (isChainedOnWrite({ dialect })) await insertChained(tx, await appendToChain(tx, keys, rows));
    else await insertUnchained(tx, rows);
  } catch (error) {
    throw error instanceof Failure ? error : fail('unavailable', { cause: error });
  }
}

type Row = ReturnType<typeof rowOf>;

const columns = {
  id: 'uuid',
  format: 'integer',
  tenant_id: 'uuid',
  at: 'bigint',
  actor_id: 'uuid',
  operation: 'text',
  entity_id: 'text',
  result: 'text',
  entry: 'text',
  mac: 'bytea',
} as const;
const insertUnchained = inserter<Row>('audit', columns).postgres;
const insertChained = inserter<Row & Link>('audit', { ...columns, seq: 'bigint', hash: 'bytea' }).sqlite;

/** The fields are in the order of `columns`. */
function rowOf(keys: ChainKeys, { tenantId, at, ...entry }: NewEntry) {
  const row = {
    id: newId(at),
    format: auditFormat,
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

/** A position in the chain. */
type Link = { readonly seq: number; readonly hash: Uint8Array };

/** Returns the rows with their positions at the end of the chain, and signs the new end. */
async function appendToChain<R extends { readonly at: DbTime; readonly mac: Uint8Array }>(
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
  await signEnd(tx, keys, { format: auditFormat, seq, hash, at: Number(rows.at(-1)?.at) });
  return linked;
}

/** No log has as many rows. A row with a higher number was inserted by another program; the chain ignores it. */
const maxSeq = 2 ** 52;
const lastRow = `from audit where seq is not null and seq < ${maxSeq} order by seq desc limit 1`;

/** The end of the chain: its last row, or the last signed number if another program has deleted rows. */
async function endOf(tx: Queries): Promise<Link> {
  const last = await tx.get<{ seq: DbTime; hash: Uint8Array | null }>(`select seq, hash ${lastRow}`);
  const signed = await tx.get<{ seq: DbTime | null }>(
    `select max(seq) as seq from audit_checkpoints where seq < ${maxSeq}`,
  );
  const seq = Math.max(Number(last?.seq ?? 0), Number(signed?.seq ?? 0));
  return { seq, hash: last?.hash ?? genesis };
}

/** Deletes the checkpoint of the last row if it is of the same second. */
const deleteSameSecond = `delete from audit_checkpoints where seq = (select seq ${lastRow}) and at / 1000 = $1`;

/** Leaves one checkpoint per second. */
async function signEnd(tx: Queries, keys: ChainKeys, end: Checkpoint): Promise<void> {
  const { format, seq, at, hash } = end;
  await tx.run(deleteSameSecond, [Math.floor(at / 1000)]);
  await tx.run(
    'insert into audit_checkpoints (format, seq, at, hash, signature) values ($1, $2, $3, $4, $5)',
    [format, seq, at, hash, signText(keys, checkpointText(end))],
  );
}

/** Links the stored MACs. If another program has changed a row, its MAC no longer matches, and verification finds it. */
async function chainNext(tx: Queries, keys: ChainKeys, limit: number): Promise<number> {
  const rows = await tx.all<{ id: string; at: DbTime; mac: Uint8Array | null }>(
    'select id, at, mac from audit where seq is null order by id limit $1',
    [limit],
  );
  if (rows.length === 0) return 0;
  const linked = await appendToChain(
    tx,
    keys,
    rows.map(({ mac, ...row }) => ({ ...row, mac: mac ?? noMac })),
  );
  await writeLinks(tx, linked);
  return rows.length;
}

/** For a row that another program has inserted without a MAC. */
const noMac = new Uint8Array();

async function writeLinks(tx: Queries, links: readonly (Link & { readonly id: string })[]): Promise<void> {
  const list = links.map(({ id, seq, hash }) => ({ id, seq, hash: Buffer.from(hash).toString('hex') }));
  const written = await tx.run(
    `update audit as a set seq = l.seq, hash = decode(l.hash, 'hex')
     from json_to_recordset(cast(cast($1 as text) as json)) as l (id uuid, seq bigint, hash text)
     where a.id = l.id`,
    [JSON.stringify(list)],
  );
  if (written !== links.length) throw new Error('rows of the audit log were deleted while they were chained');
}

/** The conditions that no index covers. May be empty. */
function matching(params: Params, filter: AuditFilter): string {
  return all(
    filter.actor && `actor_id = ${params.add(filter.actor)}`,
    filter.entity && `entity_id = ${params.add(filter.entity)}`,
    filter.operation && `operation = ${params.add(filter.operation)}`,
    filter.result && `result = ${params.add(filter.result)}`,
  );
}

/** `next` is the last entry of a full page, or the last entry that was examined. */
function pageOf(rows: readonly AuditRow[], limit: number, floor: string | undefined): LogPage {
  const page = withinBytes(rows.slice(0, limit));
  const entries = page.map(toLogEntry);
  if (page.length < rows.length) return { entries, next: page.at(-1)?.id };
  return { entries, next: floor === firstIdAt(0) ? undefined : floor };
}

/** As many rows as fit into a response, and at least one. */
function withinBytes(rows: readonly AuditRow[]): readonly AuditRow[] {
  let bytes = 0;
  const end = rows.findIndex(({ entry }) => {
    bytes += entry.length;
    return bytes > maxPageBytes;
  });
  return end < 0 ? rows : rows.slice(0, Math.max(1, end));
}

/** The end of the year 9999. */
const maxTime = Date.UTC(10_000, 0) - 1;

/** A row that another program has made unreadable is listed as such, so that it does not hide the others. */
function toLogEntry(row: AuditRow): LogEntry {
  const entry = Entry.safeParse(parsed(row.entry));
  return {
    id: row.id,
    ...(row.tenant_id !== null && { tenant_id: row.tenant_id }),
    at: timestamp(Math.min(Math.max(Number(row.at), 0), maxTime)),
    ...(entry.success ? entry.data : unreadableEntry(row)),
  };
}

function unreadableEntry({ operation, result }: AuditRow): Entry {
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
