/** The Sessions that live, with what they may do and how long still. */
import { Button, Modal } from '@mantine/core';
import { useState } from 'react';
import type { Session } from '../../../sdk/src/sallyport.ts';
import { ruleTitle } from '../access/grants.ts';
import { Outcome } from '../access/outcome.tsx';
import { useRoll } from '../applications/roll.ts';
import { announce } from '../frame/announce.ts';
import { Icon } from '../frame/icons.tsx';
import { useLoad, useNow } from '../frame/load.ts';
import { href } from '../frame/place.ts';
import { Complaint, Problem } from '../frame/problem.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { ago, countdown, exactly, plural, shortId } from '../frame/words.ts';

const pageSize = 100;

export function Sessions() {
  const signedIn = useSignedIn();
  const now = useNow();
  const [state, setState] = useState<'all' | 'waiting' | 'authorized'>('all');
  const [ending, setEnding] = useState<Session>();
  const { data, error, reload } = useLoad(`sessions ${state}`, (signal) =>
    signedIn.api.sessions.list({ size: pageSize, ...(state !== 'all' && { state }) }, { signal }),
  );
  const living = data?.data.filter((session) => Date.parse(session.expires_at) > now) ?? [];
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Sessions</h1>
          <p className="quiet">
            {data
              ? counted(data.pagination.total_items, living.length)
              : 'Short-lived access for one browser'}
          </p>
        </div>
        <Button variant="default" leftSection={<Icon name="rotate" size={14} />} onClick={reload}>
          Look again
        </Button>
      </header>
      <fieldset className="filters tools">
        <legend className="unseen">Show</legend>
        {(['all', 'waiting', 'authorized'] as const).map((value) => (
          <button key={value} type="button" aria-pressed={state === value} onClick={() => setState(value)}>
            {value === 'all' ? 'All' : value === 'waiting' ? 'Waiting' : 'Authorized'}
          </button>
        ))}
      </fieldset>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {data && living.length === 0 && (
        <div className="empty">
          <Icon name="sessions" size={28} />
          <h2>No Session is alive</h2>
          <p>
            A page opens one with the key of a public Application; your backend lets it in with the nonce.
          </p>
        </div>
      )}
      <ul className="session-list">
        {living.map((session) => (
          <SessionCard
            key={session.id}
            session={session}
            now={now}
            end={holds(signedIn, 'session:delete') === false ? undefined : () => setEnding(session)}
          />
        ))}
      </ul>
      {data?.pagination.next !== undefined && (
        <p className="fine">The newest {data.data.length} are shown. Filter for others.</p>
      )}
      {ending && (
        <End
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

/** The service leaves out the total of a list that is too long to count. */
function counted(total: number | undefined, shown: number): string {
  return total === undefined ? `The newest ${plural(shown, 'Session')}` : plural(total, 'Session');
}

function ApplicationLink({ id }: { id: string }) {
  const { byId } = useRoll(useSignedIn().roll);
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
  const whole = Date.parse(session.expires_at) - Date.parse(session.created_at);
  const left = Math.max(0, Date.parse(session.expires_at) - now);
  return (
    <li className="session">
      <div className="session-state">
        <span className={state === 'waiting' ? 'tag tag-warn' : 'tag tag-good'}>{state}</span>
        <code className="faint" title={session.id}>
          {shortId(session.id)}
        </code>
      </div>
      <div className="session-what">
        <p>
          <ApplicationLink id={session.application_id} />
          {authorizer !== undefined && (
            <span className="faint">
              {' '}
              let in by <ApplicationLink id={authorizer} />
              {session.ceiling && ', and bound by it'}
            </span>
          )}
        </p>
        <p className="fine">
          {state === 'waiting' && 'It can do nothing until a backend authorizes it.'}
          {rules.map((rule) => (
            <span key={ruleTitle(rule) + rule.priority} className="session-rule">
              <Outcome answer={rule.transform} /> <code>{ruleTitle(rule)}</code> {rule.permissions.join(', ')}
            </span>
          ))}
          {permissions.join(', ')}
        </p>
      </div>
      <div className="session-time" title={exactly(session.expires_at)}>
        <strong>{countdown(session.expires_at, now)}</strong>
        <meter min={0} max={whole} value={left} aria-label="Time that is left" />
        <small className="faint">made {ago(session.created_at, now)}</small>
      </div>
      {end && (
        <Button variant="default" size="compact-xs" onClick={end}>
          End
        </Button>
      )}
    </li>
  );
}

function End({ session, close, done }: { session: Session; close: () => void; done: () => void }) {
  const { api } = useSignedIn();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const end = async () => {
    setBusy(true);
    try {
      await api.sessions.end(session.id);
      announce('The Session has ended.');
      done();
    } catch (failure) {
      setBusy(false);
      setError(failure);
    }
  };
  return (
    <Modal opened onClose={close} title="End this Session?" closeButtonProps={{ 'aria-label': 'Close' }}>
      <div className="stack">
        <p className="quiet">Its key is refused from the next request on. The page can open another.</p>
        <Complaint error={error} />
        <div className="foot">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button color="red" onClick={end} loading={busy} data-autofocus>
            End it
          </Button>
        </div>
      </div>
    </Modal>
  );
}
