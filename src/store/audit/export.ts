/**
 * Exports the audit log as JSON lines: a header with the wrapped keys of the chain, every row in order, every checkpoint
 * after the row that it signs, and a signed footer. Without the footer, a truncated export would look complete.
 */
import { z } from 'zod';
import type { Awaitable } from '../../domain/awaitable.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { wrappedChainKeys } from '../crypto/keyring.ts';
import type { Db } from '../engine/db.ts';
import { anchorOf, type ChainKeys, isKnownFormat, type SignedCheckpoint, signText } from './hash-chain.ts';
import { allChains, type Chain, type ChainedRow, checkpointsAfter, rowsAfter } from './rows.ts';

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
  tenant_id: text,
  seq: number,
  at: number,
  entry: text,
  mac: hex,
});
const CheckpointLine = z.strictObject({
  kind: z.literal('checkpoint'),
  format: number,
  tenant_id: text,
  seq: number,
  at: number,
  hash: hex,
  signature: hex,
});
export const Footer = z.strictObject({
  kind: z.literal('footer'),
  rows: number,
  checkpoints: number,
  /** The anchors of all chains. */
  heads: z.array(text),
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
  { rows, checkpoints, heads }: Omit<Footer, 'kind' | 'signature'>,
) {
  return `${exportFormat} ${exportedAt} ${rows} ${checkpoints} ${heads.join()}`;
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
  const totals = { rows: 0, checkpoints: 0, heads: [] as string[] };
  for (const chain of await allChains(db)) {
    for await (const next of rowsAndCheckpoints(db, chain)) {
      totals[next.kind === 'row' ? 'rows' : 'checkpoints'] += 1;
      yield JSON.stringify(next);
    }
    totals.heads.push(anchorOf(chain));
  }
  const signature = toHex(signText(keys, footerText(exportedAt, totals)));
  const footer: Footer = { kind: 'footer', ...totals, signature };
  yield JSON.stringify(footer);
}

/** Reads rows and checkpoints page by page. */
async function* rowsAndCheckpoints(db: Db, chain: Chain): AsyncGenerator<ExportedRow | ExportedCheckpoint> {
  for (let after = chain.baseSeq; after < chain.seq; ) {
    const rows = await rowsAfter(db, chain, { after, upTo: chain.seq }, pageSize);
    const end = rows.length < pageSize ? chain.seq : Number(rows.at(-1)?.seq);
    const checkpoints = await checkpointsAfter(db, chain, after, pageSize);
    yield* merged(rows.map(toRow), checkpoints.filter(({ seq }) => seq <= end).map(toCheckpoint));
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
function toRow({ format, tenantId, seq, at, entryText, mac }: ChainedRow): ExportedRow {
  return { kind: 'row', format, tenant_id: tenantId, seq, at, entry: entryText, mac: toHex(mac) };
}

function toCheckpoint({ format, tenantId, seq, at, hash, signature }: SignedCheckpoint): ExportedCheckpoint {
  return {
    kind: 'checkpoint',
    format,
    tenant_id: tenantId,
    seq,
    at,
    hash: toHex(hash),
    signature: toHex(signature),
  };
}

function toHex(bytes: Uint8Array): string;
function toHex(bytes: Uint8Array | null): string | null;
function toHex(bytes: Uint8Array | null): string | null {
  return bytes && Buffer.from(bytes).toString('hex');
}
