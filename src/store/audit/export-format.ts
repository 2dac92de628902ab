/** The lines of an export, and how they are parsed. */
import { z } from 'zod';
import { isKnownFormat } from './hash-chain.ts';

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
