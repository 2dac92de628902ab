/** Entries about the log itself. Verification uses them if their MAC is valid. */
import { headsOperation, restoreOperation } from '../../domain/audit.ts';
import { type Position, parsePosition } from './export-format.ts';

/** Written to a chain whose entries were saved in a file and are then deleted. */
export const archiveOperation = 'audit.archive';
/** Written to a chain whose entries were delivered to all sinks and are then deleted. */
export const retentionOperation = 'audit.retention';
/** Written to a chain whose index was rebuilt because it did not match the entries. */
export const reindexOperation = 'audit.reindex';

/** The entries from `first` to `last.seq` of a chain were deleted after they were archived or delivered. */
export interface Removal {
  readonly first: number;
  readonly last: Position;
  /** The name of the archive. Absent if the entries were delivered to sinks. */
  readonly file?: string;
}

export function removalDifference({ first, last, file }: Removal) {
  return {
    entries: { from: first, to: last.seq },
    hash: { to: last.hash },
    ...(file !== undefined && { file: { to: file } }),
  };
}

/** The content of an entry about the log itself. */
export interface Statement {
  /** The ends of other chains, by tenant. */
  readonly heads?: readonly (readonly [tenantId: string, Position])[];
  readonly removal?: Removal;
  /**
   * Set if the entry records a restore from a backup. The last position of the chain that the restore replaced;
   * infinity if unknown.
   */
  readonly replacedEnd?: number;
}

type Values = Readonly<Record<string, { from?: unknown; to?: unknown } | undefined>>;

/** Returns undefined if the entry contains no statement. */
export function statementOf(entryText: string): Statement | undefined {
  if (!/"(?:audit|database)\./.test(entryText)) return undefined;
  const { operation, difference = {} } = JSON.parse(entryText) as { operation: string; difference?: Values };
  if (operation === headsOperation) return { heads: headsIn(difference) };
  if (operation === restoreOperation) return { replacedEnd: replacedEnd(difference) };
  if (operation !== archiveOperation && operation !== retentionOperation) return undefined;
  const removal = removalIn(difference);
  return removal && { removal };
}

function headsIn(difference: Values): (readonly [string, Position])[] {
  return Object.entries(difference).flatMap(([tenantId, change]) => {
    const position = parsePosition(String(change?.to));
    return position ? [[tenantId, position] as const] : [];
  });
}

function removalIn({ entries, hash, file }: Values): Removal | undefined {
  const last = parsePosition(`${entries?.to}:${hash?.to}`);
  if (!last) return undefined;
  const first = Number(entries?.from);
  return { first, last, ...(typeof file?.to === 'string' && { file: file.to }) };
}

function replacedEnd({ audit_head: head }: Values): number {
  const [, seq] = /(?:^|:)(\d{1,15}):[0-9a-f]+$/.exec(String(head?.from)) ?? [];
  return seq === undefined ? Number.POSITIVE_INFINITY : Number(seq);
}
