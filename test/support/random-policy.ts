/** Random policies, permissions and resources, biased towards edge cases. */
import type { Grants } from '../../src/domain/grant.ts';
import type { Resource } from '../../src/domain/policy.ts';
import type { Condition, Rule } from '../../src/domain/rule.ts';

export interface Case {
  readonly holder: 'application' | 'session' | 'delegation';
  readonly grants: Grants;
  readonly ceiling: Grants | undefined;
  readonly permission: string;
  readonly resource: Resource;
  /** Whether the request states a purpose. */
  readonly purpose: string | undefined;
}

/** Pseudo-random numbers from a seed (mulberry32). */
export class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }
  /** At least 0, less than 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }
  /** An integer of at least 0, less than `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }
  chance(probability: number): boolean {
    return this.next() < probability;
  }
  of<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T;
  }
  some<T>(count: number, make: () => T): T[] {
    return Array.from({ length: count }, make);
  }
  shuffled<T>(values: readonly T[]): T[] {
    const rest = [...values];
    return values.map(() => rest.splice(this.below(rest.length), 1)[0] as T);
  }
}

const segments = ['pci', 'pci-other', 'pci_', 'high', 'hi', '0', 'b'];
const ids = ['card-1', 'card-10', 'card-', 'Card-1', 'card', 'tok:1.a', 'a-b', 'é', '😀-1'];
const otherPermissions = [
  'token:use',
  'token:use',
  'token:update',
  'token:search',
  'invoice:read',
  'decision:create',
  'application:read',
];
const destinations = [1, 2, 3].map((digit) => `0197f3c2-5a1e-7c40-9d2b-00000000000${digit}`);
const transforms = ['redact', 'mask', 'reveal'] as const;
const priorities = [1, 1, 1, 2, 2, 3, 2_147_483_647];

export function randomCase(random: Random): Case {
  const holder = random.of(['application', 'session', 'delegation'] as const);
  const grants = randomGrants(random, holder);
  // The key that issued a delegation is always its ceiling.
  const hasCeiling = holder === 'delegation' || (holder === 'session' && random.chance(0.6));
  const ceiling = hasCeiling ? randomGrants(random, 'application') : undefined;
  const permission = randomPermission(random);
  const resource = randomResource(random, grants, ceiling);
  const purpose = random.chance(0.5) ? 'chargeback' : undefined;
  return { holder, grants, ceiling, permission, resource, purpose };
}

export function randomGrants(random: Random, holder: Case['holder']): Grants {
  const count = random.chance(0.005) ? 50 : random.below(8);
  const plain = random.chance(0.3) ? random.some(1 + random.below(2), () => randomPermission(random)) : [];
  return {
    // Only a rule can grant it.
    permissions: [...new Set(plain)].filter((name) => name !== 'token:use'),
    rules: random.some(count, () => randomRule(random, holder)),
  };
}

function randomPermission(random: Random): string {
  return random.chance(0.6) ? 'token:read' : random.of(otherPermissions);
}

function randomRule(random: Random, holder: Case['holder']): Rule {
  const granted = random.some(1 + random.below(3), () => randomPermission(random));
  const transform = random.of(transforms);
  return {
    description: random.chance(0.2) ? `rule of ${holder}` : undefined,
    priority: random.of(priorities),
    container: holder === 'application' && random.chance(0.9) ? randomContainer(random) : undefined,
    conditions:
      holder === 'application'
        ? undefined
        : random.some(random.of([1, 1, 2, 3]), () => randomCondition(random)),
    transform,
    ...(transform === 'reveal' && random.chance(0.5) && { require_purpose: true }),
    ...(granted.includes('token:use') && {
      destinations: random.some(1 + random.below(2), () => random.of(destinations)),
    }),
    permissions: [...new Set(granted)],
  };
}

function randomCondition(random: Random): Condition {
  const operator = random.of(['equals', 'starts_with'] as const);
  if (random.chance(0.5)) return { attribute: 'container', operator, value: randomContainer(random) };
  const id = random.of(ids);
  const part = operator === 'starts_with' ? [...id].slice(0, 1 + random.below(id.length)).join('') : id;
  return { attribute: 'id', operator, value: part };
}

/** Uses few segments, so that containers often nest, coincide or differ by one letter. Case and slashes vary. */
export function randomContainer(random: Random): string {
  if (random.chance(0.08)) return '/';
  return varySpelling(
    random,
    random.some(1 + random.below(3), () => random.of(segments)),
  );
}

function varySpelling(random: Random, path: readonly string[]): string {
  const joined = path.map((segment) => (random.chance(0.2) ? segment.toUpperCase() : segment)).join('/');
  return `${random.chance(0.8) ? '/' : ''}${joined}${random.chance(0.8) ? '/' : ''}`;
}

/** Usually close to the values of one rule, so that the rule often matches or almost matches. */
function randomResource(random: Random, ...all: (Grants | undefined)[]): Resource {
  const rules = all.flatMap((grants) => grants?.rules ?? []);
  const values = rules.length === 0 ? [] : valuesOf(random.of(rules));
  const near = (attribute: Condition['attribute']) => values.filter((each) => each.attribute === attribute);
  return {
    id: random.chance(0.1) ? undefined : randomId(random, near('id')),
    container: random.chance(0.1) ? undefined : nearContainer(random, near('container')),
    destination: random.chance(0.2) ? undefined : random.of(destinations),
    max_uses: random.of([undefined, undefined, null, 1]),
  };
}

function valuesOf(rule: Rule): Pick<Condition, 'attribute' | 'value'>[] {
  if (rule.container !== undefined) return [{ attribute: 'container', value: rule.container }];
  return rule.conditions ?? [];
}

function randomId(random: Random, values: Pick<Condition, 'value'>[]): string {
  if (values.length === 0 || random.chance(0.2)) return random.of(ids);
  const { value } = random.of(values);
  return random.of([value, value, `${value}0`, value.toUpperCase()]);
}

/** A container from the values, or its parent, child or sibling. */
function nearContainer(random: Random, values: Pick<Condition, 'value'>[]): string {
  if (values.length === 0 || random.chance(0.2)) return randomContainer(random);
  const path = random.of(values).value.split('/').filter(Boolean);
  const moved = random.of([
    path,
    path,
    [...path, random.of(segments)],
    path.slice(0, -1),
    [...path.slice(0, -1), random.of(segments)],
  ]);
  return moved.length === 0 ? '/' : varySpelling(random, moved);
}
