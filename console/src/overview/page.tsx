/** The overview: recent activity, risks, and next steps. */
import { useState } from 'react';
import type { RequestCounts } from '../../../sdk/src/sallyport.ts';
import { useApplications } from '../applications/application-store.ts';
import { BarChart } from '../charts/bar-chart.tsx';
import { barsOf, resultSeries } from '../charts/log-counts.ts';
import { Choice } from '../frame/choice.tsx';
import { formatNumber } from '../frame/format.ts';
import { useLiveUpdates, useLoad, useNow } from '../frame/load.ts';
import { href, useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { AccessMap } from './access-map.tsx';
import { Checklist } from './checklist.tsx';
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
  { label: 'denied', color: 'denied' },
];

export function Overview() {
  const { api } = useSignedIn();
  const [{ period }, set] = useRouteQuery({ period: '7d' });
  const [opened] = useState(() => Date.now());
  const length = periods.find(([value]) => value === period)?.[2] ?? 7 * day;
  const from = new Date(opened - length).toISOString();
  const requests = useLoad(`requests ${from}`, (signal) => api.requests.counts({ from }, { signal }));
  useLiveUpdates(requests.reload, 60_000);
  const all = useLoad(`counts ${from}`, (signal) => api.logs.counts({ from }, { signal }));
  const sessions = useLoad(`authorized ${from}`, (signal) =>
    api.logs.counts({ from, operation: 'session.authorize' }, { signal }),
  );
  const inActivity = (query: Record<string, string>) => `${href('activity')}?${new URLSearchParams(query)}`;
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
          options={periods.map(([value, label]) => [value, label])}
          choose={(value) => set({ period: value })}
        />
      </header>
      <Checklist />
      <Tiles denied={all.data?.totals.denied} requests={requests.data?.totals} period={period} />
      <div className="panels">
        <RequestPanels loaded={requests} />
        <Panel title="Audit log entries" link={['Activity', inActivity({ period })]} loaded={all}>
          {all.data && (
            <BarChart
              title="Audit log entries"
              bars={barsOf(all.data)}
              series={resultSeries}
              pick={(bar) => openPeriod(bar)}
            />
          )}
        </Panel>
        <Panel
          title="Authorizations of sessions"
          link={['Activity', inActivity({ period, operation: 'session.authorize' })]}
          loaded={sessions}
        >
          {sessions.data && (
            <BarChart
              title="Authorizations of sessions"
              bars={barsOf(sessions.data)}
              series={authorizations}
              pick={(bar) => openPeriod(bar, 'session.authorize')}
            />
          )}
        </Panel>
      </div>
      <div className="panels panels-3">
        <MostDenied from={from} />
        <Expiries />
        <UnusedGrants />
      </div>
      <AccessMap />
    </div>
  );
}

function openPeriod({ from, to }: { from: number; to: number }, operation?: string): void {
  const times = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  const query = new URLSearchParams({ period: 'custom', ...times, ...(operation && { operation }) });
  location.hash = `${href('activity')}?${query}`;
}

function useSessionCount(state: 'active' | 'pending') {
  const { api } = useSignedIn();
  return useLoad(`${state} sessions`, async (signal) => {
    const { data, pagination } = await api.sessions.list({ state, size: 1 }, { signal });
    return pagination.total_items ?? (data.length === 0 ? 0 : undefined);
  }).data;
}

interface TilesProps {
  readonly denied: number | undefined;
  readonly requests: RequestCounts['totals'] | undefined;
  readonly period: string;
}

function Tiles({ denied, requests, period }: TilesProps) {
  const { list, complete, error } = useApplications(useSignedIn().applications);
  const isKnown = complete && error === undefined;
  const now = useNow(60_000);
  const [active, pending] = [useSessionCount('active'), useSessionCount('pending')];
  const quarantined = list.filter(({ quarantined_at }) => quarantined_at !== undefined).length;
  const expiring = expiriesOf(list, now, 0).counts;
  const soon = (expiring[1] ?? 0) + (expiring[2] ?? 0);
  const denials = `${href('activity')}?${new URLSearchParams({ result: 'denied', period })}`;
  return (
    <ul className="tiles">
      <Tile
        label="Applications"
        to={href('applications')}
        value={isKnown ? list.length : undefined}
        note={quarantined > 0 ? `${formatNumber(quarantined)} in quarantine` : undefined}
      />
      <Tile
        label="Active sessions"
        to={href('sessions')}
        value={active}
        note={pending ? `${formatNumber(pending)} pending` : undefined}
      />
      <Tile label="Denied" to={denials} value={denied} note="entries in the audit log" />
      <Tile
        label="Expire within 7 days"
        to={href('applications')}
        value={isKnown ? soon : undefined}
        note={soon > 0 ? 'applications' : undefined}
      />
      <ResponseTimeTile totals={requests} />
    </ul>
  );
}

interface TileProps {
  readonly label: string;
  readonly to: string;
  readonly value: number | undefined;
  readonly note?: string | undefined;
}

function Tile({ label, to, value, note }: TileProps) {
  return (
    <li>
      <a className="tile" href={to}>
        <span className="tile-label">{label}</span>
        <strong>{value === undefined ? '–' : formatNumber(value)}</strong>
        <span className="fine">{note}</span>
      </a>
    </li>
  );
}
