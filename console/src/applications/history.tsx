/** Earlier versions of an application, from the audit log. Each can be restored. */
import { Button } from '@mantine/core';
import type { Application, LogEntry } from '../../../sdk/src/sallyport.ts';
import { Actor } from '../activity/actor.tsx';
import { readableChanges } from '../activity/entry.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatDate, timeAgo } from '../frame/format.ts';
import { useNow } from '../frame/load.ts';
import { usePaged } from '../frame/paged.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { Lines } from './review-dialog.tsx';
import { openReview } from './stored-draft.ts';

const pageSize = 20;

/** The fields that the form can set. */
const fields = [
  'name',
  'permissions',
  'rules',
  'allowed_origins',
  'allowed_networks',
  'trusted_issuers',
  'require_bound_sessions',
  'expires_at',
] as const;

/** The fields before the entry, if `after` are those after it. */
function undo(after: Partial<Application>, { difference = {} }: LogEntry): Partial<Application> {
  const changed = fields.filter((field) => difference[field] !== undefined);
  const values = changed.map((field) => [field, difference[field]?.from ?? undefined]);
  return { ...after, ...Object.fromEntries(values) };
}

export function History({ application }: { application: Application }) {
  const signedIn = useSignedIn();
  const { id, modified_at: version } = application;
  const now = useNow(60_000);
  const mayRead = holds(signedIn, 'log:read');
  const entries = usePaged<LogEntry>(`history ${id} ${version}`, async (start, signal) => {
    if (!mayRead) return { data: [], next: undefined };
    const query = { entity: id, result: 'success' as const, size: pageSize, ...(start && { start }) };
    const { data, pagination } = await signedIn.api.logs.list(query, { signal });
    return { data: data.filter(({ difference }) => difference), next: pagination.next };
  });
  if (!mayRead) return null;
  let state: Partial<Application> = application;
  const versions = entries.items.map((entry) => {
    const after = state;
    if (entry.operation === 'application.update') state = undo(state, entry);
    return { entry, after };
  });
  const isOther = (after: Partial<Application>) =>
    fields.some((field) => JSON.stringify(after[field]) !== JSON.stringify(application[field]));
  return (
    <section className="card" aria-label="History">
      <h2>History</h2>
      {entries.error !== undefined && <ErrorNotice error={entries.error} retry={entries.reload} />}
      {!entries.loading && versions.length === 0 && (
        <p className="fine">No changes are in the audit log. Older entries may have been archived.</p>
      )}
      <ol className="history">
        {versions.map(({ entry, after }) => (
          <li key={entry.id}>
            <p>
              <code>{entry.operation}</code>{' '}
              <span title={formatDate(entry.at)}>{timeAgo(entry.at, now)}</span>{' '}
              <span className="faint">by</span> <Actor actor={entry.actor} />
            </p>
            <Lines changes={readableChanges(entry.difference ?? {})} />
            {holds(signedIn, 'application:update') &&
              /^application\.(create|update)$/.test(entry.operation) &&
              isOther(after) && (
                <Button
                  variant="default"
                  size="compact-xs"
                  onClick={() => openReview(application, after)}
                  aria-label={`Restore the state of ${formatDate(entry.at)}`}
                >
                  Restore this state…
                </Button>
              )}
          </li>
        ))}
      </ol>
      {entries.more && (
        <Button variant="default" size="compact-xs" onClick={entries.more}>
          Show older
        </Button>
      )}
    </section>
  );
}
