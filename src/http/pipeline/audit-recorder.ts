/**
 * Aggregates frequent events for the audit log: denials, and reads of masked or redacted data. Events of one group in
 * one minute are counted in one entry, so that many events become few rows.
 */
import type { Log } from '../../log.ts';
import type { NewEntry, Store } from '../../store/store.ts';

export interface AuditRecorder {
  /** Counts an event about the resources `ids`. Calls `makeEntry` only for the first event of an entry. */
  add(group: Group, ids: readonly string[] | undefined, makeEntry: (at: number) => NewEntry): void;
  /** Writes the first events of a group, and at the end of the minute the repeated ones. */
  writeDue(): Promise<void>;
  /** Writes all recorded events. If that fails, the next call writes them. */
  flush(): Promise<void>;
}

/** Identifies the events that are counted in one entry. */
export interface Group {
  /** The application of the actor. Callers without a valid key count as one application. */
  readonly application: string | undefined;
  readonly name: string;
  /** The group without session, address, resource and decision. */
  readonly coarseName: string;
}

/**
 * Groups per application and minute. Further events are counted in their coarse group, so that no caller can fill the
 * log or the memory, or displace the entries of another.
 */
export const maxGroups = 100;
/** Ids in an aggregated entry. Further events are counted without their ids. */
export const maxIds = 20;
const minute = 60_000;

interface Recorded {
  entry: NewEntry;
  readonly ids: Set<string>;
  count: number;
}

interface RecordedGroup extends Recorded {
  /** When its minute ends. */
  readonly end: number;
  /** Whether this minute already has an entry of the group. */
  isWritten: boolean;
}

export function auditRecorder(store: Pick<Store, 'audit'>, log: Log, now: () => number): AuditRecorder {
  const applications = new Map<string | undefined, Map<string, RecordedGroup>>();

  function groupsOf(application: string | undefined): Map<string, RecordedGroup> {
    let groups = applications.get(application);
    if (!groups) {
      groups = new Map();
      applications.set(application, groups);
    }
    return groups;
  }

  function newGroup(entry: NewEntry): RecordedGroup {
    const end = (Math.floor(now() / minute) + 1) * minute;
    return { entry, ids: new Set(), count: 0, end, isWritten: false };
  }

  function add(group: Group, ids: readonly string[] | undefined, makeEntry: (at: number) => NewEntry): void {
    const groups = groupsOf(group.application);
    const isCoarse = groups.size >= maxGroups && !groups.has(group.name);
    const name = isCoarse ? group.coarseName : group.name;
    let known = groups.get(name);
    if (!known || known.count === 0) {
      const made = makeEntry(now());
      const entry = isCoarse ? coarse(made) : made;
      if (known) known.entry = entry;
      else {
        known = newGroup(entry);
        groups.set(name, known);
      }
    }
    known.count += 1;
    if (ids && !isCoarse) addIds(known.ids, ids);
  }

  async function write(isDue: (group: RecordedGroup, time: number) => boolean): Promise<void> {
    const time = now();
    const taken: { application: string | undefined; name: string; recorded: Recorded }[] = [];
    for (const [application, groups] of applications) {
      for (const [name, group] of groups) {
        if (group.count > 0 && isDue(group, time)) taken.push({ application, name, recorded: take(group) });
        if (group.count === 0 && group.end <= time) groups.delete(name);
      }
      if (groups.size === 0) applications.delete(application);
    }
    if (taken.length === 0) return;
    try {
      await store.audit.write(taken.map(({ recorded }) => aggregated(recorded)));
    } catch (error) {
      for (const { application, name, recorded } of taken) putBack(groupsOf(application), name, recorded);
      log.error('denials and reads could not be written to the audit log yet', {
        entries: taken.length,
        error,
      });
    }
  }

  function putBack(groups: Map<string, RecordedGroup>, name: string, recorded: Recorded): void {
    const group = groups.get(name) ?? newGroup(recorded.entry);
    if (group.count === 0) group.entry = recorded.entry;
    group.count += recorded.count;
    addIds(group.ids, recorded.ids);
    group.isWritten = false;
    groups.set(name, group);
  }

  return {
    add,
    writeDue: () => write(({ isWritten, end }, time) => !isWritten || end <= time),
    flush: () => write(() => true),
  };
}

/** Returns the recorded events and leaves the group empty. */
function take(group: RecordedGroup): Recorded {
  const taken = { entry: group.entry, count: group.count, ids: new Set(group.ids) };
  group.count = 0;
  group.ids.clear();
  group.isWritten = true;
  return taken;
}

function addIds(known: Set<string>, ids: Iterable<string>): void {
  for (const id of ids) {
    if (known.size >= maxIds) return;
    known.add(id);
  }
}

function aggregated({ entry, ids, count }: Recorded): NewEntry {
  return {
    ...entry,
    ...(ids.size > 0 && { resource: { ids: [...ids], ...entry.resource } }),
    ...(count > 1 && { count }),
  };
}

/** Removes what differs within a coarse group. */
function coarse(entry: NewEntry): NewEntry {
  const { tenantId, at, operation, result, reason, actor, decision, reported_by } = entry;
  const { application_id: id } = actor;
  const application = id !== undefined && { kind: 'application' as const, id, application_id: id };
  return {
    tenantId,
    at,
    actor: application || { kind: 'anonymous' },
    operation: reported_by === undefined ? operation : 'decision.create',
    result,
    ...(reason !== undefined && { reason }),
    ...(decision?.transform && { decision: { transform: decision.transform } }),
    ...(reported_by !== undefined && { reported_by }),
    from: {},
  };
}
