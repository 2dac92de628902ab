import { useState } from 'react';
import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { escapeJson, escapeText } from '../../../src/domain/escape.ts';
import { useApplications } from '../applications/application-store.ts';
import { formatDate, formatNumber, shortId, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { href } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';

const icons = { success: 'check', denied: 'cross', failed: 'warning' } as const;
const reasons: Readonly<Record<string, string>> = {
  permission_missing: 'access denied',
  reveal_required: 'the change needs the transform reveal',
  unauthenticated: 'no valid key',
  grant_not_held: 'the key cannot grant a permission that it lacks',
  key_type_refused: 'not allowed for this type of key',
  origin_refused: 'the origin is not allowed',
  nonce_used: 'the nonce was already used',
  nonce_not_found: 'the nonce is unknown or expired',
  unreadable: 'the entry was altered in the database and cannot be read; ask the operator to verify the log',
};

function Actor({ actor }: Pick<LogEntry, 'actor'>) {
  const { byId } = useApplications(useSignedIn().applications);
  const id = actor.application_id ?? actor.id;
  if (actor.kind === 'unknown') return <span>Unknown caller</span>;
  if (actor.kind === 'operator') return <span>Operator</span>;
  if (actor.kind === 'anonymous' || id === undefined) return <span>Caller without a valid key</span>;
  const name = <bdi>{byId.get(id)?.name ?? shortId(id)}</bdi>;
  return (
    <>
      {actor.kind === 'session' && 'Session of '}
      <a className="link" href={href('applications', id)}>
        {name}
      </a>
    </>
  );
}

function Entity({ entity }: { entity: LogEntry['entity'] | undefined }) {
  const { byId } = useApplications(useSignedIn().applications);
  if (!entity) return null;
  if (entity.kind === 'application') {
    return (
      <a className="link" href={href('applications', entity.id)}>
        <bdi>{byId.get(entity.id)?.name ?? shortId(entity.id)}</bdi>
      </a>
    );
  }
  return (
    <span>
      {entity.kind} <code>{shortId(entity.id)}</code>
    </span>
  );
}

/** What was read or denied, and by which rule. */
function accessFacts({ resource, decision, purpose, reported_by }: LogEntry) {
  const { rule, missing } = decision ?? {};
  return {
    tokens: resource?.ids?.join(', '),
    container: resource?.container,
    transform: decision?.transform,
    rule: rule && `${rule.rule} of the ${rule.of}${rule.description ? `: ${rule.description}` : ''}`,
    missing: missing && [missing.permission, missing.container, missing.transform].filter(Boolean).join(' '),
    purpose,
    'reported by': reported_by,
  };
}

export function Entry({ entry, now }: { entry: LogEntry; now: number }) {
  const [open, setOpen] = useState(false);
  const { result, operation, reason, count, decision, difference, from } = entry;
  return (
    <li className={`entry entry-${result}`}>
      <span className="entry-mark">
        <Icon name={icons[result]} size={12} />
      </span>
      <div className="entry-what">
        <p>
          <Actor actor={entry.actor} /> <span className="faint">{result === 'success' ? '' : 'denied '}</span>
          <code>{operation}</code> <Entity entity={entry.entity} />
          {count !== undefined && <span className="tag">{formatNumber(count)} times</span>}
        </p>
        {reason !== undefined && (
          <p className="fine">
            {escapeText(decision?.reason ?? reasons[reason] ?? reason)}{' '}
            <code className="faint">{reason}</code>
          </p>
        )}
        {open && (
          <dl className="facts">
            {Object.entries(difference ?? {}).map(([field, { from: old, to }]) => (
              <div key={field} className="fact">
                <dt>{field}</dt>
                <dd>
                  {old !== undefined && <del>{escapeJson(JSON.stringify(old))}</del>}{' '}
                  {to !== undefined && <ins>{escapeJson(JSON.stringify(to))}</ins>}
                </dd>
              </div>
            ))}
            {Object.entries({
              ...accessFacts(entry),
              ...from,
              request: entry.request_id,
              trace: entry.trace_id,
            }).map(
              ([name, value]) =>
                value !== undefined && (
                  <div key={name} className="fact">
                    <dt>{name}</dt>
                    <dd>
                      <bdi>{escapeText(value)}</bdi>
                    </dd>
                  </div>
                ),
            )}
          </dl>
        )}
      </div>
      <button
        type="button"
        className="entry-time"
        aria-expanded={open}
        title={formatDate(entry.at)}
        onClick={() => setOpen(!open)}
      >
        {timeAgo(entry.at, now)} <Icon name={open ? 'up' : 'down'} size={11} />
        <span className="visually-hidden">Details</span>
      </button>
    </li>
  );
}
