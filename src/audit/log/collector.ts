/**
 * Counts frequent events, such as denials and reads of masked data. Events of the same group and minute are counted
 * together, so that many events become few entries.
 */
import { commonContainer, type EntryResource } from '../../domain/audit.ts';
import { writePending } from '../../domain/write-pending.ts';
import type { NewEntry } from '../records.ts';

export interface Collector {
  add(event: Counted): void;
  /** Call this every second. Writes groups that have no entry in this minute yet, and groups whose minute has ended. */
  writeDue(): Promise<void>;
  /** The number of entries that counted events would have. */
  waiting(): number;
  /** Writes all counted events. Rejects if that fails; the next call writes them. */
  flush(): Promise<void>;
}

/** An event. Those with the same tenant, quota, `coarse` and `fine` values are counted in one entry. */
export interface Counted {
  /** That of the entry. No entry counts events of two tenants. */
  readonly tenantId: string | undefined;
  /**
   * Events of a tenant with the same quota share the limit `maxGroups`. All callers without a valid key share one quota. Each
   * person has their own.
   */
  readonly quota: string;
  /** Beyond `maxGroups`, events that differ only in the `fine` values are counted in an overflow entry. */
  readonly coarse: readonly unknown[];
  readonly fine: readonly unknown[];
  readonly resource?: EntryResource | undefined;
  /** Called only for the first event that an entry counts. */
  readonly entry: (at: number) => NewEntry;
}

/**
 * Maximum groups per quota and minute. Events of further groups are counted in an overflow entry. No
 * caller can therefore fill the log or the memory, or displace the entries of another caller.
 */
export const maxGroups = 100;
/** Maximum ids in an aggregated entry. Further ids are only counted. */
export const maxIds = 20;
const minute = 60_000;
/** Entries per transaction. */
const batchSize = 1000;

interface Recorded {
  entry: NewEntry;
  readonly ids: Set<string>;
  container: string | undefined;
  omitted: number;
  count: number;
}

interface RecordedGroup extends Recorded {
  readonly end: number;
  /** Whether an entry of the group was already written in this minute. */
  isWritten: boolean;
}

interface TakenGroup {
  readonly tenantId: string | undefined;
  readonly quota: string;
  readonly name: string;
  readonly recorded: Recorded;
}

export function collector(
  writeEntries: (entries: readonly NewEntry[]) => Promise<void>,
  now: () => number,
): Collector {
  const quotas = new Map<string, Map<string, RecordedGroup>>();

  function groupsOf(quota: string): Map<string, RecordedGroup> {
    let groups = quotas.get(quota);
    if (!groups) {
      groups = new Map();
      quotas.set(quota, groups);
    }
    return groups;
  }

  function newGroup(entry: NewEntry): RecordedGroup {
    const end = (Math.floor(now() / minute) + 1) * minute;
    return { entry, ids: new Set(), container: undefined, omitted: 0, count: 0, end, isWritten: false };
  }

  function add({ tenantId, quota, coarse, fine, resource, entry: makeEntry }: Counted): void {
    const groups = groupsOf(`${tenantId} ${quota}`);
    const fineName = JSON.stringify([...coarse, ...fine]);
    const isCoarse = groups.size >= maxGroups && !groups.has(fineName);
    const name = isCoarse ? JSON.stringify(coarse) : fineName;
    let known = groups.get(name);
    if (!known || known.count === 0) {
      const made = makeEntry(now());
      const entry = isCoarse ? overflowEntry(made) : made;
      if (known) known.entry = entry;
      else {
        known = newGroup(entry);
        groups.set(name, known);
      }
    }
    known.count += 1;
    if (resource) addResource(known, resource.ids ?? [], resource.container, resource.omitted);
  }

  async function write(isDue: (group: RecordedGroup, time: number) => boolean): Promise<void> {
    const time = now();
    const taken: TakenGroup[] = [];
    for (const [quota, groups] of quotas) {
      for (const [name, group] of groups) {
        if (group.count > 0 && isDue(group, time))
          taken.push({ tenantId: group.entry.tenantId, quota, name, recorded: take(group) });
        if (group.count === 0 && group.end <= time) groups.delete(name);
      }
      if (groups.size === 0) quotas.delete(quota);
    }
    const putAllBack = (unwritten: readonly TakenGroup[]) => {
      for (const { quota, name, recorded } of unwritten) putBack(groupsOf(quota), name, recorded);
    };
    const writeGroups = (some: readonly TakenGroup[]) =>
      writeEntries(some.map(({ recorded }) => aggregated(recorded)));
    await writePending(taken, batchSize, writeGroups, putAllBack);
  }

  function putBack(groups: Map<string, RecordedGroup>, name: string, recorded: Recorded): void {
    const group = groups.get(name) ?? newGroup(recorded.entry);
    if (group.count === 0) group.entry = recorded.entry;
    group.count += recorded.count;
    addResource(group, recorded.ids, recorded.container, recorded.omitted);
    group.isWritten = false;
    groups.set(name, group);
  }

  return {
    add,
    waiting: () =>
      [...quotas.values()].flatMap((groups) => [...groups.values()]).filter(({ count }) => count > 0).length,
    writeDue: () => write(({ isWritten, end }, time) => !isWritten || end <= time),
    flush: () => write(() => true),
  };
}

/** Returns the recorded events and leaves the group empty. */
function take(group: RecordedGroup): Recorded {
  const { entry, container, omitted, count } = group;
  const taken = { entry, container, omitted, count, ids: new Set(group.ids) };
  group.count = 0;
  group.omitted = 0;
  group.container = undefined;
  group.ids.clear();
  group.isWritten = true;
  return taken;
}

function addResource(
  recorded: Recorded,
  ids: Iterable<string>,
  container: string | undefined,
  omitted = 0,
): void {
  recorded.omitted += omitted;
  if (container !== undefined) recorded.container = commonContainer(recorded.container, container);
  for (const id of ids) {
    if (recorded.ids.size < maxIds) recorded.ids.add(id);
    else if (!recorded.ids.has(id)) recorded.omitted += 1;
  }
}

function aggregated({ entry, ids, container, omitted, count }: Recorded): NewEntry {
  const isNamed = ids.size > 0 || container !== undefined;
  return {
    ...entry,
    ...(isNamed && {
      resource: {
        ...(ids.size > 0 && { ids: [...ids] }),
        ...(container !== undefined && { container }),
        ...(omitted > 0 && { omitted }),
      },
    }),
    ...(count > 1 && { count }),
  };
}

/** Removes the fields that differ between the events of an overflow entry. */
function overflowEntry(entry: NewEntry): NewEntry {
  const { tenantId, at, operation, result, reason, actor, decision, reported_by } = entry;
  const { application_id: id, issuer, person } = actor;
  const application = id !== undefined && {
    ...{ kind: 'application' as const, id, application_id: id },
    ...(person && { ...(issuer !== undefined && { issuer }), person }),
  };
  return {
    tenantId,
    at,
    actor: application || { kind: 'anonymous' },
    operation: reported_by === undefined ? operation : 'decision.create',
    result,
    ...(reason !== undefined && { reason }),
    ...(decision?.transform && { decision: { transform: decision.transform } }),
    overflow: true,
    ...(reported_by !== undefined && { reported_by }),
    from: {},
  };
}
