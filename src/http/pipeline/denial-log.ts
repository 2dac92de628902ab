/**
 * What was refused, for the audit log: gathered for a moment and written together. Refusals of one kind count
 * up in one entry, so that a flood of them stays a few rows.
 */
import { Failure, problem } from '../../domain/error.ts';
import type { Principal } from '../../domain/principal.ts';
import type { Log } from '../../log.ts';
import type { NewEntry, Store } from '../../store/store.ts';
import { auditContext } from './audit-context.ts';
import { networkOf } from './client-address.ts';
import type { RequestInfo } from './request-info.ts';

export interface DenialLog {
  /** Keeps it in mind if the error is a refusal. */
  note(operation: string, principal: Principal | undefined, error: unknown, where: RequestInfo): void;
  flush(): Promise<void>;
}

/**
 * So many kinds at once are told apart by Session and by address, of each Application and of those without a valid key.
 * Of more, what was refused and why is counted: nobody drowns what another was refused, or what else was.
 */
const maxPerGroup = 20;

export function denialLog(store: Store, log: Log, now: () => number): DenialLog {
  let waiting = new Map<string | undefined, Map<string, NewEntry>>();

  function kindsOf(application: string | undefined): Map<string, NewEntry> {
    const known = waiting.get(application);
    if (known) return known;
    const kinds = new Map<string, NewEntry>();
    waiting.set(application, kinds);
    return kinds;
  }

  function add(entry: NewEntry): void {
    const { actor, operation, reason, from } = entry;
    const kinds = kindsOf(actor.application_id);
    const exact = JSON.stringify([operation, reason, actor.id, from.ip && networkOf(from.ip)]);
    const isTold = kinds.has(exact) || kinds.size < maxPerGroup;
    const name = isTold ? exact : JSON.stringify([operation, reason]);
    const known = kinds.get(name);
    if (known) kinds.set(name, { ...known, count: timesOf(known) + timesOf(entry) });
    else kinds.set(name, isTold ? entry : faceless(entry));
  }

  return {
    note: (operation, principal, error, where) => {
      if (!(error instanceof Failure) || !isRefusal(error)) return;
      const reason = error.code;
      if (principal) add({ ...auditContext(principal, where), operation, result: 'denied', reason });
      else add({ ...stranger(where, now()), operation, result: 'failed', reason });
    },
    flush: async () => {
      const entries = [...waiting.values()].flatMap((kinds) => [...kinds.values()]);
      if (entries.length === 0) return;
      waiting = new Map();
      try {
        await store.audit.write(entries);
      } catch (error) {
        for (const entry of entries) add(entry);
        log.error('refusals could not be written to the audit log yet', { entries: entries.length, error });
      }
    },
  };
}

const timesOf = ({ count = 1 }: NewEntry) => count;

function faceless({ request_id: _, trace_id: __, ...entry }: NewEntry): NewEntry {
  const { application_id: id } = entry.actor;
  const actor = id === undefined ? { kind: 'anonymous' as const } : { kind: 'application' as const, id };
  return { ...entry, actor: { ...actor, ...(id !== undefined && { application_id: id }) }, from: {} };
}

function isRefusal({ code }: Failure): boolean {
  const { status } = problem(code);
  return status === 401 || status === 403;
}

function stranger(where: RequestInfo, at: number) {
  return { at, actor: { kind: 'anonymous' as const }, from: where.from(), request_id: where.requestId };
}
