/** Bar chart of successes and denials over time. */
import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { formatDate, formatNumber } from '../frame/format.ts';

export interface Bar {
  readonly from: number;
  readonly success: number;
  readonly denied: number;
}

const steps = [60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000];
const maxBars = 48;

/** Groups entries into at most `maxBars` bars of equal, round duration. Starts at the oldest loaded entry, unless `whole`. */
export function barsOf(entries: readonly LogEntry[], now: number, whole: boolean): Bar[] {
  const times = entries.map(({ at }) => Date.parse(at));
  const first = times.reduce((least, at) => Math.min(least, at), now);
  const step = steps.find((size) => (now - first) / size < maxBars) ?? (steps.at(-1) as number);
  const start = Math.floor((whole ? Math.min(first, now - 11 * step) : first) / step) * step;
  const bars = Array.from({ length: Math.floor((now - start) / step) + 1 }, (_, index) => ({
    from: start + index * step,
    success: 0,
    denied: 0,
  }));
  for (const [index, { result, count = 1 }] of entries.entries()) {
    const bar = bars[Math.floor(((times[index] as number) - start) / step)];
    if (bar) bar[result === 'success' ? 'success' : 'denied'] += count;
  }
  return bars.slice(-maxBars);
}

const height = 64;
const width = 10;
const gap = 3;

export function Chart({ bars }: { bars: readonly Bar[] }) {
  const highest = Math.max(1, ...bars.map((bar) => bar.success + bar.denied));
  const sum = (result: 'success' | 'denied') => bars.reduce((total, bar) => total + bar[result], 0);
  const title = `${formatNumber(sum('success'))} succeeded, ${formatNumber(sum('denied'))} denied`;
  return (
    <figure className="chart">
      <svg
        role="img"
        aria-label={title}
        viewBox={`0 0 ${bars.length * (width + gap) - gap} ${height}`}
        preserveAspectRatio="none"
      >
        {bars.map((bar, index) => (
          <Stack key={bar.from} bar={bar} x={index * (width + gap)} highest={highest} />
        ))}
      </svg>
      <figcaption>
        <span>{formatDate(new Date(bars[0]?.from ?? 0).toISOString())}</span>
        <span className="legend">
          <i className="dot dot-success" /> {formatNumber(sum('success'))} succeeded{' '}
          <i className="dot dot-denied" /> {formatNumber(sum('denied'))} denied
        </span>
        <span>now</span>
      </figcaption>
    </figure>
  );
}

function Stack({ bar, x, highest }: { bar: Bar; x: number; highest: number }) {
  let top = height;
  return (
    <g>
      <title>{`${formatDate(new Date(bar.from).toISOString())}: ${bar.success} succeeded, ${bar.denied} denied`}</title>
      <rect x={x} y={height - 1} width={width} height={1} className="bar-empty" />
      {(['success', 'denied'] as const).map((result) => {
        const size = bar[result] === 0 ? 0 : Math.max(2, (bar[result] / highest) * (height - 2));
        top -= size;
        return size > 0 ? (
          <rect key={result} x={x} y={top} width={width} height={size} className={`bar-${result}`} />
        ) : null;
      })}
    </g>
  );
}
