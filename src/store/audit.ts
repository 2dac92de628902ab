import { Entry, type LogEntry } from '../domain/audit.ts';
import { type Awaitable, then } from '../domain/awaitable.ts';
import { Failure, fail } from '../domain/error.ts';
import { timestamp } from '../domain/field.ts';
import { newId } from '../domain/key.ts';
import {
  type AuditRow,
  auditColumns,
  type ChainKeys,
  checkpointText,
  genesis,
  link,
  macOf,
  type SignedCheckpoint,
  signText,
} from './chain.ts';
import type { Db, Moment, Queries } from './db.ts';
import { exportLines } from './export.ts';
import { inserter } from './insert.ts';
import type { AuditFilter, AuditLog, NewEntry } from './store.ts';
import { all, Params } from './where.ts';

export function auditLog(db: Db, chainKeys: () => Awaitable<ChainKeys>): AuditLog {
  return {
    write: async (entries) => {
      const keys = await chainKeys();
      return db.transaction((tx) => insertEntries(tx, db.dialect, keys, entries));
    },

    list: (tenant, filter, { limit, before }) => {
      const params = new Params();
      const where = all(
        matching(params, { ...filter, tenant }),
        before !== undefined && `id < ${params.add(before)}`,
      );
      const sql = `select ${auditColumns} from audit where ${where} order by id desc limit ${params.add(limit)}`;
      return then(db.all<AuditRow>(sql, params.values), (rows) => rows.map(toLogEntry));
    },

    sealed: (filter, { after, upTo }) => {
      const params = new Params();
      const where = all(
        `seq > ${params.add(after)} and seq <= ${params.add(upTo)}`,
        matching(params, filter),
      );
      const sql = `select ${auditColumns} from audit where ${where} order by seq`;
      return then(db.all<AuditRow>(sql, params.values), (rows) => rows.map(toLogEntry));
    },

    seal: async (limit) => {
      if (!(await db.get('select 1 as one from audit where seq is null limit 1'))) return 0;
      const keys = await chainKeys();
      return db.exclusively((tx) => sealNext(tx, db.dialect, keys, limit));
    },

    head: () => headOf(db),
    export: (at) => exportLines(db, chainKeys, at),
  };
}

/** The last checkpoint. */
export function headOf(db: Queries): Awaitable<SignedCheckpoint | undefined> {
  const sql = 'select seq, at, hash, signature from audit_checkpoints order by seq desc limit 1';
  type Row = Omit<SignedCheckpoint, 'seq' | 'at'> & { seq: Moment; at: Moment };
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
    await insertRows[dialect](tx, rows);
  } catch (error) {
    throw error instanceof Failure ? error : fail('unavailable', { cause: error });
  }
}

const insertRows = inserter<ReturnType<typeof rowOf>>('audit', {
  id: 'uuid',
  tenant_id: 'uuid',
  at: 'bigint',
  actor_id: 'uuid',
  operation: 'text',
  entity_id: 'text',
  result: 'text',
  entry: 'text',
  mac: 'bytea',
});

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
  return { ...row, mac: macOf(keys, row) };
}

interface Link {
  readonly id: string;
  readonly seq: number;
  readonly hash: Uint8Array;
}

/** In one statement where each takes a round trip. */
async function writeLinks(tx: Queries, dialect: Db['dialect'], links: readonly Link[]): Promise<void> {
  if (dialect === 'sqlite') {
    for (const { id, seq, hash } of links)
      await tx.run('update audit set seq = $2, hash = $3 where id = $1', [id, seq, hash]);
    return;
  }
  const list = links.map(({ id, seq, hash }) => ({ id, seq, hash: Buffer.from(hash).toString('hex') }));
  await tx.run(
    `update audit as a set seq = l.seq, hash = decode(l.hash, 'hex')
     from json_to_recordset(cast(cast($1 as text) as json)) as l (id uuid, seq bigint, hash text)
     where a.id = l.id`,
    [JSON.stringify(list)],
  );
}

async function sealNext(
  tx: Queries,
  dialect: Db['dialect'],
  keys: ChainKeys,
  limit: number,
): Promise<number> {
  const last = await tx.get<{ seq: Moment; hash: Uint8Array }>(
    'select seq, hash from audit where seq is not null order by seq desc limit 1',
  );
  const rows = await tx.all<AuditRow>(
    `select ${auditColumns} from audit where seq is null order by id limit $1`,
    [limit],
  );
  let seq = Number(last?.seq ?? 0);
  let hash = last?.hash ?? genesis;
  const links = rows.map((row) => {
    seq += 1;
    hash = link(keys, hash, seq, row);
    return { id: row.id, seq, hash };
  });
  if (rows.length > 0) {
    await writeLinks(tx, dialect, links);
    const at = Number(rows.at(-1)?.at);
    const signature = signText(keys, checkpointText({ seq, at, hash }));
    await tx.run('insert into audit_checkpoints (seq, at, hash, signature) values ($1, $2, $3, $4)', [
      seq,
      at,
      hash,
      signature,
    ]);
  }
  return rows.length;
}

function matching(params: Params, filter: AuditFilter & { tenant?: string | undefined }): string {
  return all(
    filter.tenant !== undefined && `tenant_id = ${params.add(filter.tenant)}`,
    filter.actor && `actor_id = ${params.add(filter.actor)}`,
    filter.entity && `entity_id = ${params.add(filter.entity)}`,
    filter.operation && `operation = ${params.add(filter.operation)}`,
    filter.result && `result = ${params.add(filter.result)}`,
    filter.from !== undefined && `at >= ${params.add(filter.from)}`,
    filter.to !== undefined && `at < ${params.add(filter.to)}`,
  );
}

function toLogEntry(row: AuditRow): LogEntry {
  return {
    id: row.id,
    ...(row.tenant_id !== null && { tenant_id: row.tenant_id }),
    at: timestamp(Number(row.at)),
    ...Entry.parse(JSON.parse(row.entry)),
  };
}
