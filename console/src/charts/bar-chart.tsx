/** Stacked bars over time as SVG, and a table with the same numbers. The arrow keys move between the bars. */
import { type KeyboardEvent, type ReactNode, useState } from 'react';
import { formatDate, formatNumber, formatTime } from '../frame/format.ts';
import { Scrollable } from './scrollable.tsx';

export interface Bar {
  readonly from: number;
  readonly to: number;
  /** One number for each series. */
  readonly values: readonly number[];
}

export interface Series {
  /** Follows the number, as in `12 denied`. */
  readonly label: string;
  /** The name of a color in charts.css, such as `denied`. */
  readonly color: string;
}

interface Props {
  readonly title: string;
  readonly bars: readonly Bar[];
  readonly series: readonly Series[];
  /** Called when a bar is clicked, or chosen with Enter. */
  readonly pick?: ((bar: Bar) => void) | undefined;
  readonly note?: ReactNode;
}

const [width, gap, height] = [10, 2, 100];

const totalOf = ({ values }: Bar) => values.reduce((sum, value) => sum + value, 0);

function describe(values: readonly number[], series: readonly Series[]): string {
  return series.map(({ label }, index) => `${formatNumber(values[index] ?? 0)} ${label}`).join(', ');
}

/** `15 Nov, 14:00 – 15:00`. The second date is shown only if it is another day. */
export function periodLabel({ from, to }: Pick<Bar, 'from' | 'to'>): string {
  const [start, end] = [formatTime(from), formatTime(to)];
  const [day, time] = end.split(', ') as [string, string?];
  return start.startsWith(`${day}, `) && time ? `${start} – ${time}` : `${start} – ${end}`;
}

export function BarChart({ title, bars, series, pick, note }: Props) {
  const [active, setActive] = useState<number>();
  const highest = Math.max(1, ...bars.map(totalOf));
  const totals = series.map((_, index) => bars.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
  const bar = active === undefined ? undefined : bars[active];
  const pressed = (event: KeyboardEvent) => {
    const last = bars.length - 1;
    const next = {
      ArrowRight: Math.min(last, (active ?? -1) + 1),
      ArrowLeft: Math.max(0, (active ?? bars.length) - 1),
      Home: 0,
      End: last,
    }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      setActive(next);
    }
    if (event.key === 'Enter' && bar) pick?.(bar);
  };
  const at = (event: { currentTarget: Element; clientX: number }) => {
    const { left, width: wide } = event.currentTarget.getBoundingClientRect();
    return Math.max(0, Math.min(bars.length - 1, Math.floor(((event.clientX - left) / wide) * bars.length)));
  };
  return (
    <figure className="bar-chart">
      <figcaption>
        <span className="legend">
          {series.map(({ label, color }, index) => (
            <span key={label}>
              <i className={`dot dot-${color}`} /> {formatNumber((bar?.values ?? totals)[index] ?? 0)} {label}
            </span>
          ))}
        </span>
        <span className="bar-chart-period">{bar && periodLabel(bar)}</span>
      </figcaption>
      <div className="plot">
        <span className="plot-scale" aria-hidden="true">
          {totals.some((total) => total > 0) && formatNumber(highest)}
        </span>
        <div
          className={pick ? 'plot-area plot-pick' : 'plot-area'}
          role="slider"
          tabIndex={0}
          aria-label={title}
          aria-valuemin={0}
          aria-valuemax={Math.max(0, bars.length - 1)}
          aria-valuenow={active ?? 0}
          aria-valuetext={
            bar ? `${periodLabel(bar)}: ${describe(bar.values, series)}` : describe(totals, series)
          }
          onKeyDown={pressed}
          onBlur={() => setActive(undefined)}
          onMouseMove={(event) => setActive(at(event))}
          onMouseLeave={() => setActive(undefined)}
          onClick={(event) => pick?.(bars[at(event)] as Bar)}
        >
          <svg
            viewBox={`0 0 ${bars.length * (width + gap)} ${height}`}
            preserveAspectRatio="none"
            aria-hidden="true"
          >
            {bars.map((each, index) => (
              <Stack
                key={each.from}
                bar={each}
                series={series}
                x={index * (width + gap)}
                highest={highest}
                active={index === active}
              />
            ))}
          </svg>
        </div>
      </div>
      <div className="plot-axis" aria-hidden="true">
        <span>{bars[0] && formatTime(bars[0].from)}</span>
        <span>{bars.length > 2 && formatTime((bars[Math.floor(bars.length / 2)] as Bar).from)}</span>
        <span>{bars.length > 0 && formatTime((bars.at(-1) as Bar).to)}</span>
      </div>
      {note}
      <details className="chart-table">
        <summary>Show as table</summary>
        <Scrollable label={`${title} as table`}>
          <table>
            <thead>
              <tr>
                <th scope="col">From</th>
                {series.map(({ label }) => (
                  <th key={label} scope="col">
                    {label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {bars.filter(totalOf).map((each) => (
                <tr key={each.from}>
                  <th scope="row">{formatDate(new Date(each.from).toISOString())}</th>
                  {series.map(({ label }, index) => (
                    <td key={label}>{formatNumber(each.values[index] ?? 0)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Scrollable>
      </details>
    </figure>
  );
}

interface StackProps {
  readonly bar: Bar;
  readonly series: readonly Series[];
  readonly x: number;
  readonly highest: number;
  readonly active: boolean;
}

function Stack({ bar, series, x, highest, active }: StackProps) {
  let top = height - 1;
  return (
    <g>
      {active && <rect className="bar-active" x={x - gap / 2} y={0} width={width + gap} height={height} />}
      <rect className="bar-empty" x={x} y={height - 1} width={width} height={1} />
      {series.map(({ label, color }, index) => {
        const value = bar.values[index] ?? 0;
        if (value === 0) return null;
        const size = Math.max(2, (value / highest) * (height - 4));
        top -= size;
        return <rect key={label} className={`bar-${color}`} x={x} y={top} width={width} height={size} />;
      })}
    </g>
  );
}
