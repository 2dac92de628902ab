/** The decision by the current rules of an application. */
import type { Application } from '../../../sdk/src/sallyport.ts';
import { DecisionTrace } from '../access/decision-trace.tsx';
import { evaluator, type Resource } from '../access/evaluate.ts';

interface Props {
  readonly application: Application;
  readonly permission: string;
  readonly resource: Resource;
}

export function CurrentDecision({ application, permission, resource }: Props) {
  const isQuarantined = application.quarantined_at !== undefined;
  const decide = evaluator({ holder: 'application', grants: application, isQuarantined });
  return (
    <section className="current-decision" aria-label="Decision with current rules">
      <h2>Decision with current rules</h2>
      <DecisionTrace verdict={decide(permission, resource)} permission={permission} />
    </section>
  );
}
