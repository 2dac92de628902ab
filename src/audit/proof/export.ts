/**
 * The lines of an exported or archived audit log. A file has one part per chain: a header with the wrapped keys and the
 * position before the first segment, then each segment followed by its entries, and a signed footer.
 */
import { z } from 'zod';
import type { Db, DbTime } from '../../db/db.ts';
import {
  type ChainKeys,
  type MasterKeys,
  missingReason,
  unwrapChainKeys,
  wrappedChainKeys,
} from '../../db/keys/keyring.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { fail } from '../../domain/error.ts';
import { EntriesDeleted } from '../errors.ts';
import { type AuditDb, allChains, type Chain, chainOf, eachSegment, emptyChain } from '../log/chain.ts';
import { hexOf, type SignedHeader, signText } from '../log/segment.ts';
import { formatPosition, type Position, positionPattern, systemTenant } from '../records.ts';
import { entriesOf, type Problem, type SegmentSource } from './check.ts';

/** The format of the file as a whole. Segments have their own format. */
const exportFormat = 'sallyport audit export 1';

const number = z.number();
const text = z.string();
const position = z.string().regex(positionPattern);
const hex = z.string().regex(/^([0-9a-f]{2})*$/);

const Header = z.strictObject({
  kind: z.literal('header'),
  format: z.literal(exportFormat),
  exported_at: text,
  /**
   * `log`: the file has all chains. `chain`: it has one whole chain. `archive`: it has segments of one chain that were
   * deleted from the database afterwards.
   */
  scope: z.enum(['log', 'chain', 'archive']),
  part: number,
  parts: number,
  tenant_id: text,
  /** The position before the first segment. */
  after: position,
  master_key: text,
  chain_key: text.refine((value) => Buffer.from(value, 'base64').toString('base64') === value),
});
const SegmentLine = z.strictObject({
  kind: z.literal('segment'),
  format: number,
  number,
  first: number,
  last: number,
  earliest_at: number,
  latest_at: number,
  sealed_at: number,
  max_delay: number,
  success: number,
  denied: number,
  failed: number,
  previous: hex,
  /** The end of the system chain. Absent in the system chain itself. */
  system: position.optional(),
  key: text,
  content: hex,
  index: hex,
  signature: hex,
});
const EntryLine = z.strictObject({
  kind: z.literal('entry'),
  seq: number,
  id: text,
  at: number,
  entry: text,
  mac: hex,
});
const Footer = z.strictObject({
  kind: z.literal('footer'),
  segments: number,
  entries: number,
  /** Segments in the database that are in no chain. */
  strays: number,
  head: position,
  signature: hex,
});
const Line = z.discriminatedUnion('kind', [Header, SegmentLine, EntryLine, Footer]);
type Line = z.infer<typeof Line>;
export type Header = z.infer<typeof Header>;
type SegmentLine = z.infer<typeof SegmentLine>;
export type Footer = z.infer<typeof Footer>;

/** The text that the signature in the footer covers. */
export function footerText(header: Header, footer: Omit<Footer, 'kind' | 'signature'>): string {
  const { exported_at, scope, part, parts, tenant_id, after } = header;
  const { segments, entries, strays, head } = footer;
  const fields = [exported_at, scope, part, parts, tenant_id, after, segments, entries, strays, head];
  return `${exportFormat} footer ${JSON.stringify(fields)}`;
}

const segmentFields = Object.keys(SegmentLine.shape) as (keyof SegmentLine)[];

function toLine(header: SignedHeader): object {
  const line = { kind: 'segment', ...header };
  return Object.fromEntries(segmentFields.map((field) => [field, line[field]]));
}

export function fromLine(tenantId: string, { kind: _, ...line }: SegmentLine): SignedHeader {
  return { tenantId, ...line };
}

/** One chain, or a range of it, in a file or in the database. */
export interface Part {
  readonly tenantId: string;
  readonly header: Header;
  /** The position before the first segment. */
  readonly after: Position;
  /** The last segment according to the footer, or to the database. Undefined if the footer is missing. */
  readonly end: Position | undefined;
  /** Absent for a part that is read from the database. */
  readonly file?: string;
  /** The number of the header's line in its file. */
  readonly line: number;
  /** Whether the segments before `after` were verified earlier. */
  readonly isRest?: boolean;
  segments(keys: ChainKeys): AsyncIterable<SegmentSource | Problem>;
  /** The database, whose index is compared with the entries. Absent for a file. */
  readonly db?: Db;
}

/** The keys of a part. Returns the reason if they cannot be unwrapped. */
export function keysOf(
  header: Header,
  masters: Pick<MasterKeys, 'find' | 'missingReason'>,
): ChainKeys | string {
  const master = masters.find(header.master_key);
  const keys = master && unwrapChainKeys(master, Buffer.from(header.chain_key, 'base64'));
  return keys ?? `the export needs the master key ${header.master_key}, ${missingReason(masters)}`;
}

export interface ExportOptions {
  readonly at: number;
  /** Only the chain of this tenant. */
  readonly tenantId?: string | undefined;
  /** Segments up to these positions are left out, because they were verified earlier. */
  readonly since?: ReadonlyMap<string, Position> | undefined;
}

/** All chains of the database, the system chain first, or the chain of one tenant. */
export async function exportedParts(
  { db }: AuditDb,
  { at, tenantId, since }: ExportOptions,
): Promise<Part[]> {
  const wrapped = await wrappedKeys(db);
  const strays = await countStrays(db);
  const chains = tenantId === undefined ? await chainsAtOnce(db) : [await chainOf(db, tenantId)];
  const found = chains.filter((chain) => chain !== undefined);
  // An export of the whole log always has a system chain, so that the export of an empty log is a valid file.
  if (tenantId === undefined && found[0]?.tenantId !== systemTenant) found.unshift(emptyChain(systemTenant));
  const scope = tenantId === undefined ? 'log' : 'chain';
  return found.map((chain, index) => {
    const verified = since?.get(chain.tenantId);
    const isRest =
      verified !== undefined && verified.number >= chain.base.number && verified.number <= chain.number;
    const after = isRest ? verified : chain.base;
    const parts = { part: index + 1, parts: found.length };
    return storedPart(db, chain, wrapped, {
      ...{ at, scope, ...parts, after, end: chain, isRest },
      strays: strays.get(chain.tenantId) ?? 0,
    });
  });
}

/** How often the chains of a cluster are read again because the system chain has grown. */
const maxReads = 20;

/**
 * All chains in one state: none names an end that another one does not have yet. A cluster reads its shards one after
 * another, so they are read again if the system chain has grown.
 */
async function chainsAtOnce(db: Db): Promise<Chain[]> {
  const isDistributed = await db.isDistributed?.();
  for (let read = 0; read < maxReads; read++) {
    const system = isDistributed ? await chainOf(db, systemTenant) : undefined;
    const chains = await allChains(db);
    if (!isDistributed || (await chainOf(db, systemTenant))?.number === system?.number) return chains;
  }
  throw fail('unavailable', {
    cause: new Error('the system chain grows too fast to read all chains at once'),
  });
}

/** The oldest segments of a chain, up to `end`. */
export async function archivePart({ db }: AuditDb, at: number, chain: Chain, end: Position): Promise<Part> {
  const parts = { part: 1, parts: 1 };
  const options = { at, scope: 'archive', ...parts, after: chain.base, end } as const;
  return storedPart(db, chain, await wrappedKeys(db), options);
}

type WrappedKeys = Pick<Header, 'master_key' | 'chain_key'>;
type PartOptions = Pick<Header, 'scope' | 'part' | 'parts'> & {
  readonly at: number;
  readonly after: Position;
  readonly end: Position;
  readonly isRest?: boolean;
  readonly strays?: number;
};

async function wrappedKeys(db: Db): Promise<WrappedKeys> {
  const keys = await wrappedChainKeys(db);
  if (!keys) throw fail('unavailable', { cause: new Error('the table audit_key is empty') });
  return { master_key: keys.master_id, chain_key: Buffer.from(keys.wrapped).toString('base64') };
}

function storedPart(db: Db, chain: Chain, keys: WrappedKeys, options: PartOptions): Part {
  const { at, scope, part, parts, after, end, isRest = false, strays = 0 } = options;
  const header: Header = {
    kind: 'header',
    format: exportFormat,
    exported_at: timestamp(at),
    scope,
    part,
    parts,
    tenant_id: chain.tenantId,
    after: formatPosition(after),
    ...keys,
  };
  return {
    tenantId: chain.tenantId,
    header,
    after,
    end,
    line: 1,
    isRest,
    db,
    async *segments() {
      let last = after.number;
      const range = { first: last + 1, last: end.number };
      for await (const { packed, ...segment } of eachSegment(db, chain.tenantId, range)) {
        if (segment.number > last + 1) await checkNotDeleted(db, chain.tenantId, last);
        yield { segment, content: packed };
        last = segment.number;
      }
      if (last < end.number) await checkNotDeleted(db, chain.tenantId, last);
      if (strays > 0) yield strayProblem(strays);
    },
  };
}

export function strayProblem(strays: number, line?: number): Problem {
  const message = `${strays} segments that are in no chain were inserted`;
  return { code: 'broken_chain', message, ...(line !== undefined && { line }) };
}

/** Throws `EntriesDeleted` if segments after the number `after` were deleted. */
export async function checkNotDeleted(db: Db, tenantId: string, after: number): Promise<void> {
  const now = await chainOf(db, tenantId);
  if (now && now.base.number > after)
    throw new EntriesDeleted('entries were archived or deleted while the audit log was read');
}

/**
 * The number of segments before the start or after the end of their chain, by tenant. Those of tenants without a chain
 * count for the system chain. The same statement reads the ends, because a segment may be added at any time.
 */
async function countStrays(db: Db): Promise<Map<string, number>> {
  const rows = await db.all<{ tenant_id: string; has_chain: DbTime; count: DbTime }>(
    `select s.tenant_id, count(c.tenant_id) as has_chain, count(*) as count
     from audit_segments s left join audit_chains c on c.tenant_id = s.tenant_id
     where c.tenant_id is null or s.number <= c.base_number or s.number > c.number group by s.tenant_id`,
  );
  const strays = new Map<string, number>();
  for (const { tenant_id, has_chain, count } of rows) {
    const tenant = Number(has_chain) > 0 ? tenant_id : systemTenant;
    strays.set(tenant, (strays.get(tenant) ?? 0) + Number(count));
  }
  return strays;
}

/** The lines of parts. Throws `EntriesDeleted` if entries of a part were deleted since it was created. */
export async function* exportLines(keys: ChainKeys, parts: readonly Part[]): AsyncGenerator<string> {
  for (const part of parts) {
    yield JSON.stringify(part.header);
    const totals = { segments: 0, entries: 0, strays: 0 };
    for await (const item of part.segments(keys)) {
      if (!('content' in item)) {
        totals.strays += 1;
        continue;
      }
      const { segment } = item;
      const entries = entriesOf(item);
      totals.segments += 1;
      totals.entries += entries.length;
      yield JSON.stringify(toLine(segment));
      let seq = segment.first;
      for (const { id, at, text: entry, mac } of entries)
        yield JSON.stringify({ kind: 'entry', seq: seq++, id, at, entry, mac: hexOf(mac) });
    }
    const unsigned = { ...totals, head: formatPosition(part.end as Position) };
    yield JSON.stringify({
      kind: 'footer',
      ...unsigned,
      signature: signText(keys, footerText(part.header, unsigned)),
    });
  }
}

/** Returns undefined for any text that differs from what an export writes. A newer version has another header. */
export function parseLine(source: string): Line | { kind: 'newer'; format: string } | undefined {
  try {
    const json = JSON.parse(source);
    if (
      json.kind === 'header' &&
      json.format !== exportFormat &&
      /^sallyport audit export \d+$/.test(json.format)
    )
      return { kind: 'newer', format: json.format };
    const line = Line.safeParse(json);
    return line.success && JSON.stringify(line.data) === source ? line.data : undefined;
  } catch {
    return undefined;
  }
}
