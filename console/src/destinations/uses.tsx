/** The uses of a destination: their number per day, and the last ones with status and duration. */
import { useState } from 'react';
import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { Actor } from '../activity/actor.tsx';
import { openPeriod } from '../activity/filters.tsx';
import { BarChart } from '../charts/bar-chart.tsx';
import { NotCounted, resultBars, resultSeries } from '../charts/log-counts.tsx';
import { formatNumber, timeAgo } from '../frame/format.ts';
import { useLoad, useNow } from '../frame/load.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';

const month = 30 * 86_400_000;
const shown = 10;

export function Uses({ id }: { id: string }) {
  const signedIn = useSignedIn();
  const mayRead = holds(signedIn, 'log:read');
  const [opened] = useState(() => Date.now());
  const query = { destination: id, operation: 'token.use', from: new Date(opened - month).toISOString() };
  const { data } = useLoad(`uses ${id} ${mayRead}`, async (signal) =>
    mayRead ? signedIn.api.logs.counts(query, { signal }) : undefined,
  );
  if (!data) return null;
  const [, ...others] = resultSeries(data);
  return (
    <>
      <LastUses id={id} />
      <section className="card" aria-label="Uses">
        <h2>Uses, 30 days</h2>
        <BarChart
          title="Uses"
          bars={resultBars(data)}
          series={[{ label: 'requests, with any outcome', color: 'success' }, ...others]}
          pick={(bar) => openPeriod(bar, { operation: 'token.use' })}
          note={<NotCounted {...data} />}
        />
      </section>
    </>
  );
}

function LastUses({ id }: { id: string }) {
  const { api } = useSignedIn();
  const now = useNow(30_000);
  const { data } = useLoad(`last uses ${id}`, async (signal) => {
    const list = async (operation: string, size: number) =>
      (await api.logs.list({ destination: id, operation, size }, { signal })).data;
    const uses = await list('token.use', shown);
    // Outcomes arrive in another order than uses.
    return withOutcomes(uses, uses.length === 0 ? [] : await list('token.use.outcome', 10 * shown));
  });
  if (!data || data.length === 0) return null;
  return (
    <section className="card" aria-label="Last uses">
      <h2>Last uses</h2>
      <ul className="granted">
        {data.map(({ entry, outcome }) => (
          <li key={entry.id}>
            <code>
              {entry.use?.method} {entry.use?.path}
            </code>
            <span className="fine">
              {outcomeText(entry, outcome)} · <Actor actor={entry.actor} /> · {timeAgo(entry.at, now)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export interface UseWithOutcome {
  readonly entry: LogEntry;
  readonly outcome: LogEntry | undefined;
}

/**
 * Both lists are newest first. Callers choose request ids and can repeat them, so the oldest use gets the oldest outcome
 * after it, of the same caller.
 */
export function withOutcomes(uses: readonly LogEntry[], outcomes: readonly LogEntry[]): UseWithOutcome[] {
  const left = [...outcomes].reverse();
  const pairs = [...uses].reverse().map((entry) => {
    const at = left.findIndex(
      (one) =>
        one.request_id === entry.request_id &&
        one.actor.id === entry.actor.id &&
        one.use?.path === entry.use?.path &&
        one.at >= entry.at,
    );
    return { entry, outcome: at < 0 ? undefined : left.splice(at, 1)[0] };
  });
  return pairs.reverse();
}

/** Such as `200 in 132 ms`. The entry of the request itself says only that it was allowed. */
export function outcomeText(entry: LogEntry, outcome: LogEntry | undefined): string {
  if (entry.result !== 'success') return `not sent: ${entry.reason ?? entry.result}`;
  if (!outcome) return 'no outcome recorded';
  const { use, reason } = outcome;
  const status = [use?.status ?? 'no reply', ...(reason ? [reason] : [])].join(', ');
  return `${status} in ${formatNumber(Date.parse(outcome.at) - Date.parse(entry.at))} ms`;
}
