/** Checks that rows which no part has were archived or delivered before they were deleted. */
import { chainName } from './export-format.ts';
import type { Removal } from './log-entries.ts';
import type { FindingCode } from './verify-part.ts';
import { rowNames } from './verify-part.ts';

export interface Rows {
  readonly first: number;
  readonly last: number;
}

export type GapReport = (code: FindingCode, message: string, rows: Rows) => void;

interface GapOptions {
  /** Whether archives must be given. */
  readonly archives: 'required' | 'optional';
  readonly report: GapReport;
  readonly note: (text: string) => void;
}

/**
 * Checks a gap from its last row to its first, because a deletion is recorded in a later row than those it deleted.
 * `removals` must be in log order.
 */
export function checkGap(
  tenantId: string,
  { first, last }: Rows,
  removals: readonly Removal[],
  { archives, report, note }: GapOptions,
): void {
  const of = `of chain ${chainName(tenantId)}`;
  /** The removal of the rows above, which have the record about the rows below. */
  let above: Removal | undefined;
  for (let end = last; end >= first; ) {
    const removal = removals.findLast((one) => one.first <= end && end <= one.last.seq);
    const below = removals.map((one) => one.last.seq).filter((seq) => seq < end);
    const start = Math.max(first, removal ? removal.first : Math.max(0, ...below) + 1);
    const rows = { first: start, last: end };
    const names = rowNames(start, end);
    const archived = (where: string, todo: string) => {
      if (archives === 'optional') note(`${names} ${of} are archived ${where}`);
      else report('missing_archive', `${names} are archived${todo}`, rows);
    };
    if (removal?.file !== undefined) archived(`in ${removal.file}`, `: add ${removal.file}`);
    else if (removal) note(`${names} ${of} were deleted after they were delivered to all sinks`);
    else if (!above)
      report('missing_rows', `${names} are missing, and no entry records that they were archived`, rows);
    else if (above.file !== undefined)
      archived(`in files that ${above.file} names`, ` in other files: add ${above.file}, which names them`);
    else note(`${names} ${of} were deleted earlier; the entry about it was delivered to all sinks, too`);
    above = removal ?? above;
    end = start - 1;
  }
}

/** Rows that exist according to the system chain. Whether they were archived is not known. */
export function notInFiles(first: number, last: number, source: string): string {
  return `${rowNames(first, last)}, which ${source} mentions, are not in these files: add their archives, or pass --database`;
}
