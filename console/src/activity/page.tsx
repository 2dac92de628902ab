/** The audit log as a timeline. */
import { Button, Select, TextInput } from '@mantine/core';
import { useDeferredValue, useMemo, useState } from 'react';
import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { Icon } from '../frame/icons.tsx';
import { useLoad, useNow } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { barsOf, Chart } from './chart.tsx';
import { Entry } from './entry.tsx';

const pageSize = 200;
type Result = 'all' | LogEntry['result'];
const results: readonly [Result, string][] = [
  ['all', 'All'],
  ['success', 'Succeeded'],
  ['denied', 'Denied'],
];
const periods: readonly [label: string, hours: number][] = [
  ['1 hour', 1],
  ['1 day', 24],
  ['7 days', 168],
  ['All time', 0],
];
const operations = [
  'application.create',
  'application.read',
  'application.update',
  'application.delete',
  'session.create',
  'session.authorize',
  'session.delete',
  'token.create',
  'token.read',
  'token.update',
  'token.delete',
];

function useEntries(query: object, limit: number, attempt: number) {
  const { api } = useSignedIn();
  return useLoad(`logs ${JSON.stringify(query)} ${limit} ${attempt}`, async (signal) => {
    const entries: LogEntry[] = [];
    for await (const entry of api.logs.all(query, { signal })) {
      if (entries.length === limit) return { entries, more: true };
      entries.push(entry);
    }
    return { entries, more: false };
  });
}

export function Activity() {
  const now = useNow(30_000);
  const [result, setResult] = useState<Result>('all');
  const [hours, setHours] = useState(168);
  const [operation, setOperation] = useState<string | null>(null);
  const [actorId, setActorId] = useState('');
  const [limit, setLimit] = useState(pageSize);
  const [attempt, setAttempt] = useState(0);
  const id = useDeferredValue(/^[0-9a-f-]{36}$/i.test(actorId.trim()) ? actorId.trim() : '');
  const [opened] = useState(() => Date.now());
  const query = useMemo(
    () => ({
      ...(result !== 'all' && { result }),
      ...(hours > 0 && { from: new Date(opened - hours * 3_600_000).toISOString() }),
      ...(operation && { operation }),
      ...(id && { actor: id }),
    }),
    [result, hours, operation, id, opened],
  );
  const { data, error, reload } = useEntries(query, limit, attempt);
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Activity</h1>
          <p className="quiet">Changes, denials and data access in this tenant</p>
        </div>
        <Button
          variant="default"
          leftSection={<Icon name="rotate" size={14} />}
          onClick={() => setAttempt(attempt + 1)}
        >
          Refresh
        </Button>
      </header>
      <div className="tools">
        <fieldset className="filters">
          <legend className="visually-hidden">Result</legend>
          {results.map(([value, label]) => (
            <button
              key={value}
              type="button"
              aria-pressed={result === value}
              onClick={() => setResult(value)}
            >
              {label}
            </button>
          ))}
        </fieldset>
        <fieldset className="filters">
          <legend className="visually-hidden">Period</legend>
          {periods.map(([label, value]) => (
            <button key={label} type="button" aria-pressed={hours === value} onClick={() => setHours(value)}>
              {label}
            </button>
          ))}
        </fieldset>
        <div className="tools-line">
          <Select
            aria-label="Operation"
            placeholder="Any operation"
            data={operations}
            value={operation}
            onChange={setOperation}
            clearable
            searchable
          />
          <TextInput
            className="grow"
            aria-label="Actor ID"
            placeholder="Application or session ID"
            value={actorId}
            onChange={(event) => setActorId(event.currentTarget.value)}
          />
        </div>
      </div>
      {error !== undefined && <ErrorNotice error={error} retry={reload} />}
      {data && data.entries.length > 0 && <Chart bars={barsOf(data.entries, now, !data.more)} />}
      {data?.entries.length === 0 && (
        <div className="empty">
          <Icon name="activity" size={28} />
          <h2>No activity</h2>
          <p>No entries match these filters. Choose a longer period or remove a filter.</p>
        </div>
      )}
      <ol className="timeline">
        {data?.entries.map((entry) => (
          <Entry key={entry.id} entry={entry} now={now} />
        ))}
      </ol>
      {data?.more && (
        <div className="foot">
          <Button variant="default" onClick={() => setLimit(limit + pageSize)}>
            Show older
          </Button>
        </div>
      )}
    </div>
  );
}
