/** Grants without recorded use, of all applications, riskiest first. */
import { Button } from '@mantine/core';
import { useEffect, useState } from 'react';
import type { AdviceEntry } from '../../../sdk/src/sallyport.ts';
import { Risk as RiskBadge } from '../applications/advice.tsx';
import { ApplicationLink } from '../applications/application-link.tsx';
import { Choice } from '../frame/choice.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { SkeletonRows } from '../frame/skeleton.tsx';
import { TableTools } from '../frame/table-tools.tsx';

/** From the highest risk to the lowest. */
export const risks = ['management', 'reveal', 'change', 'mask', 'redact'] as const;
type Risk = (typeof risks)[number];

export const unusedDays = 90;
const pageSize = 100;

export interface Unused {
  /** Applications with unused grants, riskiest first. */
  readonly entries: readonly AdviceEntry[];
  /** Unused grants of the loaded entries. */
  readonly totals: Readonly<Record<Risk, number>>;
  /** Whether all applications of the tenant are included. */
  readonly complete: boolean;
  readonly error: unknown;
}

const noTotals: Unused['totals'] = { management: 0, reveal: 0, change: 0, mask: 0, redact: 0 };

/** Riskiest grants first, then those with more of them. */
export function byRisk(a: AdviceEntry, b: AdviceEntry): number {
  for (const risk of risks) {
    const difference = b.counts[risk] - a.counts[risk];
    if (difference !== 0) return difference;
  }
  return a.application.name < b.application.name ? -1 : 1;
}

/** The service compares up to 1,000 applications per page. All pages are read. */
export function useUnusedGrants(): Unused & { readonly reload: () => void } {
  const { api } = useSignedIn();
  const [state, setState] = useState<Unused>({
    entries: [],
    totals: noTotals,
    complete: false,
    error: undefined,
  });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    void attempt;
    const { signal, ...controller } = abortable();
    const load = async () => {
      const entries: AdviceEntry[] = [];
      const totals = { ...noTotals };
      let start: string | undefined;
      let shown = 0;
      do {
        const query = { summary: 'true' as const, days: unusedDays, size: 1000, ...(start && { start }) };
        const { data, pagination } = await api.access.advise(query, { signal });
        for (const { counts } of data) for (const risk of risks) totals[risk] += counts[risk];
        entries.push(...data);
        start = pagination.next;
        if (signal.aborted) return;
        const complete = start === undefined;
        // To sort and draw all entries after each page would take longer than to load them.
        if (!complete && entries.length < 2 * shown) continue;
        shown = entries.length;
        setState({ entries: entries.toSorted(byRisk), totals: { ...totals }, complete, error: undefined });
      } while (start !== undefined);
    };
    load().catch((error: unknown) => signal.aborted || setState((old) => ({ ...old, error })));
    return controller.abort;
  }, [api, attempt]);
  return { ...state, reload: () => setAttempt(attempt + 1) };
}

function abortable() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}

export function UnusedGrantsList() {
  const { entries, totals, complete, error, reload } = useUnusedGrants();
  const [{ risk }, set] = useRouteQuery({ risk: 'all' });
  const [count, setCount] = useState(pageSize);
  const chosen = risks.find((each) => each === risk);
  const visible = chosen ? entries.filter(({ counts }) => counts[chosen] > 0) : entries;
  const sum = chosen ? totals[chosen] : risks.reduce((total, each) => total + totals[each], 0);
  return (
    <>
      <Choice
        label="Risk"
        value={chosen ?? 'all'}
        options={[
          ['all', 'All'],
          ...risks.map((each) => [each, `${each} ${formatNumber(totals[each])}`] as const),
        ]}
        choose={(next) => set({ risk: next })}
      />
      {error !== undefined && <ErrorNotice error={error} retry={reload} />}
      {!complete && entries.length === 0 && error === undefined && <SkeletonRows rows={4} />}
      {complete && visible.length === 0 && (
        <div className="empty">
          <Icon name="check" size={28} />
          <h2>No unused grants</h2>
          <p>Every such grant was used in the last {unusedDays} days.</p>
        </div>
      )}
      {visible.length > 0 && (
        <>
          <p className="quiet changes-period" aria-live="polite">
            {plural(sum, 'grant')} of {plural(visible.length, 'application')} without recorded use in the last{' '}
            {unusedDays} days{complete ? '' : ', still counting…'}
          </p>
          <TableTools
            name="unused-grants"
            head={['Application', 'ID', ...risks]}
            rows={() =>
              visible.map(({ application, counts }) => [
                ...[application.name, application.id],
                ...risks.map((each) => String(counts[each])),
              ])
            }
          />
          <div className="who-table" role="table" aria-label="Unused grants">
            <div className="who-head unused-row" role="row">
              {['Application', 'Riskiest', ...risks].map((label) => (
                <span key={label} role="columnheader">
                  {label}
                </span>
              ))}
            </div>
            <div role="rowgroup">
              {visible.slice(0, count).map((entry) => (
                <Row key={entry.application.id} entry={entry} />
              ))}
            </div>
          </div>
        </>
      )}
      {visible.length > count && (
        <div className="foot">
          <span className="fine">
            First {formatNumber(count)} of {formatNumber(visible.length)} applications
          </span>
          <Button variant="default" onClick={() => setCount(count + pageSize)}>
            Show more
          </Button>
        </div>
      )}
    </>
  );
}

function Row({ entry: { application, unused, counts } }: { entry: AdviceEntry }) {
  const [riskiest] = unused;
  return (
    <div role="row" className="who-row unused-row">
      <span role="cell">
        <ApplicationLink id={application.id} name={application.name} />
      </span>
      <span role="cell">
        {riskiest && (
          <>
            <RiskBadge grant={riskiest} /> <code>{riskiest.permission}</code>{' '}
            {riskiest.rule !== 'permissions' && (
              <>
                <span className="faint">in</span> <code>{riskiest.container}</code>
              </>
            )}
          </>
        )}
      </span>
      {risks.map((risk) => (
        <span key={risk} role="cell" className={counts[risk] === 0 ? 'faint' : undefined}>
          {formatNumber(counts[risk])}
        </span>
      ))}
    </div>
  );
}
