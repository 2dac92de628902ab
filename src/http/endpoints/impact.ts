/** Previews what an update of an application would change: its access, its sessions, stored tokens, recorded reads. */
import {
  type AccessChange,
  accessChanges,
  accessOf,
  isChange,
  nearestAbove,
  sessionChange,
} from '../../domain/access-change.ts';
import type { AuditedReads } from '../../domain/audit.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { type Impact, maxChanges, maxListedSessions, type Update } from '../../domain/impact.ts';
import type { Store } from '../../store/store.ts';
import { recordedReads } from './impact-reads.ts';
import { nextTurn, ScanBudget, scanSubjects } from './subject-scan.ts';

export interface ImpactOptions {
  readonly since: number;
  readonly auditedReads: AuditedReads;
  readonly isQuarantined: boolean;
}

export async function impactOf(store: Store, update: Update, options: ImpactOptions): Promise<Impact> {
  const changes = accessChanges(update.before, update.after);
  const { since, auditedReads: recorded, isQuarantined } = options;
  return {
    dry_run: true,
    ...(isQuarantined && { quarantined: true as const }),
    changes: changes.slice(0, maxChanges),
    changes_complete: changes.length <= maxChanges,
    sessions: await changedSessions(store, update, changes),
    tokens: await changedTokens(store, update, changes),
    reads: {
      since: timestamp(since),
      recorded,
      ...(changes.length > 0
        ? await recordedReads(store, update, since)
        : { complete: true, undecided: 0, data: [] }),
    },
  };
}

async function changedSessions(
  store: Store,
  { tenantId, applicationId, before, after }: Update,
  changes: readonly AccessChange[],
): Promise<Impact['sessions']> {
  const permissions = new Set(changes.map(({ permission }) => permission));
  const data: Impact['sessions']['data'] = [];
  let [count, isComplete] = [0, true];
  if (permissions.size === 0) return { count, complete: isComplete, data };
  const kinds = ['session'] as const;
  const scan = scanSubjects(store, tenantId, { kinds, limitedBy: applicationId }, new ScanBudget());
  for (;;) {
    const step = await scan.next();
    if (step.done) return { count, complete: isComplete && step.value === undefined, data };
    for (const { id, applicationId, name, grants } of step.value) {
      const { largest, complete } = sessionChange(grants, before, after, permissions);
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
  update: Update,
  changes: readonly AccessChange[],
): Promise<Impact['tokens']> {
  const relevant = changes.filter(({ permission }) => /^token:(read|update|delete)$/.test(permission));
  const containers = relevant.map(({ container = '/' }) => container);
  const outermost = new Set(containers.filter((one) => !isBelowAny(one, containers)));
  const counts = new Map<AccessChange, number>();
  const add = (container: string, count: number) => {
    for (const [permission, some] of Map.groupBy(relevant, ({ permission }) => permission)) {
      const change = changeAt(update, permission, container, some);
      if (change) counts.set(change, (counts.get(change) ?? 0) + count);
    }
  };
  const complete = await countTokens(store, update.tenantId, outermost, add);
  const data = [...counts]
    .map(([{ permission, container = '/', from, to }, count]) => ({ permission, container, from, to, count }))
    .sort((a, b) => b.count - a.count);
  return { complete, data };
}

/** Calls `add` with containers and the number of tokens in them. Returns false if there are too many to count. */
async function countTokens(
  { tokens }: Store,
  tenantId: string,
  containers: Iterable<string>,
  add: (container: string, count: number) => void,
): Promise<boolean> {
  let rest = tokenBudget.total;
  for (const container of containers) {
    let start: string | undefined;
    do {
      if (rest <= 0) return false;
      const batch = await tokens.count(tenantId, { container, start, limit: tokenBudget.batch });
      for (const [own, count] of batch.counts) {
        add(own, count);
        rest -= count;
      }
      start = batch.next;
      await nextTurn();
    } while (start !== undefined);
  }
  return true;
}

function isBelowAny(container: string, others: readonly string[]): boolean {
  return others.some((other) => other !== container && container.startsWith(other));
}

/** Finds the change in `changes` that applies to tokens in a container. Undefined if access to them does not change. */
function changeAt(
  { before, after }: Update,
  permission: string,
  container: string,
  changes: readonly AccessChange[],
): AccessChange | undefined {
  const from = accessOf(before, undefined, permission, { container });
  const to = accessOf(after, undefined, permission, { container });
  if (!isChange(permission, from, to)) return undefined;
  const same = changes.filter((change) => change.from === from && change.to === to);
  const byContainer = new Map(same.map((change) => [change.container ?? '/', change]));
  return byContainer.get(container) ?? nearestAbove(container, byContainer);
}
