/** Panels of the overview: authenticated requests and their response times, as the service counts them. */
import type { RequestCounts } from '../../../sdk/src/sallyport.ts';
import { openPeriod } from '../activity/filters.tsx';
import { BarChart } from '../charts/bar-chart.tsx';
import {
  describeMissing,
  formatMilliseconds,
  requestBars,
  requestSeries,
  responseTimeBars,
  responseTimeSeries,
  responseTimes,
} from '../charts/request-counts.ts';
import type { Loaded } from '../frame/load.ts';
import { Panel } from './panels.tsx';

interface RequestPanelsProps {
  readonly loaded: Pick<Loaded<RequestCounts>, 'data' | 'error'>;
  readonly period: { readonly from: string; readonly to?: string };
  readonly now: number;
}

export function RequestPanels({ loaded, period, now }: RequestPanelsProps) {
  const counts = loaded.data;
  const hasRequests = counts !== undefined && counts.totals.requests > 0;
  const missing = counts ? describeMissing(period, now, counts.totals) : '';
  const note = missing !== '' && <p className="fine">{missing}</p>;
  return (
    <>
      <Panel title="Requests" loaded={loaded}>
        {hasRequests && (
          <BarChart title="Requests" bars={requestBars(counts)} series={requestSeries} pick={openPeriod} />
        )}
        {note}
      </Panel>
      <Panel title="Response time" loaded={loaded}>
        {hasRequests && (
          <BarChart
            title="Response time"
            bars={responseTimeBars(counts)}
            series={responseTimeSeries}
            summary={responseTimes(counts.totals)}
            format={formatMilliseconds}
            pick={openPeriod}
            isLayered
          />
        )}
        {note}
      </Panel>
    </>
  );
}

export function ResponseTimeTile({ totals }: { totals: RequestCounts['totals'] | undefined }) {
  const [p50, p99] = totals ? responseTimes(totals) : [0, 0];
  return (
    <li>
      <div className="tile" title="All authenticated requests in the period, measured by the service">
        <span className="tile-label">Response time</span>
        <strong>{formatMilliseconds(p50)}</strong>
        <span className="fine">{p99 > 0 && `median; 99 % within ${formatMilliseconds(p99)}`}</span>
      </div>
    </li>
  );
}
