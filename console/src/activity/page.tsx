/** The audit log: a chart of the chosen period, and its entries. */
import { Button } from '@mantine/core';
import { useMemo, useState } from 'react';
import type { LogEntry, LogGap } from '../../../sdk/src/sallyport.ts';
import { BarChart } from '../charts/bar-chart.tsx';
import { barsOf, resultSeries } from '../charts/log-counts.ts';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatDate, formatNumber, plural } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useLoad, useNow } from '../frame/load.ts';
import { usePaged } from '../frame/paged.ts';
import { useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { Entry } from './entry.tsx';
import { defaults, FilterBar, logQuery } from './filters.tsx';
import { Gaps } from './gaps.tsx';

const pageSize = 100;
const isoTime = (time: number) => new Date(time).toISOString();

export function Activity() {
  const { api } = useSignedIn();
  const now = useNow(30_000);
  const [filters, set] = useRouteQuery(defaults);
  const [opened, setOpened] = useState(() => Date.now());
  const query = logQuery(filters, opened);
  const name = `${JSON.stringify(query)} ${opened}`;
  // The API returns gaps with the first page only.
  const [gaps, setGaps] = useState<{ name: string; gaps: readonly LogGap[] }>();
  const counts = useLoad(`counts ${name}`, (signal) => api.logs.counts(query, { signal }));
  const entries = usePaged<LogEntry>(`logs ${name}`, async (start, signal) => {
    const page = await api.logs.list({ ...query, size: pageSize, ...(start && { start }) }, { signal });
    if (!start && !signal.aborted) setGaps({ name, gaps: page.gaps ?? [] });
    return { data: page.data, next: page.pagination.next };
  });
  const bars = useMemo(() => counts.data && barsOf(counts.data), [counts.data]);
  const error = entries.error ?? counts.error;
  const total = counts.data && counts.data.totals.success + counts.data.totals.denied;
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Activity</h1>
          <p className="quiet" aria-live="polite">
            {total === undefined ? 'Changes, denials and data access' : plural(total, 'entry', 'entries')}
          </p>
        </div>
        <Button
          variant="default"
          leftSection={<Icon name="rotate" size={14} />}
          onClick={() => setOpened(Date.now())}
        >
          Refresh
        </Button>
      </header>
      <FilterBar filters={filters} set={set} />
      {error !== undefined && <ErrorNotice error={error} retry={() => setOpened(Date.now())} />}
      {error === undefined && (
        <section className="card activity-chart" aria-busy={!bars}>
          {bars && (
            <BarChart
              title="Entries over time"
              bars={bars}
              series={resultSeries}
              pick={({ from, to }) => set({ period: 'custom', from: isoTime(from), to: isoTime(to) })}
              note={
                counts.data?.counted_from !== undefined && (
                  <p className="fine">
                    Too many entries to count: those before {formatDate(counts.data.counted_from)} are left
                    out.
                  </p>
                )
              }
            />
          )}
        </section>
      )}
      {gaps?.name === name && <Gaps gaps={gaps.gaps} />}
      {entries.items.length === 0 && !entries.loading && entries.error === undefined && (
        <div className="empty">
          <Icon name="activity" size={28} />
          <h2>No activity</h2>
          <p>No entries match these filters. Choose a longer period or remove a filter.</p>
        </div>
      )}
      <ol className="timeline" aria-busy={entries.loading}>
        {entries.items.map((entry) => (
          <Entry key={entry.id} entry={entry} now={now} />
        ))}
      </ol>
      {entries.loading && <p className="fine">Loading…</p>}
      {entries.more && (
        <div className="foot">
          <span className="fine">
            {formatNumber(entries.items.length)}
            {total !== undefined && ` of ${formatNumber(total)}`} entries loaded
          </span>
          <Button variant="default" onClick={entries.more}>
            Load more
          </Button>
        </div>
      )}
    </div>
  );
}
