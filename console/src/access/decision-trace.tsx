/** Shows how a decision was made: every rule in evaluation order, with the one that decided. */
import type { DecisionStep } from '../../../sdk/src/sallyport.ts';
import { Icon } from '../frame/icons.tsx';
import { type Outcome, OutcomeBadge, outcomeIn } from './outcome.tsx';

export interface DecisionResult {
  readonly allowed: boolean;
  readonly transform?: 'redact' | 'mask' | 'reveal';
  readonly require_purpose?: boolean;
  readonly reason: string;
  readonly rule?: { readonly of: string; readonly rule: number | 'permissions' };
  readonly trace?: readonly DecisionStep[];
}

export function outcomeOf({ allowed, transform, require_purpose }: DecisionResult): Outcome {
  return allowed && transform
    ? outcomeIn({ transform, ...(require_purpose && { require_purpose }) })
    : 'denied';
}

function state(step: DecisionStep, decided: boolean): 'won' | 'later' | 'passed' {
  if (decided) return 'later';
  return step.grants && step.matches ? 'won' : 'passed';
}

export function DecisionTrace({ verdict, permission }: { verdict: DecisionResult; permission: string }) {
  const sides = Map.groupBy(verdict.trace ?? [], (step) => step.of);
  return (
    <div className="trace">
      {[...sides].map(([of, steps]) => (
        <section key={of} aria-label={`Rules of the ${of}`}>
          {sides.size > 1 && (
            <h4>{of === 'authorizer' ? 'Authorizer (limits this key)' : `Rules of the ${of}`}</h4>
          )}
          <ol>
            {steps.map((step, index) => (
              <TraceStep
                key={step.rule}
                step={step}
                permission={permission}
                state={state(
                  step,
                  steps.slice(0, index).some((earlier) => earlier.grants && earlier.matches),
                )}
              />
            ))}
          </ol>
        </section>
      ))}
      <p className="trace-end">
        <OutcomeBadge answer={outcomeOf(verdict)} />
        <span>{verdict.reason}</span>
      </p>
    </div>
  );
}

function TraceStep({
  step,
  permission,
  state,
}: {
  step: DecisionStep;
  permission: string;
  state: 'won' | 'later' | 'passed';
}) {
  const title = step.rule === 'permissions' ? 'Permissions' : `Rule ${step.rule}`;
  return (
    <li className={`trace-step trace-step-${state}`}>
      <span className="trace-step-mark">
        <Icon name={state === 'won' ? 'check' : state === 'passed' ? 'down' : 'more'} size={12} />
      </span>
      <div>
        <p>
          <strong>{title}</strong>
          {step.priority !== undefined && <span className="faint"> priority {step.priority}</span>}{' '}
          <OutcomeBadge answer={outcomeIn(step)} />
        </p>
        <p className="trace-step-reason">
          <span className={step.matches ? 'yes' : 'no'}>{step.why}</span>
          {' · '}
          <span className={step.grants ? 'yes' : 'no'}>
            {step.grants ? `grants ${permission}` : `does not grant ${permission}`}
          </span>
        </p>
      </div>
    </li>
  );
}
