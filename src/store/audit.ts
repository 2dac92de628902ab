import { Entry, type LogEntry } from '../domain/audit.ts';
import { timestamp } from '../domain/field.ts';
import { newId } from '../domain/key.ts';
import { type AuditRow, type ChainKeys, genesis, link, signCheckpoint } from './chain.ts';
import { type Db, type Moment, type Queries, then } from './db.ts';
import type { AuditExport, AuditFilter, AuditLog, NewEntry } from './store.ts';
import { all, Params } from './where.ts';

const columns = 'id, tenant_id, at, actor_id, operation, entity_id, result, entry';

interface SealedRow extends AuditRow {
  readonly seq: Moment;
  readonly hash: Uint8Array;
}

export function auditLog(db: Db, chainKeys: () => Promise<ChainKeys>): AuditLog {
  return {
    write: (entries) => db.transaction((tx) => insertEntries(tx, entries)),

    list: (tenant, filter, { limit, before }) => {
      const params = new Params();
      const where = all(
        matching(params, tenant, filter),
        before !== undefined && `id < ${params.add(before)}`,
      );
      const sql = `select ${columns} from audit where ${where} order by id desc limit ${params.add(limit)}`;
      return then(db.all<AuditRow>(sql, params.values), (rows) => rows.map(toLogEntry));
    },

    seal: async (limit) => {
      if (!(await db.get('select 1 as one from audit where seq is null limit 1'))) return 0;
      const keys = await chainKeys();
      return db.exclusively((tx) => sealNext(tx, keys, limit));
    },

    export: (after, limit) => exported(db, after, limit),
  };
}

/** In the transaction of what they tell about, if that changed anything. */
export async function insertEntries(tx: Queries, entries: readonly NewEntry[]): Promise<void> {
  for (const { tenantId, at, ...entry } of entries) {
    const row = [
      newId(at),
      tenantId ?? null,
      at,
      entry.actor.id ?? null,
      entry.operation,
      entry.entity?.id ?? null,
      entry.result,
    ];
    await tx.run(`insert into audit (${columns}) values ($1, $2, $3, $4, $5, $6, $7, $8)`, [
      ...row,
      JSON.stringify(entry),
    ]);
  }
}

async function sealNext(tx: Queries, keys: ChainKeys, limit: number): Promise<number> {
  const last = await tx.get<{ seq: Moment; hash: Uint8Array }>(
    'select seq, hash from audit where seq is not null order by seq desc limit 1',
  );
  const rows = await tx.all<AuditRow>(`select ${columns} from audit where seq is null order by id limit $1`, [
    limit,
  ]);
  let seq = Number(last?.seq ?? 0);
  let hash = last?.hash ?? genesis;
  for (const row of rows) {
    seq += 1;
    hash = link(keys, hash, seq, row);
    await tx.run('update audit set seq = $2, hash = $3 where id = $1', [row.id, seq, hash]);
  }
  if (rows.length > 0) {
    const at = Number(rows.at(-1)?.at);
    const signature = signCheckpoint(keys, { seq, at, hash });
    await tx.run('insert into audit_checkpoints (seq, at, hash, signature) values ($1, $2, $3, $4)', [
      seq,
      at,
      hash,
      signature,
    ]);
  }
  return rows.length;
}

function matching(params: Params, tenant: string, filter: AuditFilter): string {
  return all(
    `tenant_id = ${params.add(tenant)}`,
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

/** Sealed rows behind `after` in their order, and the checkpoints among them. */
async function exported(db: Db, after: number, limit: number): Promise<AuditExport> {
  const rows = await db.all<SealedRow>(
    `select seq, hash, ${columns} from audit where seq > $1 order by seq limit $2`,
    [after, limit],
  );
  const last = Number(rows.at(-1)?.seq ?? after);
  const checkpoints = await db.all<{ seq: Moment; at: Moment; hash: Uint8Array; signature: Uint8Array }>(
    'select seq, at, hash, signature from audit_checkpoints where seq > $1 and seq <= $2 order by seq',
    [after, last],
  );
  return {
    rows: rows.map((row) => ({ ...row, seq: Number(row.seq), at: Number(row.at) })),
    checkpoints: checkpoints.map((one) => ({ ...one, seq: Number(one.seq), at: Number(one.at) })),
  };
}
