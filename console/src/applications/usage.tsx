/**
 * When the permissions of an application were last used, the requests with its keys, and its entries in the audit log
 * over time. Its unused grants are in advice.tsx.
 */
import { Button } from '@mantine/core';
import { useState } from 'react';
import type { Application, ApplicationUsage } from '../../../sdk/src/sallyport.ts';
import { openPeriod } from '../activity/filters.tsx';
import { BarChart } from '../charts/bar-chart.tsx';
import { NotCounted, resultBars, resultSeries } from '../charts/log-counts.tsx';
import { plural, timeAgo } from '../frame/format.ts';
import { useLoad, useNow } from '../frame/load.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { usageDelay } from './table.tsx';

const maxRows = 6;

export function Usage({ usage: { uses } }: { usage: ApplicationUsage }) {
  const now = useNow(30_000);
  const [limit, setLimit] = useState(maxRows);
  return (
    <section className="card">
      <h2>Usage</h2>
      {uses.length === 0 ? (
        <p className="fine">No recorded use. {usageDelay}</p>
      ) : (
        <ul className="uses">
          {uses.slice(0, limit).map(({ permission, container, last_used_at: at }) => (
            <li key={`${permission} ${container}`}>
              <code>{permission}</code> <span className="faint">{container}</span>
              <small>{timeAgo(at, now)}</small>
            </li>
          ))}
        </ul>
      )}
      {uses.length > limit && (
        <div className="foot">
          <span className="fine">
            The latest {limit} of {plural(uses.length, 'use')}
          </span>
          <Button variant="default" size="compact-xs" onClick={() => setLimit(uses.length)}>
            Show all
          </Button>
        </div>
      )}
    </section>
  );
}

const day = 86_400_000;
const month = 30 * day;
/** An application has at most three keys. */
const keyColors = ['success', 'p99', 'denied'];

export function KeyRequests({ id, usage: { keys } }: { id: string; usage: ApplicationUsage }) {
  const [opened] = useState(() => Date.now());
  const bars = Array.from({ length: 30 }, (_, at) => {
    const from = (Math.floor(opened / day) - 29 + at) * day;
    const date = new Date(from).toISOString().slice(0, 10);
    const values = keys.map(({ days }) => days.find((each) => each.date === date)?.requests ?? 0);
    return { from, to: from + day, values };
  });
  return (
    <>
      <h3>Requests by key, 30 days</h3>
      <BarChart
        title="Requests by key"
        bars={bars}
        series={keys.map(({ ending }, at) => ({ label: `with …${ending}`, color: keyColors[at] ?? '' }))}
        pick={(bar) => openPeriod(bar, { application: id })}
        note={
          <p className="fine">
            By day in UTC, with the requests of sessions that a key limits. Requests without the permission of
            the endpoint do not count. {usageDelay}
          </p>
        }
      />
    </>
  );
}

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
        bars={resultBars(data)}
        series={resultSeries(data)}
        pick={(bar) => openPeriod(bar, { application: id })}
        note={
          <>
            <p className="fine">Entries of its keys and sessions in the audit log.</p>
            <NotCounted {...data} />
          </>
        }
      />
    </section>
  );
}
