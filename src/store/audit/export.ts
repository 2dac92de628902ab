/**
 * Exports the audit log as JSON lines: a header with the wrapped keys of the chain, every row in order, every checkpoint
 * after the row that it signs, and a signed footer. Without the footer, a truncated export would look complete.
 */
import { z } from 'zod';
import type { Awaitable } from '../../domain/awaitable.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { wrappedChainKeys } from '../crypto/keyring.ts';
import type { Db, DbTime } from '../engine/db.ts';
import {
  type AuditRow,
  anchorOf,
  auditColumns,
  type ChainKeys,
  checkpointColumns,
  genesis,
  isChainedOnWrite,
  isKnownFormat,
  type SignedCheckpoint,
  signText,
} from './hash-chain.ts';

/** The format of the file as a whole. Rows and checkpoints have separate formats. */
export const exportFormat = 'sallyport audit export 1';

const number = z.number();
const text = z.string();
/** Null only if another program has removed it from the database. */
const hex = z
  .string()
  .regex(/^([0-9a-f]{2})*$/)
  .nullable();

export const Header = z.strictObject({
  kind: z.literal('header'),
  format: z.literal(exportFormat),
  exported_at: text,
  master_key: text,
  chain_key: text.refine((value) => Buffer.from(value, 'base64').toString('base64') === value),
});
const Row = z.strictObject({
  kind: z.literal('row'),
  format: number,
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
const CheckpointLine = z.strictObject({
  kind: z.literal('checkpoint'),
  format: number,
  seq: number,
  at: number,
  hash: hex,
  signature: hex,
});
export const Footer = z.strictObject({
  kind: z.literal('footer'),
  rows: number,
  checkpoints: number,
  head: text,
  signature: hex,
});
export const Line = z.discriminatedUnion('kind', [Header, Row, CheckpointLine, Footer]);

export type Line = z.infer<typeof Line>;
export type Header = z.infer<typeof Header>;
export type ExportedRow = z.infer<typeof Row>;
export type ExportedCheckpoint = z.infer<typeof CheckpointLine>;
export type Footer = z.infer<typeof Footer>;

/** The text that the footer signs. */
export function footerText(
  exportedAt: string,
  { rows, checkpoints, head }: Omit<Footer, 'kind' | 'signature'>,
) {
  return `${exportFormat} ${exportedAt} ${rows} ${checkpoints} ${head}`;
}

/** A line that a newer version has written. */
export interface UnknownLine {
  readonly kind: 'unknown';
  readonly format: unknown;
}

/** Returns undefined for any text that differs from what an export writes. */
export function parseLine(text: string): Line | UnknownLine | undefined {
  try {
    const json = JSON.parse(text);
    const newer = newerFormat(json);
    if (newer !== undefined) return { kind: 'unknown', format: newer };
    const line = Line.safeParse(json);
    return line.success && JSON.stringify(line.data) === text ? line.data : undefined;
  } catch {
    return undefined;
  }
}

/** The format of a line that a newer version has written. Its other fields may be unknown too. */
function newerFormat(json: { kind?: unknown; format?: unknown }): unknown {
  const { kind, format } = json;
  if (kind === 'header') return isOtherExport(format) ? format : undefined;
  if (kind !== 'row' && kind !== 'checkpoint') return undefined;
  return typeof format === 'number' && !isKnownFormat(format) ? format : undefined;
}

function isOtherExport(format: unknown): boolean {
  return format !== exportFormat && /^sallyport audit export \d+$/.test(String(format));
}

const pageSize = 1000;

export async function* exportLines(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  at: number,
): AsyncGenerator<string> {
  const keys = await chainKeys();
  const exportedAt = timestamp(at);
  const chainKey = await wrappedChainKeys(db);
  if (!chainKey) throw fail('unavailable', { cause: new Error('the table audit_key is empty') });
  const header: Header = {
    kind: 'header',
    format: exportFormat,
    exported_at: exportedAt,
    master_key: chainKey.master_id,
    chain_key: Buffer.from(chainKey.wrapped).toString('base64'),
  };
  yield JSON.stringify(header);
  const totals = { rows: 0, checkpoints: 0, head: anchorOf({ seq: 0, hash: genesis }) };
  for await (const next of rowsAndCheckpoints(db)) {
    if (next.kind === 'row' && next.seq > 0) totals.head = `${next.seq}:${next.hash}`;
    totals[next.kind === 'row' ? 'rows' : 'checkpoints'] += 1;
    yield JSON.stringify(next);
  }
  const signature = toHex(signText(keys, footerText(exportedAt, totals)));
  const footer: Footer = { kind: 'footer', ...totals, signature };
  yield JSON.stringify(footer);
}

interface End {
  /** The highest number of rows and checkpoints: another program may have deleted only one of the two. */
  readonly last: number;
  readonly checkpoint: ExportedCheckpoint | undefined;
}

/** Read in one statement: the next commit may replace the checkpoint. */
async function endNow(db: Db): Promise<End> {
  type Row = { last: DbTime | null } & (SignedCheckpoint | { seq: null });
  const row = await db.get<Row>(
    `select (select max(seq) from audit where seq is not null) as last, c.format, c.seq, c.at, c.hash, c.signature from (select 1 as one) as one
     left join (select ${checkpointColumns} from audit_checkpoints order by seq desc limit 1) as c on 1 = 1`,
  );
  const checkpoint = row && row.seq !== null ? toCheckpoint(row) : undefined;
  return { last: Math.max(0, Number(row?.last ?? 0), checkpoint?.seq ?? 0), checkpoint };
}

async function* rowsAndCheckpoints(db: Db): AsyncGenerator<ExportedRow | ExportedCheckpoint> {
  yield* await strayRows(db, 'seq < 1');
  if (isChainedOnWrite(db)) yield* await strayRows(db, 'seq is null');
  yield* chain(db, await endNow(db));
}

/** Rows that the service never writes. A page of them is enough to report. */
async function strayRows(db: Db, where: string): Promise<ExportedRow[]> {
  const rows = await db.all<Omit<ChainedRow, 'seq'> & { seq: DbTime | null }>(
    `select seq, ${auditColumns}, mac, hash from audit where ${where} order by id limit $1`,
    [pageSize],
  );
  return rows.map((row) => toRow({ ...row, seq: row.seq ?? 0 }));
}

interface ChainedRow extends AuditRow {
  readonly seq: DbTime;
  readonly hash: Uint8Array | null;
  readonly mac: Uint8Array | null;
}

/** Reads rows and checkpoints page by page. */
async function* chain(db: Db, { last, checkpoint }: End): AsyncGenerator<ExportedRow | ExportedCheckpoint> {
  for (let after = 0; after < last; ) {
    const rows = await db.all<ChainedRow>(
      `select seq, ${auditColumns}, mac, hash from audit where seq > $1 and seq <= $2 order by seq limit $3`,
      [after, last, pageSize],
    );
    const end = rows.length < pageSize ? last : Number(rows.at(-1)?.seq);
    const checkpoints = await db.all<SignedCheckpoint>(
      `select ${checkpointColumns} from audit_checkpoints where seq > $1 and seq <= $2 and seq < $3 order by seq`,
      [after, end, checkpoint?.seq ?? 0],
    );
    const lines = checkpoints.map(toCheckpoint);
    if (checkpoint && checkpoint.seq > after && checkpoint.seq <= end) lines.push(checkpoint);
    yield* merged(rows.map(toRow), lines);
    after = end;
  }
}

/** Puts each checkpoint after the row that it signs. */
function* merged(
  rows: ExportedRow[],
  checkpoints: ExportedCheckpoint[],
): Generator<ExportedRow | ExportedCheckpoint> {
  let next = 0;
  for (const row of rows) {
    for (; Number(checkpoints[next]?.seq) < row.seq; next++) yield checkpoints[next] as ExportedCheckpoint;
    yield row;
  }
  yield* checkpoints.slice(next);
}

/** The fields are in the order of `Row`. */
function toRow(row: ChainedRow): ExportedRow {
  return {
    kind: 'row',
    format: row.format,
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

function toCheckpoint({ format, seq, at, hash, signature }: SignedCheckpoint): ExportedCheckpoint {
  return {
    kind: 'checkpoint',
    format,
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
