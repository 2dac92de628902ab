/**
 * What was refused, for the audit log: gathered for a moment and written together. Refusals of one kind count
 * up in one entry, so that a flood of them stays a few rows.
 */
import { Failure, problem } from '../domain/error.ts';
import type { Principal } from '../domain/principal.ts';
import type { Log } from '../log.ts';
import type { NewEntry, Store } from '../store/store.ts';
import type { Where } from './where.ts';
import { witness } from './witness.ts';

export interface Denials {
  /** Keeps it in mind if the error is a refusal. */
  note(operation: string, principal: Principal | undefined, error: unknown, where: Where): void;
  flush(): Promise<void>;
}

/** More kinds than this at once are counted, but not told apart. */
const mostKinds = 1000;

export function denials(store: Store, log: Log, now: () => number): Denials {
  let waiting = new Map<string, NewEntry>();

  function add(entry: NewEntry): void {
    const { actor, operation, reason, from, tenantId } = entry;
    const exact = JSON.stringify([tenantId, actor.id, operation, reason, from.ip]);
    const name = waiting.has(exact) || waiting.size < mostKinds ? exact : 'others';
    const known = waiting.get(name);
    if (known) waiting.set(name, { ...known, count: (known.count ?? 1) + 1 });
    else waiting.set(name, name === exact ? entry : { ...entry, ...faceless });
  }

  return {
    note: (operation, principal, error, where) => {
      if (!(error instanceof Failure) || !isRefusal(error)) return;
      const reason = error.code;
      if (principal) add({ ...witness(principal, where), operation, result: 'denied', reason });
      else add({ ...stranger(where, now()), operation, result: 'failed', reason });
    },
    flush: async () => {
      if (waiting.size === 0) return;
      const entries = [...waiting.values()];
      waiting = new Map();
      try {
        await store.audit.write(entries);
      } catch (error) {
        log.error('refusals could not be written to the audit log', { entries: entries.length, error });
      }
    },
  };
}

const faceless = { tenantId: undefined, actor: { kind: 'anonymous' as const }, from: {} };

function isRefusal({ code }: Failure): boolean {
  const { status } = problem(code);
  return status === 401 || status === 403;
}

function stranger(where: Where, at: number) {
  return { at, actor: { kind: 'anonymous' as const }, from: where.from(), request_id: where.requestId };
}
