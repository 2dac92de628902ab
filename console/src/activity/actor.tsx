import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { escapeText } from '../../../src/domain/escape.ts';
import { ApplicationLink } from '../applications/application-link.tsx';
import { href } from '../frame/route.ts';

export function Actor({ actor }: Pick<LogEntry, 'actor'>) {
  const id = actor.application_id ?? actor.id;
  if (actor.kind === 'unknown') return <span>Unknown caller</span>;
  if (actor.kind === 'operator') return <span>Operator</span>;
  if (actor.kind === 'anonymous' || id === undefined) return <span>Caller without a valid key</span>;
  return (
    <>
      {actor.person && (
        <>
          <PersonLink person={actor.person} /> as{' '}
        </>
      )}
      {actor.kind === 'session' && 'Session of '}
      {actor.kind === 'delegation' && 'Delegation of '}
      <ApplicationLink id={id} />
    </>
  );
}

/** Opens what the person changed in the last 30 days. */
export function PersonLink({ person }: { person: NonNullable<LogEntry['actor']['person']> }) {
  const { subject, name, email } = person;
  const query = new URLSearchParams({ person: subject, result: 'changes', period: '30d' });
  return (
    <a className="link" href={`${href('activity')}?${query}`} title={escapeText(email ?? subject)}>
      <bdi>{escapeText(name ?? email ?? subject)}</bdi>
    </a>
  );
}
