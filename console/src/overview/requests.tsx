/** Panels of the overview: authenticated requests and their response times, as the service counts them. */
import type { RequestCounts } from '../../../sdk/src/sallyport.ts';
import { openPeriod } from '../activity/filters.tsx';
import { BarChart } from '../charts/bar-chart.tsx';
import {
  formatMilliseconds,
  requestBars,
  requestSeries,
  responseTimeBars,
  responseTimeSeries,
  responseTimes,
} from '../charts/request-counts.ts';
import type { Loaded } from '../frame/load.ts';
import { Panel } from './panels.tsx';

export function RequestPanels({ loaded }: { loaded: Pick<Loaded<RequestCounts>, 'data' | 'error'> }) {
  const counts = loaded.data;
  const hasRequests = counts !== undefined && counts.totals.requests > 0;
  const empty = counts && !hasRequests && (
    <p className="fine">No requests yet. New ones appear within a minute.</p>
  );
  return (
    <>
      <Panel title="Requests" loaded={loaded}>
        {empty}
        {hasRequests && (
          <BarChart title="Requests" bars={requestBars(counts)} series={requestSeries} pick={openPeriod} />
        )}
      </Panel>
      <Panel title="Response time" loaded={loaded}>
        {empty}
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
