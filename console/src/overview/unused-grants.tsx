/** Unused grants of the whole tenant: totals by risk, and the applications with the riskiest ones. */
import type { AdviceEntry } from '../../../sdk/src/sallyport.ts';
import { Risk } from '../applications/advice.tsx';
import { ApplicationLink } from '../applications/application-link.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { href } from '../frame/route.ts';
import { risks, unusedDays, useUnusedGrants } from '../who/unused.tsx';
import { Panel } from './panels.tsx';

const maxRows = 4;

export function UnusedGrants() {
  const unused = useUnusedGrants();
  const { entries, totals, complete, error } = unused;
  const count = risks.reduce((sum, risk) => sum + totals[risk], 0);
  const all = (risk?: string) =>
    `${href('who')}?${new URLSearchParams({ view: 'unused', ...(risk !== undefined && { risk }) })}`;
  return (
    <Panel
      title="Unused grants"
      link={['All', all()]}
      loaded={{ data: entries, error: entries.length > 0 ? undefined : error }}
    >
      {!complete && count === 0 && <p className="fine">Loading…</p>}
      {complete && count === 0 && <p className="fine">Every grant was used in the last {unusedDays} days.</p>}
      {count > 0 && (
        <ul className="risk-totals" aria-label="Unused grants by risk">
          {risks
            .filter((risk) => totals[risk] > 0)
            .map((risk) => (
              <li key={risk}>
                <a href={all(risk)}>
                  {formatNumber(totals[risk])} <Risk grant={{ risk }} />
                </a>
              </li>
            ))}
        </ul>
      )}
      <ul className="lines">
        {complete &&
          entries.slice(0, maxRows).map((entry) => <Row key={entry.application.id} entry={entry} />)}
      </ul>
      {count > 0 && (
        <p className="fine">
          {plural(count, 'grant')} of {plural(entries.length, 'application')} without recorded use in the last{' '}
          {unusedDays} days{complete ? '' : ' so far'}. Use is recorded within a minute.
        </p>
      )}
    </Panel>
  );
}

function Row({ entry: { application, unused, counts } }: { entry: AdviceEntry }) {
  const riskiest = unused[0];
  const count = risks.reduce((sum, risk) => sum + counts[risk], 0);
  return (
    <li>
      <span className="lines-main">
        <ApplicationLink id={application.id} name={application.name} />{' '}
        {riskiest && <Risk grant={riskiest} />} <span className="fine">{riskiest?.permission}</span>
        {count > 1 && <span className="fine"> and {formatNumber(count - 1)} more</span>}
      </span>
    </li>
  );
}
