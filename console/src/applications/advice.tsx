/** Grants of an application that were not used, and a proposal of smaller grants. */
import { Button } from '@mantine/core';
import { useState } from 'react';
import type { AdviceEntry, Application, RankedGrant } from '../../../sdk/src/sallyport.ts';
import { differences } from '../access/grants.ts';
import { OutcomeBadge } from '../access/outcome.tsx';
import { Choice } from '../frame/choice.tsx';
import { describeError } from '../frame/error-notice.tsx';
import { formatDate, formatNumber, plural } from '../frame/format.ts';
import { useLoad } from '../frame/load.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { Lines } from './review-dialog.tsx';
import { openDraft } from './stored-draft.ts';
import { usageDelay } from './table.tsx';

const periods = ['30', '90', '365'].map((days) => [days, `${days} days`] as const);
const maxRows = 8;

export function Advice({ application }: { application: Application }) {
  const { api } = useSignedIn();
  const [days, setDays] = useState('90');
  const { id } = application;
  const { data, error } = useLoad(`advice ${id} ${days}`, async (signal) => {
    const { data } = await api.access.advise({ application_id: id, days: Number(days) }, { signal });
    return { advice: data[0] };
  });
  return (
    <section className="card" aria-label="Unused grants" aria-busy={!data && error === undefined}>
      <div className="panel-head">
        <h2>Unused grants</h2>
        <Choice label="Period" value={days} options={periods} choose={setDays} />
      </div>
      {error !== undefined && <p className="fine">{describeError(error).title}.</p>}
      {data &&
        (data.advice ? (
          <AdviceList application={application} advice={data.advice} />
        ) : (
          <p className="fine">Every grant was used in the last {days} days.</p>
        ))}
    </section>
  );
}

function AdviceList({ application, advice }: { application: Application; advice: AdviceEntry }) {
  const { unused, proposal, since } = advice;
  return (
    <div className="stack-tight">
      {unused.length > 0 && (
        <>
          <p className="fine">
            {plural(unused.length, 'grant')} without recorded use since {formatDate(since)}, riskiest first.{' '}
            {usageDelay}
          </p>
          <ul className="uses">
            {unused.slice(0, maxRows).map((grant) => (
              <li key={`${grant.permission} ${grant.rule}`}>
                <code>{grant.permission}</code>
                <span className="faint">
                  {grant.rule === 'permissions'
                    ? 'in all containers'
                    : `in ${grant.container} (rule ${grant.rule})`}
                </span>
                <small>
                  <Risk grant={grant} />
                </small>
              </li>
            ))}
          </ul>
          {unused.length > maxRows && (
            <p className="fine">and {formatNumber(unused.length - maxRows)} more</p>
          )}
        </>
      )}
      {proposal ? (
        <Proposal application={application} proposal={proposal} />
      ) : (
        <p className="fine">{noProposal(application, since)}</p>
      )}
    </div>
  );
}

function noProposal({ last_used_at: used }: Application, since: string): string {
  if (used === undefined || used < since)
    return 'The application has no recorded use in this period. Delete it if it is not needed.';
  return 'No proposal: without these grants, other rules would allow more, or access that was used would change.';
}

export function Risk({ grant: { risk } }: { grant: Pick<RankedGrant, 'risk'> }) {
  if (risk === 'management') return <span className="tag tag-bad">management</span>;
  if (risk === 'change') return <span className="tag tag-warn">change</span>;
  return <OutcomeBadge answer={risk} />;
}

interface ProposalProps {
  readonly application: Application;
  readonly proposal: NonNullable<AdviceEntry['proposal']>;
}

function Proposal({ application, proposal }: ProposalProps) {
  const mayChange = holds(useSignedIn(), 'application:update');
  return (
    <>
      <h3>Proposal</h3>
      <p className="fine">Smaller grants that cover all recorded use of this period:</p>
      <Lines changes={differences(application, { ...application, ...proposal })} />
      {mayChange && (
        <div>
          <Button variant="default" onClick={() => openDraft(application, proposal)}>
            Open in editor
          </Button>
        </div>
      )}
    </>
  );
}
