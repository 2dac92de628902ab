/** The decision that the current rules of an application would give. */
import { DecisionTrace } from '../access/decision-trace.tsx';
import { evaluator, type Resource } from '../access/evaluate.ts';
import { InlineError } from '../frame/error-notice.tsx';
import { useLoad } from '../frame/load.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';

interface Props {
  /** The id of the application. */
  readonly id: string;
  readonly permission: string;
  readonly resource: Resource;
}

export function CurrentDecision({ id, permission, resource }: Props) {
  const signedIn = useSignedIn();
  const { data, error } = useLoad(`decision ${id} ${resource.id}`, async (signal) => {
    const { applications, tokens } = signedIn.api;
    const ids = resource.id !== undefined && holds(signedIn, 'token:read') ? [resource.id] : [];
    const [found, stored] = await Promise.all([
      applications.get(id, { signal }),
      ids.length > 0 ? tokens.list({ id: ids, transform: 'redact' }, { signal }) : undefined,
    ]);
    return { ...found, max_uses: stored?.data[0]?.max_uses };
  });
  if (!data) return error === undefined ? <p className="fine">Loading…</p> : <InlineError error={error} />;
  const isQuarantined = data.quarantined_at !== undefined;
  const decide = evaluator({ holder: 'application', grants: data, isQuarantined });
  return (
    <section className="current-decision" aria-label="Decision with current rules">
      <h2>Decision with current rules</h2>
      <DecisionTrace
        verdict={decide(permission, { ...resource, max_uses: data.max_uses })}
        permission={permission}
      />
    </section>
  );
}
