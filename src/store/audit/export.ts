/**
 * An export of the audit log: JSON, one object a line. A header with the sealed keys of the chain, every row in
 * its order, every checkpoint behind the row that it signs, and a signed footer, without which an export that
 * was cut off would look like a shorter one.
 */
import { z } from 'zod';
import type { Awaitable } from '../../domain/awaitable.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { sealedChainKeys } from '../crypto/keyring.ts';
import type { Db, DbTime } from '../engine/db.ts';
import {
  type AuditRow,
  anchorOf,
  auditColumns,
  type ChainKeys,
  genesis,
  isSealedAtOnce,
  type SignedCheckpoint,
  signText,
} from './hash-chain.ts';

export const format = 'sallyport audit export 1';

const number = z.number();
const text = z.string();
/** Absent only where somebody has taken it out of the database. */
const hex = z
  .string()
  .regex(/^([0-9a-f]{2})*$/)
  .nullable();

const Header = z.strictObject({
  kind: z.literal('header'),
  format: text,
  exported_at: text,
  master_key: text,
  chain_key: text.refine((value) => Buffer.from(value, 'base64').toString('base64') === value),
});
const Row = z.strictObject({
  kind: z.literal('row'),
  seq: number,
  id: text,
  tenant_id: text.nullable(),
  at: number,
  actor_id: text.nullable(),
  operation: text,
  entity_id: text.nullable(),
  result: text,
  entry: text,
  mac: hex,
  hash: hex,
});
const Mark = z.strictObject({
  kind: z.literal('checkpoint'),
  seq: number,
  at: number,
  hash: hex,
  signature: hex,
});
const Footer = z.strictObject({
  kind: z.literal('footer'),
  rows: number,
  checkpoints: number,
  head: text,
  signature: hex,
});
export const Line = z.discriminatedUnion('kind', [Header, Row, Mark, Footer]);

export type Line = z.infer<typeof Line>;
export type Header = z.infer<typeof Header>;
export type ExportedRow = z.infer<typeof Row>;
export type ExportedCheckpoint = z.infer<typeof Mark>;
export type Footer = z.infer<typeof Footer>;

/** What the footer signs. */
export function footerText(
  exportedAt: string,
  { rows, checkpoints, head }: Omit<Footer, 'kind' | 'signature'>,
) {
  return `${format} ${exportedAt} ${rows} ${checkpoints} ${head}`;
}

const page = 1000;

export async function* exportLines(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  at: number,
): AsyncGenerator<string> {
  const keys = await chainKeys();
  const exportedAt = timestamp(at);
  const kept = await sealedChainKeys(db);
  if (!kept) throw fail('unavailable', { cause: new Error('the keys of the audit chain are gone') });
  yield line(Header, {
    kind: 'header',
    format,
    exported_at: exportedAt,
    master_key: kept.master_id,
    chain_key: Buffer.from(kept.sealed).toString('base64'),
  });
  const counted = { rows: 0, checkpoints: 0, head: anchorOf({ seq: 0, hash: genesis }) };
  for await (const each of everything(db)) {
    if (each.kind === 'row' && each.seq > 0) counted.head = `${each.seq}:${each.hash}`;
    counted[each.kind === 'row' ? 'rows' : 'checkpoints'] += 1;
    yield JSON.stringify(each);
  }
  const signature = toHex(signText(keys, footerText(exportedAt, counted)));
  yield line(Footer, { kind: 'footer', ...counted, signature });
}

function line<S extends z.ZodType>(schema: S, value: z.input<S>): string {
  return JSON.stringify(schema.parse(value));
}

interface End {
  /** The last number, of rows and checkpoints alike: somebody may have taken away the one and not the other. */
  readonly last: number;
  readonly checkpoint: ExportedCheckpoint | undefined;
}

/** As it is at one moment: the next commit may replace the checkpoint. */
async function endNow(db: Db): Promise<End> {
  type Row = { last: DbTime | null } & (SignedCheckpoint | { seq: null });
  const row = await db.get<Row>(
    `select (select max(seq) from audit where seq is not null) as last, c.seq, c.at, c.hash, c.signature from (select 1 as one) as one
     left join (select seq, at, hash, signature from audit_checkpoints order by seq desc limit 1) as c on 1 = 1`,
  );
  const checkpoint = row && row.seq !== null ? toMark(row) : undefined;
  return { last: Math.max(0, Number(row?.last ?? 0), checkpoint?.seq ?? 0), checkpoint };
}

async function* everything(db: Db): AsyncGenerator<ExportedRow | ExportedCheckpoint> {
  yield* await strayRows(db, 'seq < 1');
  if (isSealedAtOnce(db)) yield* await strayRows(db, 'seq is null');
  yield* chain(db, await endNow(db));
}

/** Rows that the service never writes: one of them is enough to know. */
async function strayRows(db: Db, where: string): Promise<ExportedRow[]> {
  const rows = await db.all<Omit<SealedRow, 'seq'> & { seq: DbTime | null }>(
    `select seq, ${auditColumns}, mac, hash from audit where ${where} order by id limit $1`,
    [page],
  );
  return rows.map((row) => toRow({ ...row, seq: row.seq ?? 0 }));
}

interface SealedRow extends AuditRow {
  readonly seq: DbTime;
  readonly hash: Uint8Array | null;
  readonly mac: Uint8Array | null;
}

/** Rows and checkpoints up to the end, a page at a time. */
async function* chain(db: Db, { last, checkpoint }: End): AsyncGenerator<ExportedRow | ExportedCheckpoint> {
  for (let after = 0; after < last; ) {
    const rows = await db.all<SealedRow>(
      `select seq, ${auditColumns}, mac, hash from audit where seq > $1 and seq <= $2 order by seq limit $3`,
      [after, last, page],
    );
    const end = rows.length < page ? last : Number(rows.at(-1)?.seq);
    const checkpoints = await db.all<SignedCheckpoint>(
      'select seq, at, hash, signature from audit_checkpoints where seq > $1 and seq <= $2 and seq < $3 order by seq',
      [after, end, checkpoint?.seq ?? 0],
    );
    const marks = checkpoints.map(toMark);
    if (checkpoint && checkpoint.seq > after && checkpoint.seq <= end) marks.push(checkpoint);
    yield* merged(rows.map(toRow), marks);
    after = end;
  }
}

/** Each checkpoint behind the row that it is about. */
function* merged(
  rows: ExportedRow[],
  marks: ExportedCheckpoint[],
): Generator<ExportedRow | ExportedCheckpoint> {
  let next = 0;
  for (const row of rows) {
    for (; marks[next] && Number(marks[next]?.seq) < row.seq; next++) yield marks[next] as ExportedCheckpoint;
    yield row;
  }
  yield* marks.slice(next);
}

/** In the order of the declaration. */
function toRow(row: SealedRow): ExportedRow {
  return {
    kind: 'row',
    seq: Number(row.seq),
    id: row.id,
    tenant_id: row.tenant_id,
    at: Number(row.at),
    actor_id: row.actor_id,
    operation: row.operation,
    entity_id: row.entity_id,
    result: row.result,
    entry: row.entry,
    mac: toHex(row.mac),
    hash: toHex(row.hash),
  };
}

function toMark({ seq, at, hash, signature }: SignedCheckpoint): ExportedCheckpoint {
  return {
    kind: 'checkpoint',
    seq: Number(seq),
    at: Number(at),
    hash: toHex(hash),
    signature: toHex(signature),
  };
}

function toHex(bytes: Uint8Array): string;
function toHex(bytes: Uint8Array | null): string | null;
function toHex(bytes: Uint8Array | null): string | null {
  return bytes && Buffer.from(bytes).toString('hex');
}
