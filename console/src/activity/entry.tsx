/** One entry of the audit log: a line, and its details on demand. */
import { memo, type ReactNode, useState } from 'react';
import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { escapeJson, escapeText } from '../../../src/domain/escape.ts';
import { OutcomeBadge } from '../access/outcome.tsx';
import { ApplicationLink } from '../applications/application-link.tsx';
import { formatDate, formatNumber, plural, shortId, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { Actor } from './actor.tsx';
import { RecordedDecision, reasonOf } from './recorded-decision.tsx';

const icons = { success: 'check', denied: 'cross', failed: 'warning' } as const;
const maxIds = 20;
const overflowNote =
  'The application caused too many different entries in this minute. This one counts the others together: they can be of several sessions, addresses and containers.';

export const Entry = memo(function Entry({ entry, now }: { entry: LogEntry; now: number }) {
  const [open, setOpen] = useState(false);
  const { result, operation, count, decision } = entry;
  const reason = reasonOf(entry);
  return (
    <li className={`entry entry-${result}`}>
      <span className="entry-mark">
        <Icon name={icons[result]} size={12} />
      </span>
      <div className="entry-what">
        <p>
          <Actor actor={entry.actor} />{' '}
          <span className="faint">{result === 'denied' ? 'was denied ' : ''}</span>
          <code>{operation}</code> <Subject entry={entry} />
          {decision?.transform && (
            <>
              {' '}
              <OutcomeBadge answer={decision.transform} />
            </>
          )}
          {count !== undefined && <span className="tag">{formatNumber(count)} times</span>}
          {entry.overflow && (
            <span className="tag" title={overflowNote}>
              combined
            </span>
          )}
        </p>
        {reason !== undefined && (
          <p className="fine">
            {reason} <code className="faint">{entry.reason}</code>
          </p>
        )}
        {open && (
          <div className="entry-details">
            <RecordedDecision entry={entry} />
            <Facts entry={entry} />
          </div>
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
});

/** The subject of the operation: one resource, or the tokens and their container. */
function Subject({ entry: { entity, resource } }: { entry: LogEntry }) {
  if (entity?.kind === 'application') return <ApplicationLink id={entity.id} />;
  const ids = resource?.ids ?? [];
  const more = resource?.omitted !== undefined;
  const single = ids.length === 1 && !more;
  const tokens =
    ids.length === 0 || single ? '' : `${more ? 'more than ' : ''}${plural(ids.length, 'token')}`;
  const what = entity ? `${entity.kind} ` : tokens;
  const id = entity?.id ?? (single ? ids[0] : undefined);
  return (
    <span>
      {what}
      {id !== undefined && <code title={id}>{escapeText(shortId(id))}</code>}
      {resource?.container !== undefined && (
        <>
          {' '}
          <span className="faint">in</span> <code>{escapeText(resource.container)}</code>
        </>
      )}
    </span>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (children === undefined) return null;
  return (
    <div className="fact">
      <dt>{name}</dt>
      <dd>{typeof children === 'string' ? <bdi>{escapeText(children)}</bdi> : children}</dd>
    </div>
  );
}

function Facts({ entry }: { entry: LogEntry }) {
  const { actor, resource, from, difference } = entry;
  const { ids = [], omitted } = resource ?? {};
  return (
    <dl className="facts">
      <Fact name="Time">{formatDate(entry.at)}</Fact>
      <Fact name="Session">{actor.kind === 'session' ? actor.id : undefined}</Fact>
      <Fact name="Authorized by">
        {actor.authorized_by !== undefined ? <ApplicationLink id={actor.authorized_by} /> : undefined}
      </Fact>
      <Fact name={ids.length === 1 && !omitted ? 'Token' : `${formatNumber(ids.length)} tokens`}>
        {ids.length > 0 ? <TokenIds ids={ids} /> : undefined}
      </Fact>
      <Fact name="Not listed">
        {omitted === undefined
          ? undefined
          : `${plural(omitted, 'more token ID')}. The entry lists only some, and repeated ones can count several times.`}
      </Fact>
      <Fact name="Container">{resource?.container}</Fact>
      <Fact name="Purpose">{entry.purpose}</Fact>
      <Fact name="Events">{entry.count === undefined ? undefined : formatNumber(entry.count)}</Fact>
      <Fact name="Combined">{entry.overflow ? overflowNote : undefined}</Fact>
      <Fact name="Reported by">
        {entry.reported_by !== undefined ? <ApplicationLink id={entry.reported_by} /> : undefined}
      </Fact>
      {Object.entries(difference ?? {}).map(([field, { from: old, to }]) => (
        <Fact key={field} name={field}>
          {old !== undefined && <del>{escapeJson(JSON.stringify(old))}</del>}{' '}
          {to !== undefined && <ins>{escapeJson(JSON.stringify(to))}</ins>}
        </Fact>
      ))}
      <Fact name="IP address">{from.ip}</Fact>
      <Fact name="User agent">{from.user_agent}</Fact>
      <Fact name="Request ID">{entry.request_id}</Fact>
      <Fact name="Trace ID">{entry.trace_id}</Fact>
    </dl>
  );
}

function TokenIds({ ids }: { ids: readonly string[] }) {
  return (
    <span className="token-ids">
      {ids.slice(0, maxIds).map((id) => (
        <code key={id}>{escapeText(id)}</code>
      ))}
      {ids.length > maxIds && <span className="faint">and {formatNumber(ids.length - maxIds)} more</span>}
    </span>
  );
}
