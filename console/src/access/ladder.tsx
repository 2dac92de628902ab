/** A decision, drawn: every rule in the order in which they are asked, down to the one that answers. */
import type { DecisionStep } from '../../../sdk/src/sallyport.ts';
import { Icon } from '../frame/icons.tsx';
import { type Answer, Outcome } from './outcome.tsx';

export interface Verdict {
  readonly allowed: boolean;
  readonly transform?: 'redact' | 'mask' | 'reveal';
  readonly reason: string;
  readonly rule?: { readonly of: string; readonly rule: number | 'permissions' };
  readonly trace?: readonly DecisionStep[];
}

export function answerOf({ allowed, transform }: Verdict): Answer {
  return allowed && transform ? transform : 'denied';
}

const holders = { application: 'Application', session: 'Session', authorizer: 'its authorizer' } as const;

function state(step: DecisionStep, decided: boolean): 'won' | 'later' | 'passed' {
  if (decided) return 'later';
  return step.grants && step.matches ? 'won' : 'passed';
}

export function Ladder({ verdict, permission }: { verdict: Verdict; permission: string }) {
  const sides = Map.groupBy(verdict.trace ?? [], (step) => step.of);
  return (
    <div className="ladder">
      {[...sides].map(([of, steps]) => (
        <section key={of} aria-label={`Rules of the ${holders[of]}`}>
          {sides.size > 1 && (
            <h4>{of === 'authorizer' ? 'Its authorizer, which bounds it' : `The ${holders[of]}`}</h4>
          )}
          <ol>
            {steps.map((step, index) => (
              <Rung
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
      <p className="ladder-end">
        <Outcome answer={answerOf(verdict)} />
        <span>{verdict.reason}</span>
      </p>
    </div>
  );
}

function Rung({
  step,
  permission,
  state,
}: {
  step: DecisionStep;
  permission: string;
  state: 'won' | 'later' | 'passed';
}) {
  const title = step.rule === 'permissions' ? 'Plain permissions' : `Rule ${step.rule}`;
  return (
    <li className={`rung rung-${state}`}>
      <span className="rung-mark">
        <Icon name={state === 'won' ? 'check' : state === 'passed' ? 'down' : 'more'} size={12} />
      </span>
      <div>
        <p>
          <strong>{title}</strong>
          {step.priority !== undefined && <span className="faint"> priority {step.priority}</span>}{' '}
          <Outcome answer={step.transform} />
        </p>
        <p className="rung-why">
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
