import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { ApplicationLink } from '../applications/application-link.tsx';

export function Actor({ actor }: Pick<LogEntry, 'actor'>) {
  const id = actor.application_id ?? actor.id;
  if (actor.kind === 'unknown') return <span>Unknown caller</span>;
  if (actor.kind === 'operator') return <span>Operator</span>;
  if (actor.kind === 'anonymous' || id === undefined) return <span>Caller without a valid key</span>;
  return (
    <>
      {actor.kind === 'session' && 'Session of '}
      {actor.kind === 'delegation' && 'Delegation of '}
      <ApplicationLink id={id} />
    </>
  );
}
