/** Random rules over a few containers and token ids, to find combinations that grant too much. */
import type { Random } from './random.ts';

export const tokenPermissions = ['token:create', 'token:read', 'token:update', 'token:delete'];
export const containers = ['/secret/', '/secret/deep/', '/open/', '/open/deep/'];
export const tokenIds = ['first', 'second', 'third', 'fourth'];
const transforms = ['redact', 'mask', 'reveal'] as const;

interface Rule {
  readonly priority: number;
  readonly container: string;
  readonly transform: (typeof transforms)[number];
  readonly require_purpose?: true;
  readonly permissions: string[];
}

export interface Grants {
  readonly permissions: string[];
  readonly rules: Rule[];
}

/** Redacts in one container and reveals in another. A key with these rules must not move tokens between them. */
export const temptingGrants: Grants = {
  permissions: [],
  rules: [
    { priority: 1, container: '/secret/', transform: 'redact', permissions: ['token:update'] },
    { priority: 1, container: '/open/', transform: 'reveal', permissions: ['token:read', 'token:update'] },
  ],
};

function randomTransform(random: Random): Pick<Rule, 'transform' | 'require_purpose'> {
  const transform = random.one(transforms);
  return {
    transform,
    ...(transform === 'reveal' && random.chance(0.4) && { require_purpose: true as const }),
  };
}

/** Public applications may not search. */
export function randomGrants(
  random: Random,
  mayHold: readonly string[] = [...tokenPermissions, 'token:search'],
): Grants {
  const rules = Array.from({ length: 1 + random.below(4) }, () => ({
    priority: 1 + random.below(3),
    container: random.one(['/', ...containers]),
    ...randomTransform(random),
    permissions: random.some(mayHold, 1),
  }));
  return { rules, permissions: random.chance(0.2) ? random.some(mayHold) : [] };
}

export function permissionsIn({ permissions, rules }: Grants): string[] {
  return [...new Set([permissions, ...rules.map((rule) => rule.permissions)].flat())];
}

const everywhere = { attribute: 'container', operator: 'starts_with', value: '/' };

/** Session rules. Half of the results redact everything: a weaker session must not help its authorizer to see more. */
export function randomSessionRules(random: Random, held: readonly string[]): object[] {
  if (random.chance(0.5)) {
    return [{ priority: 1, transform: 'redact', permissions: held, conditions: [everywhere] }];
  }
  return Array.from({ length: 1 + random.below(3) }, () => ({
    priority: 1 + random.below(3),
    ...randomTransform(random),
    permissions: random.some(held, 1),
    conditions: [
      random.chance(0.3)
        ? { attribute: 'id', operator: 'equals', value: random.one(tokenIds) }
        : { ...everywhere, value: random.one(['/', ...containers]) },
    ],
  }));
}
