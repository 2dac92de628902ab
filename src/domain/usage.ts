/** What the grants of an Application were used for, and which of them nothing was ever used of. */
import { z } from 'zod';
import { Timestamp } from './common-fields.ts';
import { type CompiledRule, decide, type Policy } from './policy.ts';
import { canonicalContainer } from './rule.ts';

export const Use = z
  .object({
    permission: z.string().describe('Which permission.'),
    container: z
      .string()
      .describe(
        'In which container, in lower case: `/` for what has none. Where there were many, it stands for those below it, too.',
      ),
    last_used_at: Timestamp.describe('When it was last used there.'),
  })
  .meta({ id: 'Use' });
export type Use = z.infer<typeof Use>;

export const UnusedGrant = z
  .object({
    rule: z
      .union([z.int(), z.literal('permissions')])
      .describe('Which rule of the Application, counted from 1, or its plain permissions.'),
    permission: z.string().describe('What it grants.'),
    container: z.string().describe('In which container and below.'),
  })
  .meta({ id: 'UnusedGrant' });
export type UnusedGrant = z.infer<typeof UnusedGrant>;

type Place = Pick<Use, 'permission' | 'container'>;

/**
 * The grants that no use on record can have come from: none was decided by it, as the grants are now, and none
 * was in a container above, which may stand for those below.
 */
export function unusedGrants(policy: Policy, uses: readonly Place[]): UnusedGrant[] {
  const decided = Map.groupBy(
    uses.map((use) => ({ ...use, by: decidedBy(policy, use) })),
    ({ permission }) => permission,
  );
  return [...grantsOf(policy)]
    .filter(
      ({ by, permission, container }) =>
        !decided
          .get(permission)
          ?.some(
            (use) => use.by === by || (container !== use.container && container.startsWith(use.container)),
          ),
    )
    .map(({ by, permission, container }) => ({
      rule: by === 'permissions' ? by : by.index + 1,
      permission,
      container,
    }));
}

type Grantor = CompiledRule | 'permissions';

function decidedBy(policy: Policy, { permission, container }: Place): Grantor | undefined {
  const verdict = decide(policy, permission, { container });
  return verdict.allowed ? (verdict.rule ?? 'permissions') : undefined;
}

function* grantsOf(policy: Policy): Generator<Place & { by: Grantor }> {
  for (const permission of policy.plain) yield { by: 'permissions', permission, container: '/' };
  for (const by of policy.rules.toSorted((a, b) => a.index - b.index)) {
    const container = canonicalContainer(by.rule.container ?? '/');
    for (const permission of by.permissions) yield { by, permission, container };
  }
}

/** When something was last done in which container. */
export type LastUses = ReadonlyMap<string, number>;

/** Uses that are recorded for one application, and so returned by `GET /applications/{id}/usage`. */
export const maxUses = 500;

/**
 * At most `most` uses by permission and container, and at most `containers` of each permission. Containers are
 * merged into their parents first. Permissions are dropped only if there are more than `most`, the least recently
 * used first.
 */
export function boundedUses(
  uses: ReadonlyMap<string, LastUses>,
  most: number,
  containers: number,
): Map<string, LastUses> {
  const recent = uses.size <= most ? [...uses] : mostRecent(uses, most);
  for (let each = containers; ; each >>= 1) {
    const bounded = recent.map(([permission, moments]) => [permission, gathered(moments, each)] as const);
    if (each === 1 || countOf(bounded) <= most) return new Map(bounded);
  }
}

function countOf(uses: Iterable<readonly [string, LastUses]>): number {
  let count = 0;
  for (const [, moments] of uses) count += moments.size;
  return count;
}

function mostRecent(uses: ReadonlyMap<string, LastUses>, most: number): [string, LastUses][] {
  const dated = Array.from(uses, (use) => ({ use, at: Math.max(...use[1].values()) }));
  return dated
    .sort((a, b) => b.at - a.at)
    .slice(0, most)
    .map(({ use }) => use);
}

const crowded = 16;

/**
 * No more than `most` containers: those that share a parent with many others are put together under it, then
 * those that share it with fewer, and last all of them. The latest moment counts.
 */
export function gathered(moments: LastUses, most: number): LastUses {
  let left = moments;
  for (let crowd = crowded; left.size > most; crowd = Math.max(1, crowd / 2)) {
    const siblings = Map.groupBy(left.keys(), parentOf);
    const next = new Map<string, number>();
    for (const [container, at] of left) {
      const parent = parentOf(container);
      const place = (siblings.get(parent) as string[]).length >= crowd ? parent : container;
      next.set(place, Math.max(at, next.get(place) ?? at));
    }
    left = next;
  }
  return left;
}

/** The root is its own. */
function parentOf(container: string): string {
  return container.slice(0, container.lastIndexOf('/', container.length - 2) + 1);
}
