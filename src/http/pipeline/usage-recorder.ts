/**
 * Records when each key and each permission was last used, and in which container, and counts the requests of each key.
 * Uses are collected in memory and written by a background job, so that requests do not wait.
 */
import type { Principal } from '../../domain/principal.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import { boundedUses, dayOf, maxUses, mergeContainers } from '../../domain/usage.ts';
import { writePending } from '../../domain/write-pending.ts';
import type { ApplicationUse, Usage } from '../../store/store.ts';

export interface UsageRecorder {
  /** Counts a request with a key, and records the use of the key and, if given, of a permission. */
  request(principal: Principal, permission?: string): void;
  /** Records the use of a key and of a permission. The container is `/` by default. */
  record(principal: Principal, permission: string, container?: string): void;
  /** Writes all recorded uses. If that fails, the next flush writes them. */
  flush(): Promise<void>;
}

/** Maximum containers per permission, in memory. Further containers are merged into their parents. */
const maxContainers = 100;
/** Maximum uses per application, in memory. A use is a permission in a container. */
const maxRecorded = 2 * maxUses;
/** Applications per transaction. */
const batchSize = 20;

interface PendingUse extends ApplicationUse {
  at: number;
  readonly keys: Map<string, { at: number; readonly days: Map<number, number> }>;
  permissions: Map<string, Map<string, number>>;
  /** An upper bound of the containers in `permissions`. */
  containers: number;
}

export function usageRecorder(store: { readonly usage: Pick<Usage, 'write'> }): UsageRecorder {
  let pending = new Map<string, PendingUse>();

  function pendingUse(tenantId: string, applicationId: string, at: number): PendingUse {
    let use = pending.get(applicationId);
    if (!use) {
      use = { tenantId, applicationId, at, keys: new Map(), permissions: new Map(), containers: 0 };
      pending.set(applicationId, use);
    } else if (use.at < at) use.at = at;
    return use;
  }

  function putBack(unwritten: readonly PendingUse[]): void {
    for (const { tenantId, applicationId, at, keys, permissions } of unwritten) {
      const use = pendingUse(tenantId, applicationId, at);
      for (const [key, { at: usedAt, days }] of keys) {
        addKeyUse(use, key, usedAt, 0);
        for (const [day, requests] of days) addKeyUse(use, key, usedAt, requests, day);
      }
      for (const [permission, containers] of permissions)
        for (const [container, lastUse] of containers) addUse(use, permission, container, lastUse);
    }
  }

  function record(principal: Principal, requests: number, permission?: string, container?: string): void {
    const { tenantId, applicationId, authority, now } = principal;
    if (authority?.applicationId !== applicationId) pendingUse(tenantId, applicationId, now);
    if (!authority) return;
    const use = pendingUse(tenantId, authority.applicationId, now);
    addKeyUse(use, authority.keyId, now, requests);
    if (permission !== undefined)
      addUse(use, permission, container === undefined ? '/' : canonicalContainer(container), now);
  }

  return {
    request: (principal, permission) => record(principal, 1, permission),
    record: (principal, permission, container) => record(principal, 0, permission, container),

    flush: async () => {
      const uses = [...pending.values()].sort((a, b) => (a.applicationId < b.applicationId ? -1 : 1));
      pending = new Map();
      await writePending(uses, batchSize, store.usage.write, putBack);
    },
  };
}

function addKeyUse({ keys }: PendingUse, key: string, at: number, requests: number, day = dayOf(at)): void {
  const use = keys.get(key) ?? { at, days: new Map<number, number>() };
  keys.set(key, use);
  if (use.at < at) use.at = at;
  if (requests > 0) use.days.set(day, requests + (use.days.get(day) ?? 0));
}

function addUse(use: PendingUse, permission: string, container: string, at: number): void {
  const containers = use.permissions.get(permission);
  if (containers?.has(container)) {
    setLatest(containers, container, at);
    return;
  }
  if (containers) containers.set(container, at);
  else use.permissions.set(permission, new Map([[container, at]]));
  use.containers++;
  if (containers && containers.size > maxContainers)
    use.permissions.set(permission, mergeContainers(containers, maxContainers / 2));
  if (use.containers > maxRecorded) mergeAll(use);
}

function mergeAll(use: PendingUse): void {
  use.permissions = boundedUses(use.permissions, maxUses, maxContainers);
  use.containers = 0;
  for (const containers of use.permissions.values()) use.containers += containers.size;
}

function setLatest(times: Map<string, number>, name: string, at: number): void {
  const known = times.get(name);
  if (known === undefined || known < at) times.set(name, at);
}
