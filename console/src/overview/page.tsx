/** The overview: recent activity, risks, and next steps. */
import { useState } from 'react';
import type { LogCounts, RequestCounts } from '../../../sdk/src/sallyport.ts';
import { openPeriod } from '../activity/filters.tsx';
import { maxNewest, useNewestApplications } from '../applications/application-store.ts';
import { BarChart } from '../charts/bar-chart.tsx';
import { denialBars, denialSeries, NotCounted, successAndDenialBars } from '../charts/log-counts.tsx';
import { Choice } from '../frame/choice.tsx';
import { formatNumber } from '../frame/format.ts';
import { useLiveUpdates, useLoad, useNow } from '../frame/load.ts';
import { href, useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { isTime, TimeInput } from '../frame/time-input.tsx';
import { AccessMap } from './access-map.tsx';
import { Checklist } from './checklist.tsx';
import { type Expiring, useExpiring } from './expiring.ts';
import { Expiries, MostDenied, Panel } from './panels.tsx';
import { RequestPanels, ResponseTimeTile } from './requests.tsx';
import { expiriesOf } from './summaries.ts';
import { UnusedGrants } from './unused-grants.tsx';

const day = 86_400_000;
const periods: readonly (readonly [value: string, label: string, length: number])[] = [
  ['1d', '1 day', day],
  ['7d', '7 days', 7 * day],
  ['30d', '30 days', 30 * day],
];
const authorizations = [
  { label: 'authorized', color: 'success' },
  { label: 'denials', color: 'denied' },
];

export function Overview() {
  const { api } = useSignedIn();
  const expiring = useExpiring();
  const [{ period, from: start, to: end }, set] = useRouteQuery({ period: '7d', from: '', to: '' });
  const [opened] = useState(() => Date.now());
  const length = periods.find(([value]) => value === period)?.[2] ?? 7 * day;
  const isCustom = period === 'custom' && isTime(start);
  const times = {
    from: isCustom ? start : new Date(opened - length).toISOString(),
    ...(isCustom && isTime(end) && { to: end }),
  };
  const name = JSON.stringify(times);
  const requests = useLoad(`requests ${name}`, (signal) => api.requests.counts(times, { signal }));
  useLiveUpdates(requests.reload, 60_000);
  const denials = useLoad(`denials ${name}`, (signal) =>
    api.logs.counts({ ...times, result: 'denied', denials: 'true' }, { signal }),
  );
  const sessions = useLoad(`authorized ${name}`, (signal) =>
    api.logs.counts({ ...times, operation: 'session.authorize', denials: 'true' }, { signal }),
  );
  const shown = isCustom ? { period, ...times } : { period: period === 'custom' ? '7d' : period };
  const inActivity = (query: Record<string, string>) =>
    `${href('activity')}?${new URLSearchParams({ ...shown, ...query })}`;
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Overview</h1>
          <p className="quiet">Activity, risk and access in this tenant</p>
        </div>
        <Choice
          label="Period"
          value={period}
          options={[...periods.map(([value, label]) => [value, label] as const), ['custom', 'Custom']]}
          choose={(value) =>
            set(value === 'custom' ? { period: value } : { period: value, from: '', to: '' })
          }
        />
        {period === 'custom' && (
          <div className="tools-line">
            <TimeInput label="From" value={start} change={(from) => set({ from })} />
            <TimeInput label="To" value={end} change={(to) => set({ to })} />
          </div>
        )}
      </header>
      <Checklist />
      <Tiles
        denials={denials.data}
        requests={requests.data?.totals}
        expiring={expiring}
        denied={inActivity({ result: 'denied' })}
      />
      <div className="panels">
        <RequestPanels loaded={requests} period={times} now={opened} />
        <Panel title="Denials" link={['Activity', inActivity({ result: 'denied' })]} loaded={denials}>
          {denials.data && (
            <BarChart
              title="Denials"
              bars={denialBars(denials.data)}
              series={denialSeries}
              pick={(bar) => openPeriod(bar, { result: 'denied' })}
              note={<NotCounted denials={denials.data.denials} gaps={denials.data.gaps} />}
            />
          )}
        </Panel>
        <Panel
          title="Authorizations of sessions"
          link={['Activity', inActivity({ operation: 'session.authorize' })]}
          loaded={sessions}
        >
          {sessions.data && (
            <BarChart
              title="Authorizations of sessions"
              bars={successAndDenialBars(sessions.data)}
              series={authorizations}
              pick={(bar) => openPeriod(bar, { operation: 'session.authorize' })}
              note={<NotCounted {...sessions.data} />}
            />
          )}
        </Panel>
      </div>
      <div className="panels panels-3">
        <MostDenied loaded={denials} inActivity={inActivity} />
        <Expiries expiring={expiring} />
        <UnusedGrants />
      </div>
      <AccessMap />
    </div>
  );
}

function useSessionCount(state: 'active' | 'pending') {
  const { api } = useSignedIn();
  return useLoad(`${state} sessions`, async (signal) => {
    const { data, pagination } = await api.sessions.list({ state, size: 1 }, { signal });
    return pagination.total_items ?? (data.length === 0 ? 0 : undefined);
  }).data;
}

interface TilesProps {
  readonly denials: LogCounts | undefined;
  readonly requests: RequestCounts['totals'] | undefined;
  readonly expiring: Expiring;
  readonly denied: string;
}

/** A text if the service does not count so many. */
function useApplicationCount(): number | string | undefined {
  const { api, applications } = useSignedIn();
  const { list, complete, hasMore, error } = useNewestApplications(applications);
  const total = useLoad(`applications ${hasMore}`, async (signal) => {
    if (!hasMore) return undefined;
    const { pagination } = await api.applications.list({ page: 1, size: 1 }, { signal });
    return pagination.total_items ?? `${formatNumber(maxNewest)}+`;
  }).data;
  if (hasMore) return total;
  return complete && error === undefined ? list.length : undefined;
}

function Tiles({ denials, requests, expiring, denied }: TilesProps) {
  const { list, hasMore } = useNewestApplications(useSignedIn().applications);
  const applications = useApplicationCount();
  const now = useNow(60_000);
  const [active, pending] = [useSessionCount('active'), useSessionCount('pending')];
  const quarantined = list.filter(({ quarantined_at }) => quarantined_at !== undefined).length;
  const expiries = expiring.counts ?? expiriesOf(expiring.list, now, 0).counts;
  const isWhole = denials?.denials?.counted_from === undefined && denials?.gaps === undefined;
  const soon = (expiries[1] ?? 0) + (expiries[2] ?? 0);
  // The service does not count if there are too many applications.
  const isEstimate = expiring.hasMore && !expiring.counts;
  return (
    <ul className="tiles">
      <Tile
        label="Applications"
        to={href('applications')}
        value={applications}
        note={quarantined > 0 && !hasMore ? `${formatNumber(quarantined)} in quarantine` : undefined}
      />
      <Tile
        label="Active sessions"
        to={href('sessions')}
        value={active}
        note={pending ? `${formatNumber(pending)} pending` : undefined}
      />
      <Tile
        label="Denials"
        to={denied}
        value={denials?.denials?.total}
        note={isWhole ? 'requests in the period' : 'requests, not all counted'}
      />
      <Tile
        label="Expire within 7 days"
        to={href('applications')}
        value={expiring.complete && expiring.error === undefined ? soon : undefined}
        note={isEstimate ? `of the newest ${formatNumber(maxNewest)}` : soon > 0 ? 'applications' : undefined}
      />
      <ResponseTimeTile totals={requests} />
    </ul>
  );
}

interface TileProps {
  readonly label: string;
  readonly to: string;
  readonly value: number | string | undefined;
  readonly note?: string | undefined;
}

function Tile({ label, to, value, note }: TileProps) {
  return (
    <li>
      <a className="tile" href={to}>
        <span className="tile-label">{label}</span>
        <strong>{typeof value === 'number' ? formatNumber(value) : (value ?? '–')}</strong>
        <span className="fine">{note}</span>
      </a>
    </li>
  );
}
