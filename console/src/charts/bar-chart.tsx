/** Bars over time as SVG, and a table with the same numbers. The arrow keys move between the bars. */
import { type KeyboardEvent, type ReactNode, useState } from 'react';
import { formatDate, formatNumber, formatPeriod, formatTime, timeZoneAt } from '../frame/format.ts';
import { TableTools } from '../frame/table-tools.tsx';
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
  /** The values in the legend while no bar is chosen. Their sums by default. */
  readonly summary?: readonly number[] | undefined;
  readonly format?: (value: number) => string;
  /** Draws the series in front of each other instead of stacked. Each value is at least as high as the one before. */
  readonly isLayered?: boolean;
}

const [width, gap, height] = [10, 2, 100];
const isoTime = (time: number) => new Date(time).toISOString();

const totalOf = ({ values }: Bar) => values.reduce((sum, value) => sum + value, 0);
const highestOf = ({ values }: Bar) => Math.max(...values);

export function BarChart({
  title,
  bars,
  series,
  pick,
  note,
  summary,
  format = formatNumber,
  isLayered = false,
}: Props) {
  const [active, setActive] = useState<number>();
  const highest = Math.max(1, ...bars.map(isLayered ? highestOf : totalOf));
  const totals =
    summary ?? series.map((_, index) => bars.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
  const describe = (values: readonly number[]) =>
    series.map(({ label }, index) => `${format(values[index] ?? 0)} ${label}`).join(', ');
  const bar = active === undefined ? undefined : bars[active];
  const end = bars.at(-1)?.to;
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
              <i className={`dot dot-${color}`} /> {format((bar?.values ?? totals)[index] ?? 0)} {label}
            </span>
          ))}
        </span>
        <span className="bar-chart-period">{bar && formatPeriod(bar)}</span>
      </figcaption>
      <div className="plot">
        <span className="plot-scale" aria-hidden="true">
          {totals.some((total) => total > 0) && format(highest)}
        </span>
        <div
          className={pick ? 'plot-area plot-pick' : 'plot-area'}
          role="slider"
          tabIndex={0}
          aria-label={title}
          aria-valuemin={0}
          aria-valuemax={Math.max(0, bars.length - 1)}
          aria-valuenow={active ?? 0}
          aria-valuetext={bar ? `${formatPeriod(bar)}: ${describe(bar.values)}` : describe(totals)}
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
              <BarParts
                key={each.from}
                bar={each}
                series={series}
                x={index * (width + gap)}
                highest={highest}
                isLayered={isLayered}
                active={index === active}
              />
            ))}
          </svg>
        </div>
      </div>
      <div className="plot-axis" aria-hidden="true">
        <span>{bars[0] && formatTime(bars[0].from)}</span>
        <span>{bars.length > 2 && formatTime((bars[Math.floor(bars.length / 2)] as Bar).from)}</span>
        <span>{end !== undefined && `${formatTime(end)} ${timeZoneAt(end)}`}</span>
      </div>
      {note}
      <details className="chart-table">
        <summary>Show as table</summary>
        <TableTools
          name={title.toLowerCase().replaceAll(' ', '-')}
          head={['From', 'To', ...series.map(({ label }) => label)]}
          rows={() => bars.map((each) => [isoTime(each.from), isoTime(each.to), ...each.values.map(String)])}
        />
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
                    <td key={label}>{format(each.values[index] ?? 0)}</td>
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

interface BarPartsProps {
  readonly bar: Bar;
  readonly series: readonly Series[];
  readonly x: number;
  readonly highest: number;
  readonly isLayered: boolean;
  readonly active: boolean;
}

function BarParts({ bar, series, x, highest, isLayered, active }: BarPartsProps) {
  let top = height - 1;
  const parts = series.map(({ color }, index) => {
    const value = bar.values[index] ?? 0;
    const size = value === 0 ? 0 : Math.max(2, (value / highest) * (height - 4));
    if (!isLayered) top -= size;
    return { color, size, y: isLayered ? height - 1 - size : top };
  });
  // The last layer is the highest, so it is drawn first.
  if (isLayered) parts.reverse();
  return (
    <g>
      {active && <rect className="bar-active" x={x - gap / 2} y={0} width={width + gap} height={height} />}
      <rect className="bar-empty" x={x} y={height - 1} width={width} height={1} />
      {parts.map(
        ({ color, size, y }) =>
          size > 0 && <rect key={color} className={`bar-${color}`} x={x} y={y} width={width} height={size} />,
      )}
    </g>
  );
}
