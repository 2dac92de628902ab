/** The table of an access review: one row for each application and session. */
import type { AccessEntry } from '../../../sdk/src/sallyport.ts';
import { OutcomeBadge, outcomeIn } from '../access/outcome.tsx';
import { ApplicationLink } from '../applications/application-link.tsx';
import { QuarantineButton } from '../applications/quarantine.tsx';
import { formatDate, shortId, timeAgo } from '../frame/format.ts';

interface Props {
  readonly entries: readonly AccessEntry[];
  readonly now: number;
  /** Called after an application was put into quarantine or released. */
  readonly changed: () => void;
}

export function AccessTable({ entries, now, changed }: Props) {
  return (
    <div className="who-table" role="table" aria-label="Who has access">
      <div className="who-head" role="row">
        {['Who', 'Gets', 'Deciding rule', 'Limited by', 'Last used'].map((label) => (
          <span key={label} role="columnheader">
            {label}
          </span>
        ))}
        <span role="columnheader">
          <span className="visually-hidden">Actions</span>
        </span>
      </div>
      <div role="rowgroup">
        {entries.map((entry) => (
          <Row key={`${entry.subject.type} ${entry.subject.id}`} entry={entry} now={now} changed={changed} />
        ))}
      </div>
    </div>
  );
}

function Row({ entry, now, changed }: { entry: AccessEntry; now: number; changed: () => void }) {
  const { subject, rule, limited_by: limit, quarantine, last_used_at: used } = entry;
  const { type, id, name } = subject;
  const isApplication = type === 'application';
  const isQuarantined = quarantine?.type === type && quarantine.id === id;
  return (
    <div role="row" className="who-row">
      <span role="cell" className="who-subject">
        {isApplication ? (
          <ApplicationLink id={id} name={name} />
        ) : (
          <span>
            {type === 'delegation' ? 'Delegation' : 'Session'} <code title={id}>{shortId(id)}</code> of{' '}
            <bdi>{name}</bdi>
            {subject.subject !== undefined && (
              <>
                {' '}
                for <bdi>{subject.subject}</bdi>
              </>
            )}
          </span>
        )}
        {!isApplication && quarantine && (
          <span className="tag tag-quarantine">
            {isQuarantined ? 'in quarantine' : `${quarantine.name} in quarantine`}
          </span>
        )}
      </span>
      <span role="cell">
        <OutcomeBadge answer={outcomeIn(entry)} />
      </span>
      <span role="cell" className="who-rule">
        {ruleName(rule)}
        {rule.description !== undefined && (
          <small>
            <bdi>{rule.description}</bdi>
          </small>
        )}
      </span>
      <span role="cell">
        {limit ? <ApplicationLink id={limit.id} name={limit.name} /> : <span className="faint">–</span>}
      </span>
      <span role="cell" className="who-used">
        {used !== undefined ? (
          <span title={formatDate(used)}>{timeAgo(used, now)}</span>
        ) : (
          <span className="faint">{isApplication ? 'no recorded use' : '–'}</span>
        )}
      </span>
      <span role="cell" className="who-action">
        <QuarantineButton suspect={{ type, id, name, isQuarantined }} compact done={changed} />
      </span>
    </div>
  );
}

function ruleName({ of, rule }: AccessEntry['rule']): string {
  const owner = of === 'application' ? '' : ` of the ${of}`;
  return rule === 'permissions' ? `Permissions${owner}` : `Rule ${rule}${owner}`;
}
