/** Lists the periods whose entries may be missing from the log. */
import type { LogGap } from '../../../sdk/src/sallyport.ts';
import { formatDate } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';

/** Limits the listed gaps. Each change of `SALLYPORT_AUDIT_READS` can add one. */
const maxGaps = 5;

export function describeGap({ reason, transforms, from, to }: LogGap): string {
  if (reason === 'archived') {
    const before = to === undefined ? 'Earlier entries' : `Entries before ${formatDate(to)}`;
    return `${before} were moved to an archive and are not included.`;
  }
  const reads = transforms ? `Reads with ${transforms.join(' or ')}` : 'Reads';
  if (to !== undefined) {
    const start = from === undefined ? '' : `from ${formatDate(from)} `;
    return `${reads} were not recorded ${start}until ${formatDate(to)}.`;
  }
  const since = from === undefined ? '' : ` since ${formatDate(from)}`;
  return `${reads} have not been recorded${since}. The operator can change this with SALLYPORT_AUDIT_READS.`;
}

/** A sentence for each gap, without duplicates. */
export function describeGaps(gaps: readonly LogGap[]): string[] {
  const shown = new Set(gaps.slice(0, maxGaps).map(describeGap));
  if (gaps.length > maxGaps) shown.add('There are more such periods. Choose a shorter one.');
  return [...shown];
}

export function Gaps({ gaps }: { gaps: readonly LogGap[] }) {
  if (gaps.length === 0) return null;
  return (
    <section className="notice gaps" aria-label="Missing entries">
      <Icon name="info" />
      <ul>
        {describeGaps(gaps).map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    </section>
  );
}
