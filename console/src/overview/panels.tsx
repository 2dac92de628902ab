/** Panels of the overview: denials and expiries. */
import type { ReactNode } from 'react';
import type { LogCounts } from '../../../sdk/src/sallyport.ts';
import { ApplicationLink } from '../applications/application-link.tsx';
import { maxNewest } from '../applications/application-store.ts';
import { NotCounted } from '../charts/log-counts.tsx';
import { describeError } from '../frame/error-notice.tsx';
import { countdown, formatDate, formatNumber, plural } from '../frame/format.ts';
import { type Loaded, useNow } from '../frame/load.ts';
import { href } from '../frame/route.ts';
import type { Expiring } from './expiring.ts';
import { expiriesOf, horizons } from './summaries.ts';

const maxRows = 6;

/** A heading, and the error of the request if it failed. */
export function Panel({
  title,
  link,
  loaded,
  children,
}: {
  readonly title: string;
  readonly link?: readonly [label: string, href: string];
  readonly loaded?: Pick<Loaded<unknown>, 'data' | 'error'>;
  readonly children: ReactNode;
}) {
  const error = loaded?.error;
  return (
    <section className="card panel" aria-label={title} aria-busy={loaded && !loaded.data && !error}>
      <div className="panel-head">
        <h2>{title}</h2>
        {link && (
          <a className="panel-link" href={link[1]}>
            {link[0]}
          </a>
        )}
      </div>
      {error !== undefined ? <p className="fine">{describeError(error).title}.</p> : children}
    </section>
  );
}

interface MostDeniedProps {
  readonly loaded: Pick<Loaded<LogCounts>, 'data' | 'error'>;
  readonly inActivity: (query: Record<string, string>) => string;
}

/** The applications with the most denials of the whole period, as the service counts them. */
export function MostDenied({ loaded, inActivity }: MostDeniedProps) {
  const denials = loaded.data?.denials;
  const top = denials?.applications.slice(0, maxRows) ?? [];
  const highest = top[0]?.denials ?? 1;
  const result = 'denied';
  return (
    <Panel title="Most denied" link={['Denials', inActivity({ result })]} loaded={loaded}>
      {denials && top.length === 0 && <p className="fine">No denials are recorded in this period.</p>}
      <ol className="ranking">
        {top.map(({ id, denials: count }) => (
          <li key={id}>
            <ApplicationLink id={id} />
            <a href={inActivity({ result, application: id })} aria-label={plural(count, 'denial')}>
              {formatNumber(count)}
            </a>
            <i className="ranking-bar" style={{ width: `${(100 * count) / highest}%` }} />
          </li>
        ))}
      </ol>
      <NotCounted denials={denials} gaps={loaded.data?.gaps} />
    </Panel>
  );
}

export function Expiries({ expiring }: { expiring: Expiring }) {
  const { list, complete, hasMore, error } = expiring;
  const now = useNow(60_000);
  const { counts: listed, next } = expiriesOf(list, now, maxRows);
  const counts = expiring.counts ?? listed;
  const highest = Math.max(1, ...counts);
  const rows = horizons.map(([label], index) => ({ label, count: counts[index] ?? 0 }));
  const isEmpty = counts.every((count) => count === 0);
  return (
    <Panel title="Expiries" link={['Applications', href('applications')]} loaded={{ data: list, error }}>
      {isEmpty ? (
        complete && <p className="fine">No application expires.</p>
      ) : (
        <ol className="ranking ranking-short">
          {rows
            .filter(({ label, count }) => label !== 'Expired' || count > 0)
            .map(({ label, count }) => (
              <li key={label}>
                <span>{label}</span>
                <span>{formatNumber(count)}</span>
                <i className="ranking-bar" style={{ width: `${(100 * count) / highest}%` }} />
              </li>
            ))}
        </ol>
      )}
      {next.length > 0 && (
        <ul className="lines">
          {next.map(({ id, name, expires_at: at = '' }) => (
            <li key={id}>
              <ApplicationLink id={id} name={name} />
              <span className="countdown" title={formatDate(at)}>
                {countdown(at, now)}
              </span>
            </li>
          ))}
        </ul>
      )}
      {hasMore && (
        <p className="fine">
          {expiring.counts ? 'The list is' : 'Numbers and list are'} of the newest {formatNumber(maxNewest)}{' '}
          applications that expire.
        </p>
      )}
    </Panel>
  );
}
