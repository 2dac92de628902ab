/** When the permissions of an application were last used. Its unused grants are in advice.tsx. */
import type { Application } from '../../../sdk/src/sallyport.ts';
import { timeAgo } from '../frame/format.ts';
import { useLoad, useNow } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { usageDelay } from './table.tsx';

const maxRows = 6;

export function Usage({ application: { id } }: { application: Application }) {
  const { api } = useSignedIn();
  const now = useNow(30_000);
  const { data } = useLoad(`usage ${id}`, (signal) => api.applications.usage(id, { signal }));
  if (!data) return null;
  const { uses } = data;
  return (
    <section className="card">
      <h2>Usage</h2>
      {uses.length === 0 ? (
        <p className="fine">No recorded use. {usageDelay}</p>
      ) : (
        <ul className="uses">
          {uses.slice(0, maxRows).map(({ permission, container, last_used_at: at }) => (
            <li key={`${permission} ${container}`}>
              <code>{permission}</code> <span className="faint">{container}</span>
              <small>{timeAgo(at, now)}</small>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
