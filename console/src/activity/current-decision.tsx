/** The decision that the current rules of an application would give. */
import { DecisionTrace } from '../access/decision-trace.tsx';
import { evaluator, type Resource } from '../access/evaluate.ts';
import { InlineError } from '../frame/error-notice.tsx';
import { useLoad } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';

interface Props {
  /** The id of the application. */
  readonly id: string;
  readonly permission: string;
  readonly resource: Resource;
}

export function CurrentDecision({ id, permission, resource }: Props) {
  const { api } = useSignedIn();
  const { data, error } = useLoad(`application ${id}`, (signal) => api.applications.get(id, { signal }));
  if (!data) return error === undefined ? <p className="fine">Loading…</p> : <InlineError error={error} />;
  const isQuarantined = data.quarantined_at !== undefined;
  const decide = evaluator({ holder: 'application', grants: data, isQuarantined });
  return (
    <section className="current-decision" aria-label="Decision with current rules">
      <h2>Decision with current rules</h2>
      <DecisionTrace verdict={decide(permission, resource)} permission={permission} />
    </section>
  );
}
