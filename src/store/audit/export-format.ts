/**
 * The lines of an exported or archived audit log. A file has one part per chain: a header with the wrapped keys and the
 * position before the first row, the rows in order, each checkpoint after the row that it signs, and a signed footer.
 */
import { z } from 'zod';
import { isKnownCheckpoint, isKnownFormat, systemTenant } from './hash-chain.ts';

/** The format of the file as a whole. Rows and checkpoints have separate formats. */
export const exportFormat = 'sallyport audit export 1';

/** The name of a chain in anchors, file names and messages. */
export function chainName(tenantId: string): string {
  return tenantId === systemTenant ? 'system' : tenantId;
}

/** A position in a chain: the number of an entry, and the hash that covers it and all entries before it, in hex. */
export interface Position {
  readonly seq: number;
  readonly hash: string;
}

export function formatPosition({ seq, hash }: Position): string {
  return `${seq}:${hash}`;
}

const positionPattern = /^(\d{1,15}):([0-9a-f]{64})$/;

/** Returns undefined for any other text than SEQ:HASH. */
export function parsePosition(text: string): Position | undefined {
  const [, seq, hash] = positionPattern.exec(text) ?? [];
  return hash === undefined ? undefined : { seq: Number(seq), hash };
}

const number = z.number();
const text = z.string();
const position = z.string().regex(positionPattern);
/** Null only if another program has removed the value from the database. */
const hex = z
  .string()
  .regex(/^([0-9a-f]{2})*$/)
  .nullable();

export const Header = z.strictObject({
  kind: z.literal('header'),
  format: z.literal(exportFormat),
  exported_at: text,
  /**
   * `log`: the file has all chains. `chain`: it has one whole chain. `archive`: it has entries of one chain that were
   * deleted from the database afterwards.
   */
  scope: z.enum(['log', 'chain', 'archive']),
  part: number,
  parts: number,
  tenant_id: text,
  /** The position before the first row. */
  after: position,
  master_key: text,
  chain_key: text.refine((value) => Buffer.from(value, 'base64').toString('base64') === value),
});
const Row = z.strictObject({
  kind: z.literal('row'),
  format: number,
  seq: number,
  at: number,
  entry: text,
  mac: hex,
});
const CheckpointLine = z.strictObject({
  kind: z.literal('checkpoint'),
  format: number,
  seq: number,
  at: number,
  hash: hex,
  signature: hex,
  /** The end of the system chain. Absent in format 1. */
  system: position.optional(),
});
export const Footer = z.strictObject({
  kind: z.literal('footer'),
  rows: number,
  checkpoints: number,
  /** Rows and checkpoints of the database that are in no chain, so another program has inserted them. */
  strays: number,
  head: position,
  signature: hex,
});
const Line = z.discriminatedUnion('kind', [Header, Row, CheckpointLine, Footer]);

export type Line = z.infer<typeof Line>;
export type Header = z.infer<typeof Header>;
export type ExportedRow = z.infer<typeof Row>;
export type ExportedCheckpoint = z.infer<typeof CheckpointLine>;
export type Footer = z.infer<typeof Footer>;

/** The text that the signature in the footer covers. */
export function footerText(header: Header, footer: Omit<Footer, 'kind' | 'signature'>): string {
  const { exported_at, scope, part, parts, tenant_id, after } = header;
  const { rows, checkpoints, strays, head } = footer;
  const fields = [exported_at, scope, part, parts, tenant_id, after, rows, checkpoints, strays, head];
  return `${exportFormat} footer ${JSON.stringify(fields)}`;
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

/**
 * Returns the format of a line that a newer version has written, and undefined for all other lines. Only the format is
 * checked, because a newer version may also have added fields.
 */
function newerFormat(json: { kind?: unknown; format?: unknown }): unknown {
  const { kind, format } = json;
  if (kind === 'header') return isOtherExport(format) ? format : undefined;
  if (typeof format !== 'number') return undefined;
  const isKnown = kind === 'row' ? isKnownFormat : kind === 'checkpoint' ? isKnownCheckpoint : () => true;
  return isKnown(format) ? undefined : format;
}

function isOtherExport(format: unknown): boolean {
  return format !== exportFormat && /^sallyport audit export \d+$/.test(String(format));
}

/** The file name of an archive with the entries from `first` to `last` of one chain. */
export function archiveName(tenantId: string, first: number, last: number): string {
  return `audit-${chainName(tenantId)}-${first}-${last}.jsonl`;
}

/** Returns undefined for other file names. */
export function parseArchiveName(name: string): { chain: string; first: number; last: number } | undefined {
  const [, chain, first, last] =
    /^audit-(system|[0-9a-f-]{36})-(\d{1,15})-(\d{1,15})\.jsonl$/.exec(name) ?? [];
  return chain === undefined ? undefined : { chain, first: Number(first), last: Number(last) };
}
