/** Sessions that have not expired, with their access and remaining time. Updated every few seconds. */
import { Button, Checkbox } from '@mantine/core';
import { useState } from 'react';
import type { Session } from '../../../sdk/src/sallyport.ts';
import { ruleTitle } from '../access/grants.ts';
import { outcomeIn } from '../access/outcome.tsx';
import { ApplicationPicker, useApplication } from '../applications/application-picker.tsx';
import { Choice } from '../frame/choice.tsx';
import { useStaleSince } from '../frame/connection.ts';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatNumber, isUuid, plural } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useLiveUpdates, useNow } from '../frame/load.ts';
import { href, useRouteQuery } from '../frame/route.ts';
import { SearchField } from '../frame/search-field.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { SkeletonRows } from '../frame/skeleton.tsx';
import { TableTools } from '../frame/table-tools.tsx';
import { EndDialog } from './end-dialog.tsx';
import { type SessionQuery, useSessions } from './query.ts';
import { SessionCard } from './session-card.tsx';

const pageSize = 100;
const updateInterval = 5000;
const defaults = { state: 'all', container: '', application: '', authorizer: '', subject: '', id: '' };
const states: readonly [string, string][] = [
  ['all', 'All'],
  ['pending', 'Pending'],
  ['active', 'Active'],
];

const head = [
  'ID',
  'Kind',
  'State',
  'Application',
  'Subject',
  'Authorized by',
  'Access',
  'Created',
  'Expires',
];

function cellsOf(session: Session): string[] {
  const { subject = '', authorized_by: authorizer = '', permissions } = session;
  const rules = session.rules.map(
    (rule) => `${ruleTitle(rule)} ${outcomeIn(rule)}: ${rule.permissions.join(', ')}`,
  );
  return [
    ...[session.id, session.kind, session.state, session.application_id, subject, authorizer],
    ...[[...rules, ...permissions].join('; '), session.created_at, session.expires_at],
  ];
}

export function Sessions() {
  const signedIn = useSignedIn();
  const now = useNow();
  const [query, setQuery] = useRouteQuery(defaults);
  const [limit, setLimit] = useState(pageSize);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [ending, setEnding] = useState<readonly Session[]>([]);
  const { data, error, reload } = useSessions(query as SessionQuery, limit);
  useLiveUpdates(reload, updateInterval);
  const isStale = useStaleSince(signedIn.connection) !== undefined;
  const isLive = error === undefined && !isStale && data !== undefined;
  const current = data?.sessions.filter((session) => Date.parse(session.expires_at) > now) ?? [];
  const selected = current.filter(({ id }) => chosen.has(id));
  const mayEnd = holds(signedIn, 'session:delete');
  const filtered = JSON.stringify(query) !== JSON.stringify(defaults);
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Sessions</h1>
          <p className="quiet">
            {data ? countLabel(data.total, current.length, data.more) : 'Short-lived access for browsers'}
          </p>
        </div>
        <span className={isLive ? 'live' : 'live live-off'}>
          <i aria-hidden="true" /> {isLive ? 'Live' : 'Not updating'}
        </span>
      </header>
      <Filters query={query} setQuery={setQuery} />
      {error !== undefined && <ErrorNotice error={error} retry={reload} />}
      {!data && error === undefined && <SkeletonRows />}
      {data && current.length === 0 && isLive && <NoSessions query={query} filtered={filtered} />}
      {data && current.length === 0 && !isLive && (
        <p className="fine">All sessions that were loaded have expired. Newer ones are not known.</p>
      )}
      {current.length > 0 && (
        <div className="selection">
          {mayEnd && (
            <Checkbox
              label={selectionLabel(selected.length, current.length, data?.total)}
              checked={selected.length === current.length}
              indeterminate={selected.length > 0 && selected.length < current.length}
              onChange={({ currentTarget: { checked } }) =>
                setChosen(new Set(checked ? current.map(({ id }) => id) : []))
              }
            />
          )}
          {selected.length > 0 && (
            <Button variant="default" size="compact-xs" onClick={() => setEnding(selected)}>
              End {plural(selected.length, 'session')}…
            </Button>
          )}
          <TableTools name="sessions" head={head} rows={() => current.map(cellsOf)} />
        </div>
      )}
      <ul className="session-list">
        {current.map((session) => (
          <SessionCard
            key={session.id}
            session={session}
            now={now}
            selected={chosen.has(session.id)}
            toggle={mayEnd ? () => toggle(session.id) : undefined}
            end={mayEnd ? () => setEnding([session]) : undefined}
          />
        ))}
      </ul>
      {data?.more && (
        <div className="foot">
          <Button variant="default" onClick={() => setLimit(limit + pageSize)}>
            Show older
          </Button>
        </div>
      )}
      {ending.length > 0 && (
        <EndDialog
          sessions={ending}
          close={() => setEnding([])}
          done={() => {
            setEnding([]);
            setChosen(new Set());
            reload();
          }}
        />
      )}
    </div>
  );
}

/** The API omits the total of a list that is too long to count or filtered by container. */
function countLabel(total: number | undefined, loaded: number, more: boolean): string {
  if (total !== undefined) return plural(total, 'session');
  return more ? `Newest ${plural(loaded, 'session')}` : plural(loaded, 'session');
}

interface FiltersProps {
  readonly query: typeof defaults;
  readonly setQuery: (change: Partial<typeof defaults>, how?: 'push' | 'replace') => void;
}

function Filters({ query, setQuery }: FiltersProps) {
  const application = useApplication(query.application);
  const authorizer = useApplication(query.authorizer);
  return (
    <div className="tools">
      <SearchField
        label="Container or session ID"
        placeholder="Container such as /customers/42/, or session ID"
        value={query.id || query.container}
        onChange={(text) => {
          const [id, container] = isUuid(text.trim()) ? [text.trim(), ''] : ['', text.trim()];
          setQuery({ id, container }, 'replace');
        }}
      />
      <SearchField
        label="Subject"
        placeholder="Subject, such as user:42"
        value={query.subject}
        onChange={(subject) => setQuery({ subject: subject.trim() }, 'replace')}
      />
      <ApplicationPicker
        label="Application"
        hideLabel
        placeholder="Any application"
        clearable
        value={application}
        onChange={(next) => setQuery({ application: next?.id ?? '' })}
      />
      <ApplicationPicker
        label="Authorizer"
        hideLabel
        placeholder="Any authorizer"
        clearable
        value={authorizer}
        onChange={(next) => setQuery({ authorizer: next?.id ?? '' })}
      />
      <Choice label="State" value={query.state} options={states} choose={(state) => setQuery({ state })} />
    </div>
  );
}

/** Only loaded sessions can be selected, so the label says how many of all these are. */
function selectionLabel(selected: number, loaded: number, total: number | undefined): string {
  const all = total === loaded ? '' : ` of ${total === undefined ? 'more' : formatNumber(total)}`;
  if (selected === 0) return all === '' ? 'Select all' : `Select the ${formatNumber(loaded)} shown${all}`;
  return `${formatNumber(selected)}${all} selected`;
}

function NoSessions({ query, filtered }: { query: typeof defaults; filtered: boolean }) {
  if (query.id !== '')
    return (
      <div className="empty">
        <Icon name="sessions" size={28} />
        <h2>This session has ended</h2>
        <p>Its key is no longer valid. The audit log may have entries about it.</p>
        <Button component="a" href={`${href('activity')}?${new URLSearchParams({ q: query.id })}`}>
          Activity of the session
        </Button>
      </div>
    );
  return (
    <div className="empty">
      <Icon name="sessions" size={28} />
      <h2>{filtered ? 'No matching sessions' : 'No sessions'}</h2>
      <p>
        {filtered
          ? 'Change or remove a filter.'
          : 'A web page creates a session with the key of a public application. Your backend authorizes it with the nonce.'}
      </p>
    </div>
  );
}
