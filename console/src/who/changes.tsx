/** Applications whose access changed between two times. */
import { Button, TextInput } from '@mantine/core';
import { type FormEvent, useEffect, useState } from 'react';
import type { AccessDiff, AccessDiffEntry } from '../../../sdk/src/sallyport.ts';
import { AccessBadge } from '../access/outcome.tsx';
import { ApplicationLink } from '../applications/application-link.tsx';
import { CreatedBy } from '../applications/table.tsx';
import { Choice } from '../frame/choice.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatDate, formatNumber, plural, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useLoad, useNow } from '../frame/load.ts';
import { useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { SkeletonRows } from '../frame/skeleton.tsx';
import { TableTools } from '../frame/table-tools.tsx';
import { isTime, TimeInput } from '../frame/time-input.tsx';
import { PermissionField } from './permission-field.tsx';

const defaults = { q: '', permission: '', period: '7d', from: '', to: '' };
type Query = typeof defaults;

const day = 86_400_000;
const lengths: Readonly<Record<string, number>> = { '1d': day, '7d': 7 * day, '30d': 30 * day };
const periods = [
  ['1d', '1 day'],
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['custom', 'Custom'],
] as const;

function isContainer(q: string): boolean {
  return q === '' || q.startsWith('/');
}

/** Undefined if the period has no start, or if the text is not a container. */
function diffQuery({ q, permission, period, from, to }: Query, now: number) {
  const length = lengths[period];
  const start = length === undefined ? from : new Date(now - length).toISOString();
  if (!isTime(start) || !isContainer(q)) return undefined;
  return {
    from: start,
    ...(length === undefined && isTime(to) && { to }),
    ...(q !== '' && { container: q }),
    ...(permission !== '' && { permission }),
  };
}

export function AccessChanges() {
  const { api } = useSignedIn();
  const [query, set] = useRouteQuery(defaults);
  const [opened, setOpened] = useState(() => Date.now());
  const wanted = diffQuery(query, opened);
  const { data, error, reload } = useLoad(`access diff ${JSON.stringify(wanted)}`, async (signal) =>
    wanted ? api.access.diff(wanted, { signal }) : undefined,
  );
  return (
    <>
      <QuestionForm
        query={query}
        set={(change) => {
          setOpened(Date.now());
          set(change);
        }}
      />
      {!isContainer(query.q) && (
        <p className="fine">
          Changes are compared by container, not by token. Enter a container, such as /customers/42/.
        </p>
      )}
      {!wanted && isContainer(query.q) && <p className="fine">Enter the time with which to compare.</p>}
      {error !== undefined && <ErrorNotice error={error} retry={reload} />}
      {wanted && !data && error === undefined && <SkeletonRows rows={3} />}
      {data && <Result diff={data} />}
    </>
  );
}

function QuestionForm({ query, set }: { query: Query; set: (change: Partial<Query>) => void }) {
  const [text, setText] = useState(query.q);
  useEffect(() => setText(query.q), [query.q]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    set({ q: text.trim() });
  };
  return (
    <form className="tools who-form" onSubmit={submit}>
      <TextInput
        className="grow"
        label="Container"
        placeholder="All containers, or one such as /customers/42/"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        spellCheck={false}
      />
      <PermissionField
        value={query.permission}
        choose={(permission) => set({ q: text.trim(), permission })}
        optional
      />
      <Button type="submit">Compare</Button>
      <div className="tools-line">
        <Choice
          label="Period"
          value={query.period}
          options={periods}
          choose={(period) => set(period === 'custom' ? { period } : { period, from: '', to: '' })}
        />
        {query.period === 'custom' && (
          <>
            <TimeInput label="From" value={query.from} change={(from) => set({ from })} />
            <TimeInput label="To" value={query.to} change={(to) => set({ to })} />
          </>
        )}
      </div>
    </form>
  );
}

const order = ['denied', 'redact', 'mask', 'reveal_with_purpose', 'reveal'];

function isGain({ from, to }: AccessDiffEntry): boolean {
  return order.indexOf(to) > order.indexOf(from);
}

function Result({ diff }: { diff: AccessDiff }) {
  const { data, unknown, complete, recorded_since: recordedSince } = diff;
  const gained = data.filter(isGain);
  const lost = data.filter((entry) => !isGain(entry));
  return (
    <>
      <p className="quiet changes-period">
        {formatDate(diff.from)} – {formatDate(diff.to)}
      </p>
      {recordedSince !== undefined && (
        <p className="notice">
          <Icon name="warning" />
          <span>
            Entries before {formatDate(recordedSince)} were archived. The comparison begins there instead.
          </span>
        </p>
      )}
      {!complete && (
        <p className="notice">
          <Icon name="warning" />
          <span>There were too many changes to compare all of them. Choose a shorter period.</span>
        </p>
      )}
      {unknown.length > 0 && (
        <p className="notice">
          <Icon name="warning" />
          <span>
            {plural(unknown.length, 'application')} changed without a record of the access before:{' '}
            {unknown.slice(0, 5).map((id) => (
              <span key={id}>
                <ApplicationLink id={id} />{' '}
              </span>
            ))}
            {unknown.length > 5 && `and ${formatNumber(unknown.length - 5)} more`}
          </span>
        </p>
      )}
      {data.length === 0 && (
        <div className="empty">
          <Icon name="check" size={28} />
          <h2>No access changed</h2>
          <p>No application gained or lost this access in the period. Sessions are not compared.</p>
        </div>
      )}
      {data.length > 0 && (
        <TableTools
          name="access-changes"
          head={['Application', 'ID', 'Permission', 'Container', 'From', 'To', 'Last event', 'At']}
          rows={() => data.map(cellsOf)}
        />
      )}
      <Changes title="Gained access" entries={gained} complete={complete} />
      <Changes title="Lost access" entries={lost} complete={complete} />
      {data.length > 0 && <p className="fine">Sessions are not compared, because they are short-lived.</p>}
    </>
  );
}

function cellsOf({ application, permission, container = '', from, to, events }: AccessDiffEntry) {
  const last = events.at(-1);
  const event = [last?.operation ?? '', last?.at ?? ''];
  return [application.name, application.id, permission, container, from, to, ...event];
}

interface ChangesProps {
  readonly title: string;
  readonly entries: readonly AccessDiffEntry[];
  /** Whether the service compared everything. */
  readonly complete: boolean;
}

function Changes({ title, entries, complete }: ChangesProps) {
  const now = useNow(60_000);
  if (entries.length === 0) return null;
  return (
    <section className="access-changes" aria-label={title}>
      <h2>
        {title}{' '}
        <span className="tag">
          {complete ? '' : 'first '}
          {formatNumber(entries.length)}
        </span>
      </h2>
      <div className="who-table" role="table" aria-label={title}>
        <div className="who-head change-row" role="row">
          {['Who', 'What', 'Change', 'Last event'].map((label) => (
            <span key={label} role="columnheader">
              {label}
            </span>
          ))}
        </div>
        <div role="rowgroup">
          {entries.map((entry) => (
            <Row
              key={`${entry.application.id} ${entry.permission} ${entry.container}`}
              entry={entry}
              now={now}
            />
          ))}
        </div>
      </div>
    </section>
  );
}

function Row({ entry, now }: { entry: AccessDiffEntry; now: number }) {
  const { application, permission, container, from, to, events } = entry;
  const last = events.at(-1);
  return (
    <div role="row" className="who-row change-row">
      <span role="cell">
        <ApplicationLink id={application.id} name={application.name} />
      </span>
      <span role="cell">
        <code>{permission}</code>
        {container !== undefined && (
          <>
            {' '}
            <span className="faint">in</span> <code>{container}</code>
          </>
        )}
      </span>
      <span role="cell" className="impact-change">
        <AccessBadge access={from} scoped={container !== undefined} /> <Icon name="right" size={11} />
        <span className="visually-hidden">to</span>{' '}
        <AccessBadge access={to} scoped={container !== undefined} />
      </span>
      <span role="cell" className="change-event">
        {last ? (
          <>
            <code>{last.operation}</code> <span title={formatDate(last.at)}>{timeAgo(last.at, now)}</span>
            {last.entry !== undefined && <CreatedBy id={last.by} />}
            {events.length > 1 && (
              <small className="faint">{plural(events.length - 1, 'earlier event')}</small>
            )}
          </>
        ) : (
          <span className="faint">–</span>
        )}
      </span>
    </div>
  );
}
