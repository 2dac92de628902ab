/** One entry of the audit log: a line, and its details on demand. */
import { memo, type ReactNode, useState } from 'react';
import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { escapeText } from '../../../src/domain/escape.ts';
import { type ApplicationFields, type Difference, differences } from '../access/grants.ts';
import { OutcomeBadge } from '../access/outcome.tsx';
import { ApplicationLink } from '../applications/application-link.tsx';
import { Lines } from '../applications/review-dialog.tsx';
import { CopyButton } from '../frame/copy-button.tsx';
import { formatDate, formatNumber, plural, shortId, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { href } from '../frame/route.ts';
import { Actor, PersonLink } from './actor.tsx';
import { RecordedDecision, reasonOf } from './recorded-decision.tsx';

const icons = { success: 'check', denied: 'cross', failed: 'warning' } as const;
const maxIds = 20;
const overflowNote =
  'The application caused too many different entries in this minute. This one counts the others together: they can be of several sessions, addresses and containers.';

interface EntryProps {
  readonly entry: LogEntry;
  readonly now: number;
  /** Whether the details are open at first. */
  readonly isOpen: boolean;
}

export const Entry = memo(function Entry({ entry, now, isOpen }: EntryProps) {
  const [open, setOpen] = useState(isOpen);
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
      {open && (
        <div className="entry-details">
          <RecordedDecision entry={entry} />
          <Facts entry={entry} />
        </div>
      )}
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
      <Fact name={actor.kind === 'delegation' ? 'Delegation' : 'Session'}>
        {(actor.kind === 'session' || actor.kind === 'delegation') && actor.id !== undefined ? (
          <a className="link" href={`${href('sessions')}?${new URLSearchParams({ id: actor.id })}`}>
            <code>{actor.id}</code>
          </a>
        ) : undefined}
      </Fact>
      <Fact name="Person">
        {actor.person ? (
          <>
            <PersonLink person={actor.person} />{' '}
            {actor.person.email !== undefined && escapeText(actor.person.email)}{' '}
            <code>{escapeText(actor.person.subject)}</code>
          </>
        ) : undefined}
      </Fact>
      <Fact name="For">{actor.subject}</Fact>
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
      <Fact name="Used at">
        {entry.use &&
          `${entry.use.name}: ${entry.use.method} ${entry.use.path} ${entry.use.status ?? ''}`.trim()}
      </Fact>
      <Fact name="Purpose">{entry.purpose}</Fact>
      <Fact name="Events">{entry.count === undefined ? undefined : formatNumber(entry.count)}</Fact>
      <Fact name="Combined">{entry.overflow ? overflowNote : undefined}</Fact>
      <Fact name="Reported by">
        {entry.reported_by !== undefined ? <ApplicationLink id={entry.reported_by} /> : undefined}
      </Fact>
      <Fact name="Changes">{difference ? <Lines changes={readableChanges(difference)} /> : undefined}</Fact>
      <Fact name="IP address">{from.ip}</Fact>
      <Fact name="User agent">{from.user_agent}</Fact>
      <Fact name="Request ID">
        {entry.request_id === undefined ? undefined : <SearchLink text={entry.request_id} />}
      </Fact>
      <Fact name="Entry ID">
        <SearchLink text={entry.id} /> <CopyButton text={addressOf(entry.id)} label="Copy address" />
      </Fact>
      <Fact name="Trace ID">{entry.trace_id}</Fact>
    </dl>
  );
}

/** Shows the entries about an id. */
function SearchLink({ text }: { text: string }) {
  return (
    <a className="link" href={`${href('activity')}?${new URLSearchParams({ q: text })}`}>
      <code>{escapeText(text)}</code>
    </a>
  );
}

/** The address of an entry, for tickets and messages. */
function addressOf(id: string): string {
  return `${location.origin}${location.pathname}${href('activity')}?${new URLSearchParams({ q: id })}`;
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isTextList = (value: unknown) => Array.isArray(value) && value.every(isText);
const isRuleList = (value: unknown) =>
  Array.isArray(value) && value.every((rule) => isTextList(rule?.permissions) && isText(rule.transform));
const isIssuerList = (value: unknown) =>
  Array.isArray(value) && value.every((one) => isText(one?.issuer) && typeof one.claims === 'object');
/** Fields that the review dialog describes. Others, and values of another form, are shown as JSON. */
const described: Readonly<Record<string, (value: unknown) => boolean>> = {
  name: isText,
  permissions: isTextList,
  rules: isRuleList,
  allowed_origins: isTextList,
  allowed_networks: isTextList,
  trusted_issuers: isIssuerList,
  require_bound_sessions: (value) => typeof value === 'boolean',
  expires_at: isText,
};

/** The changed fields as the review dialog shows them. */
export function readableChanges(difference: NonNullable<LogEntry['difference']>): Difference[] {
  const isDescribed = ([field, { from, to }]: [string, { from?: unknown; to?: unknown }]) =>
    [from, to].every((value) => value === undefined || value === null || described[field]?.(value));
  const [known, others] = [new Map<string, { from?: unknown; to?: unknown }>(), [] as Difference[]];
  for (const entry of Object.entries(difference)) {
    const [field, { from, to }] = entry;
    if (isDescribed(entry) && (field !== 'name' || (isText(from) && isText(to))))
      known.set(field, { from, to });
    else {
      const values = [from, to].filter((value) => value !== undefined).map((value) => JSON.stringify(value));
      others.push({ kind: kindOf(from, to), text: `${field} ${values.join(' → ')}` });
    }
  }
  const fields = (side: 'from' | 'to') =>
    ({
      name: '',
      permissions: [],
      rules: [],
      ...Object.fromEntries(
        [...known].flatMap(([field, values]) => (values[side] == null ? [] : [[field, values[side]]])),
      ),
    }) as ApplicationFields;
  return [...differences(fields('from'), fields('to')), ...others].map(({ kind, text }) => ({
    kind,
    text: escapeText(text),
  }));
}

function kindOf(from: unknown, to: unknown): Difference['kind'] {
  if (from === undefined) return 'added';
  return to === undefined ? 'removed' : 'changed';
}

function TokenIds({ ids }: { ids: readonly string[] }) {
  return (
    <span className="token-ids">
      {ids.slice(0, maxIds).map((id) => (
        <a key={id} className="link" href={`${href('tokens')}?${new URLSearchParams({ open: id })}`}>
          <code>{escapeText(id)}</code>
        </a>
      ))}
      {ids.length > maxIds && <span className="faint">and {formatNumber(ids.length - maxIds)} more</span>}
    </span>
  );
}
