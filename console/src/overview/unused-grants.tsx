/** Unused grants of the riskiest applications, with proposals. */
import { Button } from '@mantine/core';
import { useMemo } from 'react';
import type { AdviceEntry, Application } from '../../../sdk/src/sallyport.ts';
import { Risk } from '../applications/advice.tsx';
import { ApplicationLink } from '../applications/application-link.tsx';
import { useNewestApplications } from '../applications/application-store.ts';
import { openDraft } from '../applications/stored-draft.ts';
import { formatNumber, plural } from '../frame/format.ts';
import { useLoad } from '../frame/load.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { Panel } from './panels.tsx';
import { byRisk, riskOf } from './summaries.ts';

const maxRows = 4;
const days = 90;
/** Maximum number of applications that are reviewed, riskiest first. */
const maxReviewed = 20;
const concurrency = 4;
/** Maximum number of permissions that a row names. */
const maxNames = 2;

export function UnusedGrants() {
  const { api, applications } = useSignedIn();
  const { list, byId, complete, error } = useNewestApplications(applications);
  const reviewed = useMemo(
    () => (complete ? list.toSorted((a, b) => riskOf(b) - riskOf(a)).slice(0, maxReviewed) : undefined),
    [list, complete],
  );
  const loaded = useLoad(`unused ${reviewed?.map(({ id }) => id).join()}`, async (signal) => {
    if (!reviewed) return undefined;
    const found: AdviceEntry[] = [];
    const waiting = [...reviewed];
    const next = async () => {
      for (let one = waiting.shift(); one; one = waiting.shift()) {
        const { data } = await api.access.advise({ application_id: one.id, days }, { signal });
        found.push(...data);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, next));
    return found.sort(byRisk);
  });
  const advice = loaded.data;
  const count = advice?.reduce((sum, { unused }) => sum + unused.length, 0) ?? 0;
  return (
    <Panel title="Unused grants" loaded={error === undefined ? loaded : { data: undefined, error }}>
      {!advice && <p className="fine">Loading…</p>}
      {count === 0 && advice && <p className="fine">Every grant was used in the last {days} days.</p>}
      <ul className="lines">
        {advice?.slice(0, maxRows).map((entry) => (
          <Row key={entry.application.id} entry={entry} application={byId.get(entry.application.id)} />
        ))}
      </ul>
      {count > 0 && (
        <p className="fine">
          {plural(count, 'grant')} without recorded use in the last {days} days
          {list.length > maxReviewed && `, in the ${maxReviewed} riskiest applications`}. Use is recorded
          within a minute.
        </p>
      )}
    </Panel>
  );
}

interface RowProps {
  readonly entry: AdviceEntry;
  readonly application: Application | undefined;
}

function Row({ entry: { application: subject, unused, proposal }, application }: RowProps) {
  const mayChange = holds(useSignedIn(), 'application:update');
  const permissions = [...new Set(unused.map(({ permission }) => permission))];
  const riskiest = unused[0];
  return (
    <li>
      <span className="lines-main">
        <ApplicationLink id={subject.id} name={subject.name} /> {riskiest && <Risk grant={riskiest} />}{' '}
        <span className="fine">
          {permissions.slice(0, maxNames).join(', ')}
          {permissions.length > maxNames && ` and ${formatNumber(permissions.length - maxNames)} more`}
        </span>
      </span>
      {proposal && application && mayChange && (
        <Button
          variant="default"
          size="compact-xs"
          aria-label={`Open the proposal for ${subject.name}`}
          onClick={() => openDraft(application, proposal)}
        >
          Proposal
        </Button>
      )}
    </li>
  );
}
