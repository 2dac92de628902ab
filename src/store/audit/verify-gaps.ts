/** Checks that missing rows were archived or delivered before they were deleted. */
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
  /** Whether a missing archive is a finding (`required`) or a note (`optional`). */
  readonly archives: 'required' | 'optional';
  readonly report: GapReport;
  readonly note: (text: string) => void;
}

/**
 * Checks a gap from its last row to its first, because the record of a deletion comes after the deleted rows.
 * `removals` must be in log order.
 */
export function checkGap(
  tenantId: string,
  { first, last }: Rows,
  removals: readonly Removal[],
  { archives, report, note }: GapOptions,
): void {
  const of = `of chain ${chainName(tenantId)}`;
  /** The removal of the rows after `end`. The record about the rows up to `end` was among them. */
  let above: Removal | undefined;
  for (let end = last; end >= first; ) {
    const removal = removals.findLast((one) => one.first <= end && end <= one.last.seq);
    const below = removals.map((one) => one.last.seq).filter((seq) => seq < end);
    const start = Math.max(first, removal ? removal.first : Math.max(0, ...below) + 1);
    const rows = { first: start, last: end };
    const names = rowNames(start, end);
    const [is, was] = start === end ? ['is', 'was'] : ['are', 'were'];
    const archived = (where: string, todo: string) => {
      if (archives === 'optional') note(`${names} ${of} ${is} archived ${where}`);
      else report('missing_archive', `${names} ${is} archived${todo}`, rows);
    };
    if (removal?.file !== undefined) archived(`in ${removal.file}`, `: add ${removal.file}`);
    else if (removal) note(`${names} ${of} ${was} deleted after delivery to all sinks`);
    else if (!above) report('missing_rows', `${names} ${is} missing, and no entry records an archive`, rows);
    else if (above.file !== undefined)
      archived(`in a file that ${above.file} names`, `: add ${above.file}, which names the next file`);
    else note(`${names} ${of} ${was} deleted earlier; the entry about it was delivered to all sinks, too`);
    above = removal ?? above;
    end = start - 1;
  }
}

/** A message about rows that the system chain mentions. It is not known whether they were archived. */
export function notInFiles(first: number, last: number, source: string): string {
  const is = first === last ? 'is' : 'are';
  return `${rowNames(first, last)}, which ${source} mentions, ${is} not in these files: add the archives, or pass --database`;
}
