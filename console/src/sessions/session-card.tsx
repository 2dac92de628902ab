import { Button, Checkbox } from '@mantine/core';
import type { Session } from '../../../sdk/src/sallyport.ts';
import { ruleTitle } from '../access/grants.ts';
import { OutcomeBadge, outcomeIn } from '../access/outcome.tsx';
import { ApplicationLink } from '../applications/application-link.tsx';
import { countdown, formatDate, formatNumber, shortId, timeAgo } from '../frame/format.ts';
import { href } from '../frame/route.ts';

interface Props {
  readonly session: Session;
  readonly now: number;
  readonly selected: boolean;
  /** `toggle` and `end` are undefined if the signed-in key cannot end sessions. */
  readonly toggle: (() => void) | undefined;
  readonly end: (() => void) | undefined;
}

export function SessionCard({ session, now, selected, toggle, end }: Props) {
  const { state, rules, permissions, authorized_by: authorizer } = session;
  const lifetime = Date.parse(session.expires_at) - Date.parse(session.created_at);
  const remaining = Math.max(0, Date.parse(session.expires_at) - now);
  return (
    <li className={selected ? 'session session-selected' : 'session'}>
      <div className="session-state">
        {toggle && (
          <Checkbox
            aria-label={`Select session ${shortId(session.id)}`}
            checked={selected}
            onChange={toggle}
          />
        )}
        <div>
          <span className="session-tags">
            <span className={state === 'pending' ? 'tag tag-warn' : 'tag tag-good'}>{state}</span>
            {session.kind === 'delegation' && (
              <span className="tag" title="A key that a backend issued for a job or an agent.">
                delegation
              </span>
            )}
            {session.bound && (
              <span className="tag" title="The session works only in the browser that created it.">
                bound
              </span>
            )}
          </span>
          <a
            className="faint"
            title={session.id}
            href={`${href('sessions')}?${new URLSearchParams({ id: session.id })}`}
          >
            <code>{shortId(session.id)}</code>
          </a>
        </div>
      </div>
      <div className="session-what">
        <p>
          <ApplicationLink id={session.application_id} />
          {session.subject !== undefined && (
            <>
              {' for '}
              <a href={`${href('activity')}?${new URLSearchParams({ subject: session.subject })}`}>
                <bdi>{session.subject}</bdi>
              </a>
            </>
          )}
          {authorizer !== undefined && (
            <span className="faint">
              {' · '}authorized by <ApplicationLink id={authorizer} />
              {session.ceiling && ' · limited to its access'}
              {session.max_uses !== undefined &&
                ` · ${formatNumber(session.uses ?? 0)} of ${formatNumber(session.max_uses)} uses`}
            </span>
          )}
        </p>
        <p className="fine">
          {state === 'pending' && 'No access until a backend authorizes it.'}
          {rules.map((rule) => (
            <span key={ruleTitle(rule) + rule.priority} className="session-rule">
              <OutcomeBadge answer={outcomeIn(rule)} /> <code>{ruleTitle(rule)}</code>{' '}
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
