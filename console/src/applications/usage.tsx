/**
 * When the permissions of an application were last used, and its entries in the audit log over time. Its unused grants
 * are in advice.tsx.
 */
import { useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { openPeriod } from '../activity/filters.tsx';
import { BarChart } from '../charts/bar-chart.tsx';
import { barsOf, resultSeries } from '../charts/log-counts.tsx';
import { timeAgo } from '../frame/format.ts';
import { useLoad, useNow } from '../frame/load.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { usageDelay } from './table.tsx';

const maxRows = 6;

export function Usage({ application: { id } }: { application: Application }) {
  const { api } = useSignedIn();
  const now = useNow(30_000);
  const { data } = useLoad(`usage ${id}`, (signal) => api.applications.usage(id, { signal }));
  if (!data) return null;
  const { uses } = data;
  return (
    <section className="card">
      <h2>Usage</h2>
      {uses.length === 0 ? (
        <p className="fine">No recorded use. {usageDelay}</p>
      ) : (
        <ul className="uses">
          {uses.slice(0, maxRows).map(({ permission, container, last_used_at: at }) => (
            <li key={`${permission} ${container}`}>
              <code>{permission}</code> <span className="faint">{container}</span>
              <small>{timeAgo(at, now)}</small>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const month = 30 * 86_400_000;

/** The service counts requests by tenant, not by key. So this shows what the audit log recorded. */
export function RecordedActivity({ application: { id } }: { application: Application }) {
  const signedIn = useSignedIn();
  const mayRead = holds(signedIn, 'log:read');
  const [opened] = useState(() => Date.now());
  const from = new Date(opened - month).toISOString();
  const { data } = useLoad(`activity ${id} ${mayRead}`, async (signal) =>
    mayRead ? signedIn.api.logs.counts({ actor: id, from }, { signal }) : undefined,
  );
  if (!data) return null;
  return (
    <section className="card">
      <h2>Recorded activity, 30 days</h2>
      <BarChart
        title="Recorded activity"
        bars={barsOf(data, 'entries')}
        series={resultSeries}
        pick={(bar) => openPeriod(bar, { application: id })}
        note={
          <p className="fine">
            Entries of its keys and sessions in the audit log, which does not record every read. For each key,
            the last use is known.
          </p>
        }
      />
    </section>
  );
}
