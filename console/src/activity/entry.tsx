import { useState } from 'react';
import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { escapeJson, escapeText } from '../../../src/domain/escape.ts';
import { useRoll } from '../applications/roll.ts';
import { Icon } from '../frame/icons.tsx';
import { href } from '../frame/place.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { ago, exactly, number, shortId } from '../frame/words.ts';

const icons = { success: 'check', denied: 'cross', failed: 'warning' } as const;
const reasons: Readonly<Record<string, string>> = {
  permission_missing: 'the key does not hold the permission',
  unauthenticated: 'there was no valid key',
  grant_not_held: 'it would have handed on what it does not hold',
  key_type_refused: 'not with a key of this kind',
  origin_refused: 'from a page that may not use the key',
  nonce_used: 'the nonce was used before',
  nonce_not_found: 'the nonce is not known',
  unreadable: 'the entry was changed in the database, and cannot be read: have the operator verify the log',
};

function Actor({ actor }: Pick<LogEntry, 'actor'>) {
  const { byId } = useRoll(useSignedIn().roll);
  const id = actor.application_id ?? actor.id;
  if (actor.kind === 'unknown') return <span>Somebody</span>;
  if (actor.kind === 'operator') return <span>The operator</span>;
  if (actor.kind === 'anonymous' || id === undefined) return <span>Somebody without a valid key</span>;
  const name = <bdi>{byId.get(id)?.name ?? shortId(id)}</bdi>;
  return (
    <>
      {actor.kind === 'session' && 'A Session of '}
      <a className="link" href={href('applications', id)}>
        {name}
      </a>
    </>
  );
}

function Entity({ entity }: { entity: LogEntry['entity'] | undefined }) {
  const { byId } = useRoll(useSignedIn().roll);
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

export function Entry({ entry, now }: { entry: LogEntry; now: number }) {
  const [open, setOpen] = useState(false);
  const { result, operation, reason, count, difference, from } = entry;
  return (
    <li className={`entry entry-${result}`}>
      <span className="entry-mark">
        <Icon name={icons[result]} size={12} />
      </span>
      <div className="entry-what">
        <p>
          <Actor actor={entry.actor} />{' '}
          <span className="faint">{result === 'success' ? '' : 'was refused '}</span>
          <code>{operation}</code> <Entity entity={entry.entity} />
          {count !== undefined && <span className="tag">{number(count)} times</span>}
        </p>
        {reason !== undefined && (
          <p className="fine">
            {reasons[reason] ?? reason} <code className="faint">{reason}</code>
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
            {Object.entries({ ...from, request: entry.request_id, trace: entry.trace_id }).map(
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
        title={exactly(entry.at)}
        onClick={() => setOpen(!open)}
      >
        {ago(entry.at, now)} <Icon name={open ? 'up' : 'down'} size={11} />
        <span className="unseen">details</span>
      </button>
    </li>
  );
}
