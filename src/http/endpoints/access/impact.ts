/** Previews what an update of an application would change: its access, its sessions, stored tokens, recorded reads. */
import {
  type AccessChange,
  accessChanges,
  accessOf,
  isChange,
  nearestAbove,
  sessionChange,
} from '../../../domain/access/change.ts';
import { type Impact, maxChanges, maxListedSessions, type Update } from '../../../domain/access/impact.ts';
import type { AuditedReads } from '../../../domain/audit.ts';
import { timestamp } from '../../../domain/common-fields.ts';
import type { Resource } from '../../../domain/policy.ts';
import { type RunSteps, StepBudget, type Steps } from '../../../domain/steps.ts';
import type { Store, TokenCounts } from '../../../store/store.ts';

import { recordedReads } from './impact-reads.ts';
import { ScanBudget, scanSubjects } from './subject-scan.ts';

export interface ImpactOptions {
  readonly since: number;
  readonly auditedReads: AuditedReads;
  readonly isQuarantined: boolean;
}

export async function impactOf(
  store: Store,
  run: RunSteps,
  update: Update,
  options: ImpactOptions,
): Promise<Impact> {
  const changes = await run(accessChanges(update.before, update.after));
  const { since, auditedReads: recorded, isQuarantined } = options;
  return {
    dry_run: true,
    ...(isQuarantined && { quarantined: true as const }),
    changes: changes.slice(0, maxChanges),
    changes_complete: changes.length <= maxChanges,
    sessions: await changedSessions(store, run, update, changes),
    tokens: await changedTokens(store, run, update, changes),
    reads: {
      since: timestamp(since),
      recorded,
      ...(changes.length > 0
        ? await recordedReads(store, run, update, since)
        : { complete: true, undecided: 0, data: [] }),
    },
  };
}

/** Maximum steps to compare sessions: about a second. */
const maxSessionSteps = 200_000;

async function changedSessions(
  store: Store,
  run: RunSteps,
  { tenantId, applicationId, before, after }: Update,
  changes: readonly AccessChange[],
): Promise<Impact['sessions']> {
  const permissions = new Set(changes.map(({ permission }) => permission));
  const data: Impact['sessions']['data'] = [];
  let [count, isComplete] = [0, true];
  if (permissions.size === 0) return { count, complete: isComplete, data };
  const kinds = ['session'] as const;
  const budget = new StepBudget(maxSessionSteps);
  const scan = scanSubjects(store, tenantId, { kinds, limitedBy: applicationId }, new ScanBudget());
  for (;;) {
    const step = await scan.next();
    if (step.done) return { count, complete: isComplete && step.value === undefined, data };
    for (const subject of step.value) {
      if (budget.isSpent) return { count, complete: false, data };
      const { id, applicationId, name } = subject;
      const steps = sessionChange(subject.grants, before, after, permissions);
      const { largest, complete } = await run(budget.count(steps));
      if (!complete) isComplete = false;
      if (!largest) continue;
      count++;
      if (data.length < maxListedSessions)
        data.push({ id, application: { id: applicationId, name }, ...largest });
    }
  }
}

/** Maximum tokens that a preview counts: in total, and per query. */
const tokenBudget = { total: 20_000, batch: 1000 };

async function changedTokens(
  store: Store,
  run: RunSteps,
  update: Update,
  changes: readonly AccessChange[],
): Promise<Impact['tokens']> {
  const relevant = changes.filter(({ permission }) => /^token:(read|update|delete)$/.test(permission));
  const containers = relevant.map(({ container = '/' }) => container);
  const outermost = new Set(containers.filter((one) => !isBelowAny(one, containers)));
  const counts = new Map<string, Impact['tokens']['data'][number]>();
  const byPermission = Map.groupBy(relevant, ({ permission }) => permission);
  function* add(found: TokenCounts['counts']): Steps<void> {
    for (const { count, ...resource } of found)
      for (const [permission, some] of byPermission) {
        yield;
        const change = changeAt(update, permission, resource, some);
        const name = JSON.stringify(change);
        if (change) counts.set(name, { ...change, count: (counts.get(name)?.count ?? 0) + count });
      }
  }
  const complete = await countTokens(store, update.tenantId, outermost, (found) => run(add(found)));
  return { complete, data: [...counts.values()].sort((a, b) => b.count - a.count) };
}

/** Calls `add` with batches of counts. Returns false if there are too many tokens to count. */
async function countTokens(
  { tokens }: Store,
  tenantId: string,
  containers: Iterable<string>,
  add: (found: TokenCounts['counts']) => Promise<void>,
): Promise<boolean> {
  let rest = tokenBudget.total;
  for (const container of containers) {
    let start: string | undefined;
    do {
      if (rest <= 0) return false;
      const batch = await tokens.count(tenantId, { container, start, limit: tokenBudget.batch });
      await add(batch.counts);
      for (const { count } of batch.counts) rest -= count;
      start = batch.next;
    } while (start !== undefined);
  }
  return true;
}

function isBelowAny(container: string, others: readonly string[]): boolean {
  return others.some((other) => other !== container && container.startsWith(other));
}

/**
 * Finds the change in `changes` that applies to tokens in a container. Undefined if access to them does not change.
 * Tokens with `max_uses` may change less than others.
 */
function changeAt(
  { before, after }: Update,
  permission: string,
  tokens: Resource & { readonly container: string },
  changes: readonly AccessChange[],
) {
  const compare = (resource: Resource) => ({
    from: accessOf(before, undefined, permission, resource),
    to: accessOf(after, undefined, permission, resource),
  });
  const { container } = tokens;
  const [{ from, to }, own] = [compare({ container }), compare(tokens)];
  if (!isChange(permission, own.from, own.to)) return undefined;
  const same = changes.filter((change) => change.from === from && change.to === to);
  const byContainer = new Map(same.map((change) => [change.container ?? '/', change]));
  const change = byContainer.get(container) ?? nearestAbove(container, byContainer);
  return change && { permission, container: change.container ?? '/', ...own };
}
