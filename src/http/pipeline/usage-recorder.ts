/**
 * When which key, permission and container was last used: gathered in memory beside the requests, and written
 * now and then. Answering a request never waits for it.
 */
import type { Principal } from '../../domain/principal.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import { boundedUses, maxUses, mergeContainers } from '../../domain/usage.ts';
import type { ApplicationUse, Store } from '../../store/store.ts';

export interface UsageRecorder {
  /** That the principal was let in, and what it did by its grants, in `/` if not in a container. */
  note(principal: Principal, permission?: string, container?: string): void;
  /** Writes what was noted. What cannot be written is kept for the next time. */
  flush(): Promise<void>;
}

/** Containers of one permission, and uses of one application, that are held in memory: more are merged. */
const maxContainers = 100;
const maxRecorded = 2 * maxUses;
/** How many Applications one transaction writes. */
const batch = 20;

interface Used extends ApplicationUse {
  at: number;
  readonly keys: Map<string, number>;
  permissions: Map<string, Map<string, number>>;
  /** An upper bound of the places in `permissions`. */
  places: number;
}

export function usageRecorder(store: Pick<Store, 'usage'>): UsageRecorder {
  let waiting = new Map<string, Used>();

  function usedBy(tenantId: string, applicationId: string, at: number): Used {
    let used = waiting.get(applicationId);
    if (!used) {
      used = { tenantId, applicationId, at, keys: new Map(), permissions: new Map(), places: 0 };
      waiting.set(applicationId, used);
    } else if (used.at < at) used.at = at;
    return used;
  }

  function putBack(unwritten: readonly Used[]): void {
    for (const { tenantId, applicationId, at, keys, permissions } of unwritten) {
      const used = usedBy(tenantId, applicationId, at);
      for (const [key, moment] of keys) move(used.keys, key, moment);
      for (const [permission, places] of permissions)
        for (const [container, moment] of places) place(used, permission, container, moment);
    }
  }

  return {
    note: ({ tenantId, applicationId, authority, now }, permission, container) => {
      if (authority?.applicationId !== applicationId) usedBy(tenantId, applicationId, now);
      if (!authority) return;
      const used = usedBy(tenantId, authority.applicationId, now);
      move(used.keys, authority.keyId, now);
      if (permission !== undefined)
        place(used, permission, container === undefined ? '/' : canonicalContainer(container), now);
    },

    flush: async () => {
      const noted = [...waiting.values()].sort((a, b) => (a.applicationId < b.applicationId ? -1 : 1));
      waiting = new Map();
      for (let from = 0; from < noted.length; from += batch) {
        try {
          await store.usage.write(noted.slice(from, from + batch));
        } catch (error) {
          putBack(noted.slice(from));
          throw error;
        }
      }
    },
  };
}

function place(used: Used, permission: string, container: string, at: number): void {
  const places = used.permissions.get(permission);
  if (places?.has(container)) {
    move(places, container, at);
    return;
  }
  if (places) places.set(container, at);
  else used.permissions.set(permission, new Map([[container, at]]));
  used.places++;
  if (places && places.size > maxContainers)
    used.permissions.set(permission, new Map(mergeContainers(places, maxContainers / 2)));
  if (used.places > maxRecorded) merge(used);
}

function merge(used: Used): void {
  const bounded = boundedUses(used.permissions, maxUses, maxContainers);
  used.permissions = new Map(Array.from(bounded, ([permission, places]) => [permission, new Map(places)]));
  used.places = 0;
  for (const places of used.permissions.values()) used.places += places.size;
}

/** Never back. */
function move(moments: Map<string, number>, name: string, at: number): void {
  const known = moments.get(name);
  if (known === undefined || known < at) moments.set(name, at);
}
