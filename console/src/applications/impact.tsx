/** The impact of an update: access, active sessions, stored tokens and recorded reads that change. */
import type { Impact as ImpactData } from '../../../sdk/src/sallyport.ts';
import { ProblemError } from '../../../sdk/src/sallyport.ts';
import { AccessBadge, type Outcome } from '../access/outcome.tsx';
import { describeError } from '../frame/error-notice.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { useLoad } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { type Draft, updateOf } from './draft.ts';

const days = 30;
const maxRows = 5;

export function Impact({ id, draft }: { id: string; draft: Draft }) {
  const { api } = useSignedIn();
  const body = updateOf(draft);
  const { data, error } = useLoad(`impact ${id} ${JSON.stringify(body)}`, (signal) =>
    api.applications.preview(id, body, { days }, { signal }),
  );
  return (
    <section className="impact" aria-label="Impact" aria-busy={!data && error === undefined}>
      <h3>Impact</h3>
      {error !== undefined && <p className="fine">{unavailable(error)}</p>}
      {!data && error === undefined && <p className="fine">Comparing old and new access…</p>}
      {data && <ImpactList impact={data} />}
    </section>
  );
}

function unavailable(error: unknown): string {
  const isDenied = error instanceof ProblemError && error.code === 'permission_missing';
  if (isDenied && error.problem.detail.includes('access:review'))
    return 'No preview: your key lacks access:review. You can save without it.';
  return `No preview. ${describeError(error).title}.`;
}

function ImpactList({ impact }: { impact: ImpactData }) {
  const { changes, sessions, tokens, reads } = impact;
  const atLeast = (isComplete: boolean) => (isComplete ? '' : 'at least ');
  const isEmpty = changes.length + tokens.data.length + reads.data.length + sessions.count === 0;
  if (isEmpty) return <p className="fine">No access changes.</p>;
  return (
    <>
      <ul className="impact-list">
        {reads.data.slice(0, maxRows).map(({ permission, from, to, count, applications }) => (
          <li key={`reads ${permission} ${from} ${to}`}>
            <span>
              {atLeast(reads.complete)}
              <strong>{plural(count, usesOf(permission))}</strong> by {plural(applications, 'application')}{' '}
              change
              {count === 1 ? 's' : ''} from
            </span>{' '}
            <Change from={from} to={to} />
          </li>
        ))}
        {sessions.count > 0 && (
          <li>
            <span>
              {atLeast(sessions.complete)}
              <strong>{plural(sessions.count, 'active session')}</strong>
              {sessions.count === 1 ? ' changes' : ' change'}, such as one of{' '}
              <bdi>{sessions.data[0]?.application.name}</bdi> from
            </span>{' '}
            {sessions.data[0] && (
              <Change
                from={sessions.data[0].from}
                to={sessions.data[0].to}
                scoped={sessions.data[0].container !== undefined}
              />
            )}
          </li>
        )}
        {tokens.data.slice(0, maxRows).map(({ permission, container, from, to, count }) => (
          <li key={`tokens ${permission} ${container} ${from} ${to}`}>
            <span>
              {atLeast(tokens.complete)}
              <strong>{plural(count, 'stored token')}</strong> in <code>{container}</code> ({permission}){' '}
              {count === 1 ? 'changes' : 'change'} from
            </span>{' '}
            <Change from={from} to={to} />
          </li>
        ))}
        {tokens.data.length === 0 &&
          changes.slice(0, maxRows).map(({ permission, container, from, to }) => (
            <li key={`access ${permission} ${container} ${from} ${to}`}>
              <span>
                <code>{permission}</code>
                {container !== undefined && (
                  <>
                    {' '}
                    in <code>{container}</code>
                  </>
                )}{' '}
                changes from
              </span>{' '}
              <Change from={from} to={to} scoped={container !== undefined} />
            </li>
          ))}
      </ul>
      <Notes impact={impact} />
    </>
  );
}

function usesOf(permission: string): string {
  return permission === 'token:read' ? 'read' : `use of ${permission}`;
}

interface ChangeProps {
  readonly from: Outcome;
  readonly to: Outcome;
  readonly scoped?: boolean;
}

function Change({ from, to, scoped = true }: ChangeProps) {
  return (
    <span className="impact-change">
      <AccessBadge access={from} scoped={scoped} /> to <AccessBadge access={to} scoped={scoped} />
    </span>
  );
}

function Notes({ impact: { reads, quarantined } }: { impact: ImpactData }) {
  const recorded = {
    all: `Reads of the last ${days} days.`,
    reveal: `Reads of the last ${days} days. The audit log records only those of plaintext.`,
    off: 'The audit log does not record reads.',
  }[reads.recorded];
  return (
    <p className="fine">
      {recorded}
      {reads.undecided > 0 &&
        ` ${formatNumber(reads.undecided)} could not be compared: too little is recorded about them.`}
      {quarantined && ' The application is in quarantine: this applies after its release.'}
    </p>
  );
}
