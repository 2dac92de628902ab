/** Which grants are used, and which never were: those may not be needed. */
import type { Application } from '../../../sdk/src/sallyport.ts';
import { useLoad, useNow } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { ago, plural } from '../frame/words.ts';

const most = 6;

export function Usage({ application: { id } }: { application: Application }) {
  const { api } = useSignedIn();
  const now = useNow(30_000);
  const { data } = useLoad(`usage ${id}`, (signal) => api.applications.usage(id, { signal }));
  if (!data) return null;
  const { uses, unused } = data;
  return (
    <section className="card">
      <h2>Use</h2>
      {uses.length === 0 ? (
        <p className="fine">Nothing of what it may do was ever used.</p>
      ) : (
        <ul className="uses">
          {uses.slice(0, most).map(({ permission, container, last_used_at: at }) => (
            <li key={`${permission} ${container}`}>
              <code>{permission}</code> <span className="faint">{container}</span>
              <small>{ago(at, now)}</small>
            </li>
          ))}
        </ul>
      )}
      {uses.length > 0 && unused.length > 0 && (
        <p className="fine">
          {plural(unused.length, 'grant')} never used:{' '}
          {unused
            .slice(0, most)
            .map(
              ({ permission, rule }) =>
                `${permission} (${rule === 'permissions' ? 'plain' : `rule ${rule}`})`,
            )
            .join(', ')}
          {unused.length > most && ' …'}
        </p>
      )}
    </section>
  );
}
