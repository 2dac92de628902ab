/** Sessions that have not expired, with their access and remaining time. */
import { Button, Modal } from '@mantine/core';
import { useState } from 'react';
import type { Session } from '../../../sdk/src/sallyport.ts';
import { ruleTitle } from '../access/grants.ts';
import { OutcomeBadge } from '../access/outcome.tsx';
import { useApplications } from '../applications/application-store.ts';
import { announce } from '../frame/announce.ts';
import { ErrorNotice, InlineError } from '../frame/error-notice.tsx';
import { countdown, formatDate, plural, shortId, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useLoad, useNow } from '../frame/load.ts';
import { href } from '../frame/route.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';

const pageSize = 100;

export function Sessions() {
  const signedIn = useSignedIn();
  const now = useNow();
  const [state, setState] = useState<StateFilter>('all');
  const [ending, setEnding] = useState<Session>();
  const { data, error, reload } = useLoad(`sessions ${state}`, (signal) =>
    signedIn.api.sessions.list({ size: pageSize, ...(state !== 'all' && { state }) }, { signal }),
  );
  const current = data?.data.filter((session) => Date.parse(session.expires_at) > now) ?? [];
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Sessions</h1>
          <p className="quiet">
            {data
              ? countLabel(data.pagination.total_items, current.length, state)
              : 'Short-lived access for browsers'}
          </p>
        </div>
        <Button variant="default" leftSection={<Icon name="rotate" size={14} />} onClick={reload}>
          Refresh
        </Button>
      </header>
      <fieldset className="filters tools">
        <legend className="visually-hidden">State</legend>
        {(['all', 'pending', 'active'] as const).map((value) => (
          <button key={value} type="button" aria-pressed={state === value} onClick={() => setState(value)}>
            {value === 'all' ? 'All' : value === 'pending' ? 'Pending' : 'Active'}
          </button>
        ))}
      </fieldset>
      {error !== undefined && <ErrorNotice error={error} retry={reload} />}
      {data && current.length === 0 && (
        <div className="empty">
          <Icon name="sessions" size={28} />
          <h2>{`No ${sessionName(state)}s`}</h2>
          <p>
            A web page creates a session with the key of a public application. Your backend authorizes it with
            the nonce.
          </p>
        </div>
      )}
      <ul className="session-list">
        {current.map((session) => (
          <SessionCard
            key={session.id}
            session={session}
            now={now}
            end={holds(signedIn, 'session:delete') === false ? undefined : () => setEnding(session)}
          />
        ))}
      </ul>
      {data?.pagination.next !== undefined && <p className="fine">Showing the newest {data.data.length}.</p>}
      {ending && (
        <EndDialog
          session={ending}
          close={() => setEnding(undefined)}
          done={() => {
            setEnding(undefined);
            reload();
          }}
        />
      )}
    </div>
  );
}

type StateFilter = 'all' | Session['state'];

function sessionName(state: StateFilter): string {
  return state === 'all' ? 'session' : `${state} session`;
}

/** The API omits the total of a list that is too long to count. */
function countLabel(total: number | undefined, loaded: number, state: StateFilter): string {
  const name = sessionName(state);
  return total === undefined ? `Newest ${plural(loaded, name)}` : plural(total, name);
}

function ApplicationLink({ id }: { id: string }) {
  const { byId } = useApplications(useSignedIn().applications);
  return (
    <a className="link" href={href('applications', id)}>
      <bdi>{byId.get(id)?.name ?? shortId(id)}</bdi>
    </a>
  );
}

interface CardProps {
  readonly session: Session;
  readonly now: number;
  readonly end: (() => void) | undefined;
}

function SessionCard({ session, now, end }: CardProps) {
  const { state, rules, permissions, authorized_by: authorizer } = session;
  const lifetime = Date.parse(session.expires_at) - Date.parse(session.created_at);
  const remaining = Math.max(0, Date.parse(session.expires_at) - now);
  return (
    <li className="session">
      <div className="session-state">
        <span className={state === 'pending' ? 'tag tag-warn' : 'tag tag-good'}>{state}</span>
        <code className="faint" title={session.id}>
          {shortId(session.id)}
        </code>
      </div>
      <div className="session-what">
        <p>
          <ApplicationLink id={session.application_id} />
          {authorizer !== undefined && (
            <span className="faint">
              {' · '}authorized by <ApplicationLink id={authorizer} />
              {session.ceiling && ' · limited to its access'}
            </span>
          )}
        </p>
        <p className="fine">
          {state === 'pending' && 'No access until a backend authorizes it.'}
          {rules.map((rule) => (
            <span key={ruleTitle(rule) + rule.priority} className="session-rule">
              <OutcomeBadge answer={rule.transform} /> <code>{ruleTitle(rule)}</code>{' '}
              {rule.permissions.join(', ')}
            </span>
          ))}
          {permissions.join(', ')}
        </p>
      </div>
      <div className="session-time" title={formatDate(session.expires_at)}>
        <strong>{countdown(session.expires_at, now)}</strong>
        <meter min={0} max={lifetime} value={remaining} aria-label="Remaining time" />
        <small className="faint">created {timeAgo(session.created_at, now)}</small>
      </div>
      {end && (
        <Button variant="default" size="compact-xs" onClick={end}>
          End
        </Button>
      )}
    </li>
  );
}

function EndDialog({ session, close, done }: { session: Session; close: () => void; done: () => void }) {
  const { api } = useSignedIn();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const end = async () => {
    setBusy(true);
    try {
      await api.sessions.end(session.id);
      announce('Session ended.');
      done();
    } catch (failure) {
      setBusy(false);
      setError(failure);
    }
  };
  return (
    <Modal opened onClose={close} title="End this session?" closeButtonProps={{ 'aria-label': 'Close' }}>
      <div className="stack">
        <p className="quiet">Its key is revoked immediately. The page can create a new session.</p>
        <InlineError error={error} />
        <div className="foot">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button color="red" onClick={end} loading={busy} data-autofocus>
            End session
          </Button>
        </div>
      </div>
    </Modal>
  );
}
