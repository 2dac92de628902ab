/** Usage of an application's grants: when each permission was last used, and which grants were never used. */
import { z } from 'zod';
import { Id, Text, Timestamp } from './common-fields.ts';
import { type CompiledRule, decide, type Policy } from './policy.ts';
import { canonicalContainer } from './rule.ts';
import type { Steps } from './steps.ts';

export const Use = z
  .object({
    permission: Text.describe('The permission.'),
    container: Text.describe(
      'The container, in lower case. `/` for permissions without one. May stand for containers below it if there were many.',
    ),
    last_used_at: Timestamp.describe('When it was last used in this container, to the minute.'),
  })
  .meta({ id: 'Use' });
export type Use = z.infer<typeof Use>;

export const UnusedGrant = z
  .object({
    rule: z
      .union([z.int(), z.literal('permissions')])
      .describe('Number of the rule, from 1, or `permissions` for the permissions without a rule.'),
    permission: Text.describe('The granted permission.'),
    container: Text.describe('The container of the grant, including those below.'),
  })
  .meta({ id: 'UnusedGrant' });
export type UnusedGrant = z.infer<typeof UnusedGrant>;

/** Days for which the requests of a key are stored. */
export const keptDays = 30;

export const dayLength = 86_400_000;

/** The day of a time, counted from 1970 in UTC. */
export function dayOf(time: number): number {
  return Math.floor(time / dayLength);
}

export const KeyUsage = z
  .object({
    id: Id.describe('The id of the key.'),
    ending: Text.describe('The last four characters of the key.'),
    days: z
      .array(
        z.object({
          date: z.iso.date().describe('The day, in UTC.'),
          requests: z
            .int()
            .describe(
              'How many requests were made with the key, or by sessions that it limits. Requests without the permission of the endpoint do not count. Those that a rule denies do.',
            ),
        }),
      )
      .describe(`The days with requests among the last ${keptDays}, earliest first.`),
  })
  .meta({ id: 'KeyUsage' });
export type KeyUsage = z.infer<typeof KeyUsage>;

type PermissionUse = Pick<Use, 'permission' | 'container'>;

/**
 * Returns the grants to which no recorded use belongs. A use belongs to the grant that decides it now. It also belongs
 * to all grants on containers below its own, because `mergeContainers` may have moved it up.
 */
export function* unusedGrants(policy: Policy, uses: readonly PermissionUse[]): Steps<UnusedGrant[]> {
  const decided = uses.map((use) => ({ ...use, by: decidedBy(policy, use) }));
  const byPermission = Map.groupBy(decided, ({ permission }) => permission);
  const isUsed = ({ by, permission, container }: Grant) =>
    byPermission
      .get(permission)
      ?.some((use) => use.by === by || (container !== use.container && container.startsWith(use.container)));
  const unused: UnusedGrant[] = [];
  for (const grant of grantsOf(policy)) {
    yield;
    if (isUsed(grant)) continue;
    const { by, permission, container } = grant;
    unused.push({ rule: by === 'permissions' ? by : by.index + 1, permission, container });
  }
  return unused;
}

type Grantor = CompiledRule | 'permissions';
type Grant = PermissionUse & { by: Grantor };

function decidedBy(policy: Policy, { permission, container }: PermissionUse): Grantor | undefined {
  const verdict = decide(policy, permission, { container });
  return verdict.allowed ? (verdict.rule ?? 'permissions') : undefined;
}

function* grantsOf(policy: Policy): Generator<Grant> {
  for (const permission of policy.plain) yield { by: 'permissions', permission, container: '/' };
  for (const by of policy.rules.toSorted((a, b) => a.index - b.index)) {
    const container = canonicalContainer(by.rule.container ?? '/');
    for (const permission of by.permissions) yield { by, permission, container };
  }
}

/** Container → time of the last use. */
export type LastUses = Map<string, number>;

/** Recorded uses per application, and so the maximum that `GET /applications/{id}/usage` returns. */
export const maxUses = 500;

/**
 * Reduces the uses to at most `max` in total and `maxContainers` per permission, by merging containers into their
 * parents. Drops permissions only if there are more than `max`, least recently used first.
 */
export function boundedUses(
  uses: ReadonlyMap<string, LastUses>,
  max: number,
  maxContainers: number,
): Map<string, LastUses> {
  const recent = uses.size <= max ? [...uses] : mostRecent(uses, max);
  for (let limit = maxContainers; ; limit >>= 1) {
    const bounded = recent.map(([permission, times]) => [permission, mergeContainers(times, limit)] as const);
    const count = bounded.reduce((sum, [, times]) => sum + times.size, 0);
    if (limit === 1 || count <= max) return new Map(bounded);
  }
}

function mostRecent(uses: ReadonlyMap<string, LastUses>, count: number): [string, LastUses][] {
  const dated = Array.from(uses, (use) => ({ use, at: Math.max(...use[1].values()) }));
  return dated
    .sort((a, b) => b.at - a.at)
    .slice(0, count)
    .map(({ use }) => use);
}

const initialSiblings = 16;

/**
 * Reduces the map to at most `max` containers. Merges containers with many siblings into their parent first, then those
 * with fewer. A merged container has the latest time of its parts.
 */
export function mergeContainers(times: LastUses, max: number): LastUses {
  let merged = times;
  for (let minSiblings = initialSiblings; merged.size > max; minSiblings = Math.max(1, minSiblings / 2)) {
    const siblings = Map.groupBy(merged.keys(), parentOf);
    const next = new Map<string, number>();
    for (const [container, time] of merged) {
      const parent = parentOf(container);
      const target = (siblings.get(parent) as string[]).length >= minSiblings ? parent : container;
      next.set(target, Math.max(time, next.get(target) ?? time));
    }
    merged = next;
  }
  return merged;
}

/** The root is its own parent. */
function parentOf(container: string): string {
  return container.slice(0, container.lastIndexOf('/', container.length - 2) + 1);
}
