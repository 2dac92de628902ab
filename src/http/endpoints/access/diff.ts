/** Lists who gained or lost access between two times. */
import { z } from 'zod';
import {
  Access,
  type AccessChange,
  accessChanges,
  accessOf,
  isChange,
} from '../../../domain/access/change.ts';
import {
  type ApplicationState,
  accessOperations,
  policyAt,
  stateBefore,
} from '../../../domain/access/history.ts';
import type { LogEntry } from '../../../domain/audit.ts';
import { DateTime, Flag, Text, Timestamp, timestamp, Uuid } from '../../../domain/common-fields.ts';
import { throwIfInvalid } from '../../../domain/error.ts';
import { hasTrait, Permission } from '../../../domain/permission.ts';
import type { Policy } from '../../../domain/policy.ts';
import { Container, canonicalContainer, endOfRule } from '../../../domain/rule.ts';
import { type Reserve, StepBudget, type Steps } from '../../../domain/steps.ts';
import type { Store } from '../../../store/store.ts';
import { readEndpoint, reply } from '../../pipeline/route.ts';
import { example } from '../../reference/examples.ts';
import { scanLog } from './log-scan.ts';

const maxListed = 200;
const maxEvents = 10;
/** Page size, and maximum pages of audit entries that are read for each operation. */
const pages = { size: 200, max: 10 };
const maxNewPages = 20;
/** Maximum applications that are read of those that have expired but are still stored, and of those with ended rules. */
const maxEnded = 2000;
/** Maximum steps of the comparison: about a second. */
const maxSteps = 200_000;

const Query = z.strictObject({
  from: DateTime.meta({ description: 'The earlier time.', examples: [example.accessDiff.from] }),
  to: DateTime.optional().describe('The later time. Now by default.'),
  container: Container.optional().describe(
    'Only access to tokens in this container. By default, access to every container and all other permissions.',
  ),
  permission: Permission.optional().describe('Only this permission. All by default.'),
});

const Event = z.object({
  at: Timestamp.describe('When it happened.'),
  operation: Text.describe(
    'The operation, such as `application.update`, or `application.rule.end` when a rule ended.',
  ),
  by: Uuid.optional().describe('The application or session that did it. Absent for operators and expiry.'),
  entry: Uuid.optional().describe('The id of the entry in the audit log. Absent if it has none.'),
});

const DiffEntry = z
  .object({
    application: z
      .object({
        id: Uuid.describe('The id of the application.'),
        name: Text.describe('Its name at the later time, or its last one.'),
      })
      .describe('Who gained or lost access.'),
    permission: Text.describe('The permission.'),
    container: Text.optional().describe(
      'The container, and those below it without another rule. Absent for permissions without containers.',
    ),
    destination: Uuid.optional().describe('The destination, for `token:use`.'),
    from: Access.describe('The decision at the earlier time.'),
    to: Access.describe('The decision at the later time.'),
    events: z
      .array(Event)
      .describe(`What changed the application in between, oldest first. At most the last ${maxEvents}.`),
  })
  .meta({ id: 'AccessDiffEntry' });
type DiffEntry = z.infer<typeof DiffEntry>;

const AccessDiff = z
  .object({
    from: Timestamp.describe('The earlier time of the comparison.'),
    to: Timestamp.describe('The later time of the comparison.'),
    recorded_since: Timestamp.optional().describe(
      'Entries before this time were archived, so `from` is this time instead of the one in the request. Absent if no entry is missing.',
    ),
    complete: Flag.describe(
      'False if there were too many changes to read, compare or list all of them. Compare shorter periods then.',
    ),
    unknown: z
      .array(z.uuid())
      .describe('Applications that were changed, without a record of their access before the change.'),
    data: z.array(DiffEntry).max(maxListed).describe('Who gained, lost or has other access.'),
  })
  .meta({ id: 'AccessDiff' });

export const diffAccess = readEndpoint({
  name: 'diffAccess',
  mayTakeLong: true,
  tag: 'Access review',
  summary: 'Find out who gained and lost access',
  description:
    'Compares the access of all applications at two times, from the audit log: what they could do at the earlier time, and at the later one. Sessions are not compared, because the log does not record when they expire; the entries `session.authorize` have their grants. Archived entries are not read.',
  query: Query,
  replies: { 200: reply('The differences.', AccessDiff, example.accessDiff) },
  handle: async (call, { store, longWork, memory }) => {
    const { principal, query } = call;
    const { tenantId, now } = principal;
    const to = Math.min(query.to ?? now, now);
    if (query.from >= to) throwIfInvalid({ from: ['must be before `to`, and in the past'] });
    const history = await readHistory(store, tenantId, query.from, memory.reserverFor(call));
    const from = Math.max(query.from, history.recordedSince ?? query.from);
    const compared = differences(history, from, to, query);
    const { data, unknown, isComplete } = await longWork.run(principal, compared);
    const complete = history.complete && isComplete;
    const recorded = history.recordedSince;
    const body = {
      from: timestamp(from),
      to: timestamp(to),
      ...(recorded !== undefined && recorded > query.from && { recorded_since: timestamp(recorded) }),
      complete,
      unknown: unknown.slice(0, maxListed),
      data: data.slice(0, maxListed),
    };
    return { status: 200, body };
  },
});

interface Changed {
  /** Undefined if the application no longer exists. */
  current: ApplicationState | undefined;
  /** Newest first. */
  readonly entries: LogEntry[];
}

interface History {
  readonly applications: ReadonlyMap<string, Changed>;
  readonly complete: boolean;
  readonly recordedSince: number | undefined;
}

/** Returns the applications that were created or changed, or have expired, since `from`. */
async function readHistory(store: Store, tenantId: string, from: number, reserve: Reserve): Promise<History> {
  const applications = new Map<string, Changed>();
  let [isComplete, recordedSince] = [true, undefined as number | undefined];
  // Read before the log, because the sweep may remove expired applications while the log is read.
  const ended = await store.applications.endedSince(tenantId, from, maxEnded);
  for (const operation of accessOperations) {
    const filter = { operation, result: 'success' as const, from };
    const { complete, gaps } = await scanLog(store, tenantId, filter, { ...pages, reserve }, (entries) => {
      for (const entry of entries) {
        const id = entry.entity?.id;
        if (id === undefined) continue;
        const known = applications.get(id);
        if (known) known.entries.push(entry);
        else applications.set(id, { current: undefined, entries: [entry] });
      }
    });
    if (!complete) isComplete = false;
    const archived = gaps.find(({ reason }) => reason === 'archived')?.to;
    if (archived !== undefined) recordedSince = Date.parse(archived);
  }
  for (const { entries } of applications.values()) entries.sort((a, b) => (a.id < b.id ? 1 : -1));
  await addCurrent(store, tenantId, applications, reserve);
  // Read again, because more applications may have expired while the log was read.
  const endedMeanwhile = await store.applications.endedSince(tenantId, from, maxEnded);
  for (const row of [...ended, ...endedMeanwhile])
    applications.set(row.id, { entries: [], ...applications.get(row.id), current: row });
  if (Math.max(ended.length, endedMeanwhile.length) >= maxEnded) isComplete = false;
  if (!(await addNew(store, tenantId, from, applications, reserve))) isComplete = false;
  return { applications, complete: isComplete, recordedSince };
}

async function addCurrent(
  { applications }: Store,
  tenantId: string,
  changed: Map<string, Changed>,
  reserve: Reserve,
) {
  const ids = [...changed.keys()];
  const size = 100;
  for (let start = 0; start < ids.length; start += size) {
    const window = { size, reserve };
    const { rows } = await applications.list(tenantId, { ids: ids.slice(start, start + size) }, window);
    for (const row of rows) (changed.get(row.id) as Changed).current = row;
  }
}

/** Adds the applications that were created after `from`. Returns false if there are too many to read. */
async function addNew(
  { applications }: Store,
  tenantId: string,
  from: number,
  changed: Map<string, Changed>,
  reserve: Reserve,
): Promise<boolean> {
  let start: string | undefined;
  for (let page = 0; page < maxNewPages; page++) {
    const { rows, next } = await applications.list(tenantId, {}, { size: 100, start, reserve });
    for (const row of rows) {
      if (Date.parse(row.created_at) <= from) return true;
      if (!changed.has(row.id)) changed.set(row.id, { current: row, entries: [] });
    }
    if (next === undefined) return true;
    start = next;
  }
  return false;
}

/** Compares the applications one by one. Stops when there are more differences than can be listed. */
function* differences(
  { applications }: History,
  from: number,
  to: number,
  query: { container?: string | undefined; permission?: string | undefined },
): Steps<{ data: DiffEntry[]; unknown: string[]; isComplete: boolean }> {
  const unknown: string[] = [];
  const data: DiffEntry[] = [];
  const budget = new StepBudget(maxSteps);
  for (const [id, { current, entries }] of applications) {
    if (data.length > maxListed || budget.isSpent) return { data, unknown, isComplete: false };
    const states = yield* budget.count(statesOf(current, entries, from, to));
    if (!states) {
      unknown.push(id);
      continue;
    }
    const before = policyAt(states.before, from);
    const after = policyAt(states.after, to);
    const events = eventsOf(states, entries, from, to);
    for (const change of yield* budget.count(changesOf(before, after, query)))
      data.push({ application: { id, name: states.after.name }, ...change, events });
  }
  return { data, unknown, isComplete: data.length <= maxListed };
}

interface States {
  readonly before: ApplicationState;
  readonly after: ApplicationState;
  /** When rules have ended in between. */
  readonly ends: readonly string[];
}

/** Returns the states of an application at `from` and `to`. Undefined if the entries do not tell both states. */
function* statesOf(
  current: ApplicationState | undefined,
  entries: readonly LogEntry[],
  from: number,
  to: number,
): Steps<States | undefined> {
  let state = current;
  let after = current;
  const ends = new Set<string>();
  let next = to;
  const addEnds = (since: number) => {
    for (const rule of state?.rules ?? [])
      if (rule.expires_at && endOfRule(rule) > since && endOfRule(rule) <= next) ends.add(rule.expires_at);
    next = Math.min(next, since);
  };
  for (const entry of entries) {
    yield;
    const at = Date.parse(entry.at);
    if (at <= from) break;
    addEnds(at);
    state = stateBefore(state, entry);
    if (at > to) after = state;
    // The application was removed before `to`, so it had no access at `to`. Its last name and expiry are returned.
    else if (!after) after = state && { ...state, permissions: [], rules: [] };
  }
  addEnds(from);
  return state && after && { before: state, after, ends: [...ends] };
}

function eventsOf(
  { after: { created_at, expires_at }, ends }: States,
  entries: readonly LogEntry[],
  from: number,
  to: number,
): DiffEntry['events'] {
  const isWithin = (time: string) => Date.parse(time) > from && Date.parse(time) <= to;
  const recorded = entries
    .filter(({ at }) => isWithin(at))
    .map(({ id, at, operation, actor }) => ({
      at,
      operation,
      ...(actor.id !== undefined && { by: actor.id }),
      entry: id,
    }));
  const isRecorded = recorded.some(({ operation }) => operation === 'application.create');
  const created =
    isWithin(created_at) && !isRecorded ? [{ at: created_at, operation: 'application.create' }] : [];
  const expired =
    expires_at !== undefined &&
    isWithin(expires_at) &&
    !/\.(delete|expire)$/.test(recorded[0]?.operation ?? '')
      ? [{ at: expires_at, operation: 'application.expire' }]
      : [];
  const ended = ends.map((at) => ({ at, operation: 'application.rule.end' }));
  return [...created, ...recorded.toReversed(), ...ended, ...expired]
    .toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
    .slice(-maxEvents);
}

function* changesOf(
  before: Policy,
  after: Policy,
  { container, permission }: { container?: string | undefined; permission?: string | undefined },
): Steps<AccessChange[]> {
  yield;
  const isAsked = (name: string) => permission === undefined || permission === name;
  if (container === undefined)
    return (yield* accessChanges(before, after)).filter((change) => isAsked(change.permission));
  const place = canonicalContainer(container);
  const names = new Set([...before.granted, ...after.granted]);
  return [...names]
    .filter((name) => isAsked(name) && hasTrait(name, 'scoped'))
    .map((name) => ({
      permission: name,
      container: place,
      from: accessOf(before, undefined, name, { container: place }),
      to: accessOf(after, undefined, name, { container: place }),
    }))
    .filter(({ permission, from, to }) => isChange(permission, from, to));
}
