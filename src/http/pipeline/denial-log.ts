/**
 * Collects denials (401 and 403) for the audit log and writes them in batches. Denials of one kind are counted in
 * one entry, so that many of them become few rows.
 */
import { Failure, problem } from '../../domain/error.ts';
import type { Principal } from '../../domain/principal.ts';
import type { Log } from '../../log.ts';
import type { NewEntry, Store } from '../../store/store.ts';
import { networkOf } from './client-address.ts';
import { auditFields, type RequestInfo } from './request-info.ts';

export interface DenialLog {
  /** Ignores errors that are not denials. */
  record(operation: string, principal: Principal | undefined, error: unknown, requestInfo: RequestInfo): void;
  /** Writes what was recorded. If that fails, it is written by the next flush. */
  flush(): Promise<void>;
}

/**
 * Entries with session and address, per application and flush. Callers without a valid key count as one application.
 * Further denials are counted by operation and reason only, so that no caller can fill the log or displace the
 * entries of another.
 */
const maxDetailed = 20;

export function denialLog(store: Store, log: Log, now: () => number): DenialLog {
  let pending = new Map<string | undefined, Map<string, NewEntry>>();

  function add(entry: NewEntry): void {
    const { actor, operation, reason, from } = entry;
    const entries = pending.get(actor.application_id) ?? new Map<string, NewEntry>();
    pending.set(actor.application_id, entries);
    const detailed = JSON.stringify([operation, reason, actor.id, from.ip && networkOf(from.ip)]);
    const isDetailed = entries.has(detailed) || entries.size < maxDetailed;
    const name = isDetailed ? detailed : JSON.stringify([operation, reason]);
    const known = entries.get(name);
    if (known) entries.set(name, { ...known, count: countOf(known) + countOf(entry) });
    else entries.set(name, isDetailed ? entry : withoutCaller(entry));
  }

  return {
    record: (operation, principal, error, requestInfo) => {
      if (!(error instanceof Failure)) return;
      const reason = error.code;
      const { status } = problem(reason);
      if (status !== 401 && status !== 403) return;
      if (principal) {
        add({ ...auditFields(principal, requestInfo), operation, result: 'denied', reason });
        return;
      }
      const actor = { kind: 'anonymous' as const };
      const from = requestInfo.from();
      add({ at: now(), actor, from, request_id: requestInfo.requestId, operation, result: 'failed', reason });
    },
    flush: async () => {
      const entries = [...pending.values()].flatMap((group) => [...group.values()]);
      if (entries.length === 0) return;
      pending = new Map();
      try {
        await store.audit.write(entries);
      } catch (error) {
        for (const entry of entries) add(entry);
        log.error('denials could not be written to the audit log yet', { entries: entries.length, error });
      }
    },
  };
}

const countOf = ({ count = 1 }: NewEntry) => count;

/** Removes session, address and request. */
function withoutCaller({ request_id: _, trace_id: __, ...entry }: NewEntry): NewEntry {
  const { application_id: id } = entry.actor;
  const actor = id === undefined ? { kind: 'anonymous' as const } : { kind: 'application' as const, id };
  return { ...entry, actor: { ...actor, ...(id !== undefined && { application_id: id }) }, from: {} };
}
