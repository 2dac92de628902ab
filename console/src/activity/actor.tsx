/** Names of actors and applications in the log. */
import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { useApplications } from '../applications/application-store.ts';
import { shortId } from '../frame/format.ts';
import { href } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';

export function ApplicationLink({ id }: { id: string }) {
  const { byId } = useApplications(useSignedIn().applications);
  return (
    <a className="link" href={href('applications', id)}>
      <bdi>{byId.get(id)?.name ?? shortId(id)}</bdi>
    </a>
  );
}

export function Actor({ actor }: Pick<LogEntry, 'actor'>) {
  const id = actor.application_id ?? actor.id;
  if (actor.kind === 'unknown') return <span>Unknown caller</span>;
  if (actor.kind === 'operator') return <span>Operator</span>;
  if (actor.kind === 'anonymous' || id === undefined) return <span>Caller without a valid key</span>;
  return (
    <>
      {actor.kind === 'session' && 'Session of '}
      <ApplicationLink id={id} />
    </>
  );
}
