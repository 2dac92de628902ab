/** Entries about the log itself. Verification uses them if their MAC is valid. */
import { headsOperation, readsOperation, restoreOperation } from '../../domain/audit.ts';
import { type Position, parsePosition } from '../records.ts';

/** Written to a chain whose entries were saved in a file and are then deleted. */
export const archiveOperation = 'audit.archive';
/** Written to a chain whose entries were delivered to all sinks and are then deleted. */
export const retentionOperation = 'audit.retention';

/** The segments from `first` to `last.number` of a chain were deleted after they were archived or delivered. */
export interface Removal {
  readonly first: number;
  readonly last: Position;
  /** The name of the archive. Absent if the entries were delivered to sinks. */
  readonly file?: string;
}

export function removalDifference({ first, last, file }: Removal) {
  return {
    segments: { from: first, to: last.number },
    hash: { to: last.hash },
    ...(file !== undefined && { file: { to: file } }),
  };
}

/**
 * The last segment in the backup, and the last segment of the chain that the restore replaced; infinity if unknown.
 */
export interface Restore {
  readonly backup: number;
  readonly replaced: number;
}

/** The content of an entry about the log itself. */
export interface Statement {
  /** The ends of other chains, by tenant. */
  readonly heads?: readonly (readonly [tenantId: string, Position])[];
  readonly removal?: Removal;
  /** Set if the entry records a restore from a backup. */
  readonly restore?: Restore;
  /** The new value of `SALLYPORT_AUDIT_READS`. */
  readonly reads?: string;
}

type Values = Readonly<Record<string, { from?: unknown; to?: unknown } | undefined>>;

/** Returns undefined if the entry contains no statement. */
export function statementOf(text: string): Statement | undefined {
  if (!/"(?:audit|database)\./.test(text)) return undefined;
  const { operation, difference = {} } = JSON.parse(text) as { operation: string; difference?: Values };
  if (operation === headsOperation) return { heads: headsIn(difference) };
  if (operation === restoreOperation) return { restore: restoreIn(difference) };
  const reads = difference.SALLYPORT_AUDIT_READS?.to;
  if (operation === readsOperation) return typeof reads === 'string' ? { reads } : undefined;
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

function removalIn({ segments, hash, file }: Values): Removal | undefined {
  const last = parsePosition(`${segments?.to}:${hash?.to}`);
  if (!last) return undefined;
  const first = Number(segments?.from);
  return { first, last, ...(typeof file?.to === 'string' && { file: file.to }) };
}

function restoreIn({ audit_head: head }: Values): Restore {
  const numberOf = (anchor: unknown) => /(?:^|:)(\d{1,15}):[0-9a-f]+$/.exec(String(anchor))?.[1];
  return {
    backup: Number(numberOf(head?.to) ?? 0),
    replaced: Number(numberOf(head?.from) ?? Number.POSITIVE_INFINITY),
  };
}
