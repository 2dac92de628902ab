/**
 * Finds periods for which a search may miss matching entries: the entries were archived, or reads were not recorded.
 */
import { type AuditedReads, type LogGap, readsSetting, unrecordedTransforms } from '../../domain/audit.ts';
import { timestamp } from '../../domain/common-fields.ts';
import type { Db, DbTime } from '../../store/engine/db.ts';
import type { AuditFilter } from '../records.ts';
import { chainOf, headersIn } from './chain.ts';

type Reader = Pick<Db, 'get' | 'all'>;

/** The latest time that a `Date` can have. */
const maxTime = 8.64e15;
const readOperations = ['token.read', 'token.replay'];

/** Maximum number of changes of the setting that are read. Earlier changes are ignored. */
const maxChanges = 100;

export async function gapsOf(db: Reader, tenantId: string, filter: AuditFilter): Promise<LogGap[]> {
  const gaps = [...(await archived(db, tenantId)), ...(await unrecordedReads(db, filter))];
  return gaps.filter(({ from, to }) => overlaps(filter, from, to)).map(toLogGap);
}

interface Gap extends Pick<LogGap, 'reason' | 'transforms'> {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

function overlaps(filter: AuditFilter, from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY) {
  return (filter.from === undefined || filter.from < to) && (filter.to === undefined || filter.to > from);
}

function toLogGap({ from, to, ...gap }: Gap): LogGap {
  return {
    ...gap,
    ...(from !== undefined && { from: timestamp(from) }),
    ...(to !== undefined && { to: timestamp(to) }),
  };
}

/** The period of the archived entries. No archived entry is later than `maxDelay` after the first remaining entry. */
async function archived(db: Reader, tenantId: string): Promise<Gap[]> {
  const chain = await chainOf(db, tenantId);
  if (!chain || chain.base.number === 0) return [];
  const [first] = await headersIn(
    db,
    tenantId,
    { first: chain.base.number + 1, last: chain.number },
    'asc',
    1,
  );
  return [{ reason: 'archived', to: first && Math.min(first.earliestAt + first.maxDelay, maxTime) }];
}

/** Periods in which reads that match the filter were not recorded. */
async function unrecordedReads(db: Reader, filter: AuditFilter): Promise<Gap[]> {
  const { operation = 'token.read', result = 'success', entity, transform } = filter;
  if (!readOperations.includes(operation) || result !== 'success' || entity !== undefined) return [];
  const newestFirst = await db.all<{ at: DbTime; value: AuditedReads }>(
    'select at, value from setting_changes where name = $1 order by at desc limit $2',
    [readsSetting, maxChanges],
  );
  const changes = newestFirst.toReversed();
  return changes.flatMap(({ at, value }, index): Gap[] => {
    const transforms = unrecordedTransforms[value].filter((one) => (transform ?? one) === one);
    const next = changes[index + 1];
    const to = next && Number(next.at);
    return transforms.length === 0
      ? []
      : [{ reason: 'reads_not_recorded', transforms, from: Number(at), to }];
  });
}
