/** Verifies one segment. */
import type { ChainKeys } from '../../store/crypto/keyring.ts';
import { isKnownFormat, macOf, sameBytes } from '../log/entry.ts';
import { indexOf } from '../log/seal.ts';
import {
  contentHashOf,
  hashOf,
  headerText,
  isSignedText,
  type Segment,
  type SegmentHeader,
  signingKeyId,
  timesOf,
} from '../log/segment.ts';
import { indexHashOf } from '../log/terms.ts';

/** What verification can find. */
export type FindingCode =
  | 'damaged_file'
  | 'unknown_format'
  | 'wrong_key'
  | 'changed_entry'
  | 'replayed_entry'
  | 'changed_segment'
  | 'missing_segments'
  | 'broken_chain'
  | 'cut_off'
  | 'anchor_differs'
  | 'missing_archive'
  | 'changed_index'
  | 'changed_settings';

export type Report = (code: FindingCode, message: string, place?: { entry?: number }) => void;

/** What is known about the segment before. */
export interface Before extends Pick<SegmentHeader, 'sealedAt' | 'maxDelay'> {
  readonly hash: string;
  readonly last: number;
}

/**
 * Checks the signature, the hashes, the MACs of all entries, the times and counts, and with `before` that the segment
 * continues the chain. Returns the offsets of the entries with a valid MAC. `terms` has the terms of the segment in the
 * index if it is intact.
 */
export async function checkSegment(
  keys: ChainKeys,
  segment: Segment,
  before: Before | undefined,
  report: Report,
): Promise<{ valid: ReadonlySet<number>; terms?: readonly number[] }> {
  const { number, entries, first, last, tenantId } = segment;
  const valid = new Set<number>();
  if (!isKnownFormat(segment.format)) {
    report(
      'unknown_format',
      `segment ${number} has the format ${segment.format}, which this version cannot verify: use a newer version`,
    );
    return { valid };
  }
  entries.forEach((entry, offset) => {
    if (sameBytes(macOf(keys, tenantId, entry), entry.mac)) valid.add(offset);
    else
      report('changed_entry', `entry ${first + offset} was changed: its MAC does not match`, {
        entry: first + offset,
      });
  });
  if (segment.keyId !== signingKeyId(keys) || !isSignedText(keys, headerText(segment), segment.signature)) {
    report('changed_segment', `the signature of segment ${number} is invalid`);
    return { valid };
  }
  const isComplete = entries.length === last - first + 1 && contentHashOf(entries) === segment.contentHash;
  if (!isComplete)
    report(
      'changed_segment',
      `entries of segment ${number} (${first} to ${last}) were removed, inserted, moved or made unreadable`,
    );
  const intact = isComplete && valid.size === entries.length ? await indexOf(entries) : undefined;
  if (intact && !hasOwnValues(segment, before, intact))
    report('changed_segment', `the times or counts of segment ${number} do not match its entries`);
  if (before && (segment.previous !== before.hash || first !== before.last + 1))
    report('broken_chain', `segment ${number} does not continue the segment before it`);
  return { valid, ...(intact && { terms: intact.index.map(({ term }) => term) }) };
}

function hasOwnValues(
  segment: Segment,
  before: Before | undefined,
  { counts, index }: Awaited<ReturnType<typeof indexOf>>,
): boolean {
  const times = timesOf(segment.entries, before ?? { sealedAt: 0, maxDelay: 0 });
  return (
    times.earliestAt === segment.earliestAt &&
    times.latestAt === segment.latestAt &&
    (before ? times.sealedAt === segment.sealedAt : times.sealedAt <= segment.sealedAt) &&
    (before ? times.maxDelay === segment.maxDelay : times.maxDelay <= segment.maxDelay) &&
    counts.success === segment.counts.success &&
    counts.denied === segment.counts.denied &&
    counts.failed === segment.counts.failed &&
    indexHashOf(index) === segment.indexHash
  );
}

export function beforeNext(segment: SegmentHeader): Before {
  const { last, sealedAt, maxDelay } = segment;
  return { hash: hashOf(segment), last, sealedAt, maxDelay };
}
