/** Finds out what an update of an application would have changed for the uses of data in the audit log. */
import {
  type Access,
  accessOf,
  compareAccess,
  isChange,
  namedContainers,
} from '../../../domain/access/change.ts';
import { recordedGrants } from '../../../domain/access/history.ts';
import type { Impact, Update } from '../../../domain/access/impact.ts';
import type { LogEntry, LogGap } from '../../../domain/audit.ts';
import { hasTrait } from '../../../domain/permission.ts';
import { compilePolicy, type Policy, type Resource } from '../../../domain/policy.ts';
import { canonicalContainer } from '../../../domain/rule.ts';
import type { RunSteps, Steps } from '../../../domain/steps.ts';
import type { Store, TokenLocation } from '../../../store/store.ts';

import { scanLog } from './log-scan.ts';

/** Entries per page, and pages per search. */
const pages = { size: 500, max: 20 };
/** Maximum sessions whose authorization is looked up. */
const maxSessions = 200;

type Outcome = readonly [from: Access, to: Access];

/** Decisions about one actor, before and after the update. */
interface Actor {
  readonly decide: (permission: string, resource: Resource) => Outcome;
  readonly policies: readonly Policy[];
}

/** `unaffected`: the update does not apply to the actor. `unknown`: the grants of the actor cannot be found. */
type FoundActor = Actor | 'unaffected' | 'unknown';

export async function recordedReads(
  store: Store,
  run: RunSteps,
  update: Update,
  since: number,
): Promise<Pick<Impact['reads'], 'complete' | 'undecided' | 'data'>> {
  const { tenantId, applicationId } = update;
  const groups = new Map<string, Group>();
  const actors = actorFinder(store, update);
  let undecided = 0;
  const add = async (entries: readonly LogEntry[]) => {
    const uses = entries.filter(isUse);
    const tokens = await locate(store, tenantId, uses);
    const found: (readonly [LogEntry, FoundActor])[] = [];
    for (const entry of uses) found.push([entry, await actors(entry)]);
    await run(decideAgain(found, tokens));
  };
  function* decideAgain(
    found: readonly (readonly [LogEntry, FoundActor])[],
    tokens: ReadonlyMap<string, TokenLocation>,
  ): Steps<void> {
    for (const [entry, actor] of found) {
      if (actor === 'unaffected') continue;
      const outcome = actor === 'unknown' ? undefined : yield* outcomeOf(entry, actor, tokens);
      if (outcome) addTo(groups, outcome, entry);
      else undecided += entry.count ?? 1;
    }
  }
  const own = await scanLog(store, tenantId, { actor: applicationId, from: since }, pages, add);
  const limited = await scanLog(store, tenantId, { authorizer: applicationId, from: since }, pages, add);
  const data = [...groups.values()]
    .map(({ applications, ...group }) => ({ ...group, applications: applications.size }))
    .sort((a, b) => b.count - a.count);
  const complete = own.complete && limited.complete && !own.gaps.some(hasUses);
  return { complete, undecided, data };
}

/**
 * Whether a gap may hide reads. Ignores gaps of masked and redacted reads: another field of the response reports them.
 */
function hasUses({ reason, transforms }: LogGap): boolean {
  return reason === 'archived' || transforms?.includes('reveal') === true;
}

/** Whether the entry is about a use of data. Only such entries have a transform. */
function isUse({ result, decision }: LogEntry): boolean {
  return result === 'success' && decision?.transform !== undefined;
}

function permissionOf({ operation }: LogEntry): string {
  return operation.replaceAll('.', ':');
}

interface Group {
  readonly permission: string;
  readonly from: Access;
  readonly to: Access;
  readonly applications: Set<string>;
  count: number;
}

function addTo(groups: Map<string, Group>, [from, to]: Outcome, entry: LogEntry): void {
  const permission = permissionOf(entry);
  if (!isChange(permission, from, to)) return;
  const name = `${permission} ${from} ${to}`;
  const group = groups.get(name) ?? { permission, from, to, applications: new Set(), count: 0 };
  group.count += entry.count ?? 1;
  if (entry.actor.application_id !== undefined) group.applications.add(entry.actor.application_id);
  groups.set(name, group);
}

/** Returns the current state of the tokens that the entries name. */
async function locate(
  { tokens }: Store,
  tenantId: string,
  entries: readonly LogEntry[],
): Promise<Map<string, TokenLocation>> {
  const ids = [...new Set(entries.flatMap(({ resource }) => resource?.ids ?? []))];
  const located = new Map<string, TokenLocation>();
  for (let from = 0; from < ids.length; from += pages.size)
    for (const token of await tokens.locate(tenantId, ids.slice(from, from + pages.size)))
      located.set(token.id, token);
  return located;
}

function actorFinder(store: Store, { tenantId, applicationId, before, after }: Update) {
  const application: Actor = {
    decide: (permission, resource) => [
      accessOf(before, undefined, permission, resource),
      accessOf(after, undefined, permission, resource),
    ],
    policies: [before, after],
  };
  const sessions = new Map<string, FoundActor>();

  /** Reads the grants of a session or delegation from the audit entry of its authorization or creation. */
  async function session(id: string, operation: string): Promise<FoundActor> {
    const filter = { entity: id, operation, result: 'success' as const };
    const { entries } = await store.audit.list(tenantId, filter, { limit: 1 });
    const { difference } = entries[0] ?? {};
    const [grants, ceiling] = [recordedGrants(difference, 'to'), difference?.ceiling?.to];
    if (!grants || ceiling === undefined) return 'unknown';
    if (!ceiling) return 'unaffected';
    const policy = compilePolicy(grants);
    return {
      decide: (permission, resource) => [
        accessOf(policy, before, permission, resource),
        accessOf(policy, after, permission, resource),
      ],
      policies: [policy, before, after],
    };
  }

  return async ({ actor }: LogEntry): Promise<FoundActor> => {
    if (actor.kind === 'application') return application;
    if (actor.id === undefined || actor.authorized_by !== applicationId) return 'unaffected';
    const known = sessions.get(actor.id);
    if (known || sessions.size >= maxSessions) return known ?? 'unknown';
    const found = await session(
      actor.id,
      actor.kind === 'delegation' ? 'delegation.create' : 'session.authorize',
    );
    sessions.set(actor.id, found);
    return found;
  };
}

/**
 * Returns undefined if the entry has too little information. For one read of several tokens, returns the strictest
 * outcome.
 */
function* outcomeOf(
  entry: LogEntry,
  actor: Actor,
  tokens: ReadonlyMap<string, TokenLocation>,
): Steps<Outcome | undefined> {
  yield;
  const permission = permissionOf(entry);
  const { ids = [], container, omitted = 0 } = entry.resource ?? {};
  if (!hasTrait(permission, 'scoped')) return actor.decide(permission, {});
  if (container === undefined) return undefined;
  const isUniform = isUniformIn(canonicalContainer(container), permission, actor);
  const resources: Resource[] =
    ids.length > 1
      ? ids.map((id) => tokens.get(id) ?? { id })
      : [{ id: ids[0], container, max_uses: tokens.get(ids[0] ?? '')?.max_uses }];
  // One stands for all tokens that the entry does not name.
  if (omitted > 0) resources.push({});
  const outcomes: Outcome[] = [];
  for (const resource of resources) {
    yield;
    const place = resource.container ?? (isUniform ? container : undefined);
    if (place === undefined) return undefined;
    const [outcome, other = outcome] = possibleUses(resource, entry).map((max_uses) =>
      received(actor.decide(permission, { ...resource, container: place, max_uses }), entry),
    );
    if (!outcome || !other || !isSameEffect(permission, outcome, other)) return undefined;
    outcomes.push(outcome);
  }
  outcomes.sort(([, a], [, b]) => compareAccess(a, b));
  const [first] = outcomes;
  const isSame = outcomes.every(([from, to]) => from === first?.[0] && to === first[1]);
  return isSame || (entry.count ?? 1) === 1 ? first : undefined;
}

/**
 * Values of `max_uses` that the token may have had. Those of a deleted token are not recorded, but one that was revealed
 * had none.
 */
function possibleUses({ max_uses }: Resource, { decision }: LogEntry): readonly Resource['max_uses'][] {
  return max_uses === undefined && decision?.transform !== 'reveal' ? [null, 1] : [max_uses];
}

function isSameEffect(permission: string, [from, to]: Outcome, [otherFrom, otherTo]: Outcome): boolean {
  if (from === otherFrom && to === otherTo) return true;
  return !isChange(permission, from, to) && !isChange(permission, otherFrom, otherTo);
}

/**
 * The access that a request gets, depending on whether it stated a purpose. One that got less than the current rules allow counts
 * as one that asked for less with `transform`.
 */
function received(outcome: Outcome, { purpose, decision }: LogEntry): Outcome {
  const most = purpose === undefined ? 'mask' : 'reveal';
  const [from, to] = outcome.map((one) => (one === 'reveal_with_purpose' ? most : one)) as [Access, Access];
  const got = decision?.transform ?? 'reveal';
  if (compareAccess(from, got) <= 0) return [from, to];
  return [got, compareAccess(to, got) > 0 ? got : to];
}

/** Whether the decision is the same for every token in the container and below. */
function isUniformIn(container: string, permission: string, { policies }: Actor): boolean {
  const named = namedContainers(policies, permission);
  const hasIds = policies.some(({ rules }) =>
    rules.some(({ conditions }) => conditions.some(({ attribute }) => attribute === 'id')),
  );
  return !hasIds && !named.some((other) => other !== container && other.startsWith(container));
}
