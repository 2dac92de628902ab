/** The recorded access decision of a log entry. */
import { Button } from '@mantine/core';
import { lazy, type ReactNode, Suspense, useState } from 'react';
import type { LogEntry } from '../../../sdk/src/sallyport.ts';
import { escapeText } from '../../../src/domain/escape.ts';
import { withGrant } from '../access/grants.ts';
import { OutcomeBadge } from '../access/outcome.tsx';
import { useApplicationSummary } from '../applications/application-summary.ts';
import { openReview } from '../applications/stored-draft.ts';
import { InlineError } from '../frame/error-notice.tsx';
import { plural } from '../frame/format.ts';
import { Icon, type IconName } from '../frame/icons.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';

type Decision = NonNullable<LogEntry['decision']>;

/** Loaded on demand, because it contains the decision code of the service. */
const CurrentDecision = lazy(async () => ({
  default: (await import('./current-decision.tsx')).CurrentDecision,
}));

const sentences: Readonly<Record<string, string>> = {
  permission_missing: 'access denied',
  reveal_required: 'the change needs the transform reveal',
  unauthenticated: 'no valid key',
  grant_not_held: 'the key cannot grant a permission that it lacks',
  key_type_refused: 'not allowed for this type of key',
  origin_refused: 'the origin is not allowed',
  nonce_used: 'the nonce was already used',
  nonce_not_found: 'the nonce is unknown or expired',
  unreadable: 'the entry was altered in the database and cannot be read; ask the operator to verify the log',
};

/** Why the operation did not succeed. Undefined if it did. */
export function reasonOf({ reason, decision }: LogEntry): string | undefined {
  return reason === undefined ? undefined : escapeText(decision?.reason ?? sentences[reason] ?? reason);
}

/** The permission that the decision was about. */
function permissionOf({ operation, decision }: LogEntry): string {
  return decision?.missing?.permission ?? operation.replaceAll('.', ':');
}

function ruleLabel({ of, rule }: NonNullable<Decision['rule']>): string {
  return rule === 'permissions' ? `Permissions of the ${of}` : `Rule ${rule} of the ${of}`;
}

function Step({ icon, mark, children }: { icon: IconName; mark: 'won' | 'passed'; children: ReactNode }) {
  return (
    <li className={`trace-step trace-step-${mark}`}>
      <span className="trace-step-mark">
        <Icon name={icon} size={12} />
      </span>
      <div>{children}</div>
    </li>
  );
}

export function RecordedDecision({ entry }: { entry: LogEntry }) {
  const { decision, resource, result } = entry;
  if (!decision) return null;
  const { rule, missing, transform } = decision;
  const ids = resource?.ids ?? [];
  return (
    <section className="trace" aria-label="Decision at that time">
      <h2>Decision at that time</h2>
      <ol>
        <Step icon="down" mark="passed">
          <p>
            <strong>Requested</strong> <code>{permissionOf(entry)}</code>
          </p>
          {resource && (
            <p className="trace-step-reason">
              {ids.length > 0 && (
                <>
                  on{' '}
                  {ids.length === 1 ? (
                    <code>{escapeText(ids[0] ?? '')}</code>
                  ) : (
                    plural(ids.length, 'token')
                  )}{' '}
                </>
              )}
              {resource.container !== undefined && (
                <>
                  in <code>{escapeText(resource.container)}</code>
                </>
              )}
            </p>
          )}
        </Step>
        {rule ? (
          <Step icon={transform ? 'check' : 'cross'} mark={transform ? 'won' : 'passed'}>
            <p>
              <strong>{ruleLabel(rule)}</strong> {transform && <OutcomeBadge answer={transform} />}
            </p>
            {rule.description !== undefined && (
              <p className="trace-step-reason">
                <bdi>{escapeText(rule.description)}</bdi>
              </p>
            )}
          </Step>
        ) : (
          result === 'denied' && (
            <Step icon="cross" mark="passed">
              <p>
                <strong>No rule allowed it</strong>
              </p>
            </Step>
          )
        )}
        {missing && (
          <Step icon="plus" mark="passed">
            <p>
              <strong>Missing grant</strong> <code>{missing.permission}</code>
              {missing.container !== undefined && (
                <>
                  {' '}
                  in <code>{escapeText(missing.container)}</code>
                </>
              )}{' '}
              {missing.transform && <OutcomeBadge answer={missing.transform} />}
            </p>
          </Step>
        )}
      </ol>
      <p className="trace-end">
        <OutcomeBadge answer={transform ?? 'denied'} />
        <span>{reasonOf(entry) ?? (rule ? `Allowed by ${ruleLabel(rule).toLowerCase()}.` : 'Allowed.')}</span>
      </p>
      <div className="actions">
        <Comparison entry={entry} />
        <DraftGrant entry={entry} />
      </div>
    </section>
  );
}

/** Opens a review of the application with the missing grant. A session gets its grants from its authorizer instead. */
function DraftGrant({ entry: { actor, decision } }: { entry: LogEntry }) {
  const signedIn = useSignedIn();
  const [error, setError] = useState<unknown>();
  const id = actor.kind === 'application' ? actor.id : undefined;
  const missing = decision?.missing;
  const isKnown = useApplicationSummary(id);
  if (id === undefined || !missing || !isKnown || !holds(signedIn, 'application:update')) return null;
  const draft = async () => {
    try {
      const application = await signedIn.api.applications.get(id);
      const { permissions, rules } = withGrant(application, missing);
      openReview(application, { permissions: [...permissions], rules: [...rules] });
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <>
      <Button variant="default" size="compact-xs" onClick={draft}>
        Review this grant…
      </Button>
      <InlineError error={error} />
    </>
  );
}

/** Repeats the decision with the current rules. Only for applications: the grants of ended sessions are deleted. */
function Comparison({ entry }: { entry: LogEntry }) {
  const { actor, resource } = entry;
  const id = actor.kind === 'application' ? actor.id : undefined;
  const [open, setOpen] = useState(false);
  if (!useApplicationSummary(id)) return null;
  if (!open) {
    return (
      <Button variant="default" size="compact-xs" onClick={() => setOpen(true)}>
        Compare with current rules
      </Button>
    );
  }
  const { container, ids } = resource ?? {};
  return (
    <Suspense fallback={<p className="fine">Loading…</p>}>
      <CurrentDecision
        id={id as string}
        permission={permissionOf(entry)}
        resource={{ container, ...(ids?.length === 1 && { id: ids[0] }) }}
      />
    </Suspense>
  );
}
