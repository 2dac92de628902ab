/** The audit log: a chart of the chosen period, and its entries. Or all that it says about a subject. */
import { Button } from '@mantine/core';
import { type ReactNode, useCallback, useMemo, useState } from 'react';
import type { LogEntry, LogGap } from '../../../sdk/src/sallyport.ts';
import { BarChart } from '../charts/bar-chart.tsx';
import { NotCounted, resultBars, resultSeries } from '../charts/log-counts.tsx';
import { Choice } from '../frame/choice.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useLiveUpdates, useLoad, useNow } from '../frame/load.ts';
import { usePaged } from '../frame/paged.ts';
import { useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { TableTools } from '../frame/table-tools.tsx';
import { Entry } from './entry.tsx';
import { defaults, FilterBar, type Filters, type Found, findInLog, isExact, logQuery } from './filters.tsx';
import { Gaps } from './gaps.tsx';
import { reasonOf } from './recorded-decision.tsx';
import { SubjectActivity } from './subject.tsx';

const pageSize = 100;
const isoTime = (time: number) => new Date(time).toISOString();

/** The service does not count entries by these filters. */
function isCountable(found: Found | undefined, { result }: Filters): boolean {
  return found !== undefined && !isExact(found) && found.entity === undefined && result !== 'changes';
}

function cellsOf(entry: LogEntry): string[] {
  const { at, result, operation, actor, entity, resource, decision, purpose = '', count = 1 } = entry;
  const ids = entity?.id ?? (resource?.ids ?? []).join(' ');
  const { name = '', email = '', subject: person = '' } = actor.person ?? {};
  const who = [actor.id ?? actor.kind, actor.application_id ?? '', name, email, person, actor.subject ?? ''];
  const what = [ids, resource?.container ?? '', decision?.transform ?? '', purpose, String(count)];
  return [at, result, operation, ...who, ...what, reasonOf(entry) ?? '', entry.request_id ?? ''];
}

const liveInterval = 2000;

/** The newest entries that match, read again and again while `isOn`. */
function useNewEntries(isOn: boolean, name: string, load: (signal: AbortSignal) => Promise<LogEntry[]>) {
  const { data, reload } = useLoad(`newest ${isOn} ${name}`, async (signal) => (isOn ? load(signal) : []));
  useLiveUpdates(
    useCallback(() => isOn && reload(), [isOn, reload]),
    liveInterval,
  );
  return data ?? [];
}

/** New entries come first. Loaded ones stay, also those that were read a second time. */
function withNew(added: readonly LogEntry[], loaded: readonly LogEntry[]): readonly LogEntry[] {
  const known = new Set(loaded.map(({ id }) => id));
  return [...added.filter(({ id }) => !known.has(id)), ...loaded];
}

const views = [
  ['log', 'Log'],
  ['subject', 'About a subject'],
] as const;

export function Activity() {
  const [{ view }, set] = useRouteQuery({ view: 'log' });
  const isSubject = view === 'subject';
  const choice = (
    <Choice
      label="View"
      value={isSubject ? 'subject' : 'log'}
      options={views}
      choose={(next) => set({ view: next })}
    />
  );
  return isSubject ? <SubjectActivity choice={choice} /> : <Log choice={choice} />;
}

function Log({ choice }: { choice: ReactNode }) {
  const { api } = useSignedIn();
  const now = useNow(30_000);
  const [filters, set] = useRouteQuery(defaults);
  const [opened, setOpened] = useState(() => Date.now());
  const refresh = () => setOpened(Date.now());
  const { data: found, error: unknown } = useLoad(`find ${filters.q}`, (signal) =>
    findInLog(api, filters.q, signal),
  );
  const countable = isCountable(found, filters);
  const query = found && logQuery(filters, found, opened);
  const name = `${JSON.stringify(query)} ${opened}`;
  // The API returns gaps with the first page only.
  const [gaps, setGaps] = useState<{ name: string; gaps: readonly LogGap[] }>();
  const counts = useLoad(`counts ${name}`, async (signal) =>
    countable ? api.logs.counts({ ...query, denials: 'true' }, { signal }) : undefined,
  );
  const entries = usePaged<LogEntry>(`logs ${name}`, async (start, signal) => {
    if (!query) return { data: [], next: undefined };
    const page = await api.logs.list({ ...query, size: pageSize, ...(start && { start }) }, { signal });
    if (!start && !signal.aborted) setGaps({ name, gaps: page.gaps ?? [] });
    return { data: page.data, next: page.pagination.next };
  });
  const added = useNewEntries(filters.live !== '' && query !== undefined, `logs ${name}`, (signal) =>
    api.logs.list({ ...query, size: pageSize }, { signal }).then(({ data }) => data),
  );
  const shown = withNew(added, entries.items);
  const bars = useMemo(() => counts.data && resultBars(counts.data), [counts.data]);
  const error = unknown ?? entries.error ?? counts.error;
  const isLoading = entries.loading || !query;
  const isWhole = !countable && !isLoading && !entries.more && error === undefined;
  const { success = 0, denied = 0, failed = 0 } = counts.data?.totals ?? {};
  const counted = counts.data && success + denied + failed;
  const total = counted ?? (isWhole ? entries.items.length : undefined);
  const denials = counts.data?.denials?.total ?? 0;
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Activity</h1>
          <p className="quiet" aria-live="polite">
            {total === undefined ? 'Changes, denials and data access' : plural(total, 'entry', 'entries')}
            {total !== undefined && denials > 0 && `, with ${plural(denials, 'denial')}`}
            {found &&
              isExact(found) &&
              ` of this ${found.id === undefined ? 'request' : 'address'}, in any period`}
          </p>
        </div>
        <div className="actions">
          {choice}
          <Button
            variant={filters.live === '' ? 'default' : 'light'}
            aria-pressed={filters.live !== ''}
            onClick={() => set({ live: filters.live === '' ? 'on' : '' }, 'replace')}
          >
            Live
          </Button>
          <Button variant="default" leftSection={<Icon name="rotate" size={14} />} onClick={refresh}>
            Refresh
          </Button>
        </div>
      </header>
      <FilterBar filters={filters} set={set} />
      {error !== undefined && <ErrorNotice error={error} retry={refresh} />}
      {error === undefined && (!found || countable) && (
        <section className="card activity-chart" aria-busy={!bars}>
          {counts.data && bars && (
            <BarChart
              title="Entries over time"
              bars={bars}
              series={resultSeries(counts.data)}
              pick={({ from, to }) => set({ period: 'custom', from: isoTime(from), to: isoTime(to) })}
              note={<NotCounted counted_from={counts.data.counted_from} denials={counts.data.denials} />}
            />
          )}
        </section>
      )}
      {gaps?.name === name && <Gaps gaps={gaps.gaps} />}
      {shown.length === 0 && !isLoading && error === undefined && (
        <div className="empty">
          <Icon name="activity" size={28} />
          <h2>No activity</h2>
          <p>
            {filters.q === ''
              ? 'No entries match these filters. Choose a longer period or remove a filter.'
              : 'No entries match. Denials are recorded within a second. If the same denial is repeated within a minute, only the entry of the first request has its ID.'}
          </p>
        </div>
      )}
      {shown.length > 0 && (
        <TableTools
          name="activity"
          head={[
            'Time',
            'Result',
            'Operation',
            'Actor',
            'Application',
            'Person',
            'Email',
            'Person ID',
            'Subject',
            'Object',
            'Container',
            'Transform',
            'Purpose',
            'Count',
            'Reason',
            'Request',
          ]}
          rows={() => shown.map(cellsOf)}
        />
      )}
      <ol className="timeline" aria-busy={isLoading}>
        {shown.map((entry) => (
          <Entry key={entry.id} entry={entry} now={now} isOpen={found !== undefined && isExact(found)} />
        ))}
      </ol>
      {isLoading && error === undefined && <p className="fine">Loading…</p>}
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
