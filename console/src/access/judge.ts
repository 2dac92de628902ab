/**
 * What grants allow, decided by the very code that the service decides with. So a draft that is stored nowhere
 * gets the same answer, and the same reasons, that it will get once it is.
 */
import './no-eval.ts';

import { explain, trace } from '../../../src/domain/explain.ts';
import { compilePolicy } from '../../../src/domain/policy.ts';
import type { Grants } from './grants.ts';
import type { Verdict } from './ladder.tsx';

export interface Resource {
  readonly id?: string | undefined;
  readonly container?: string | undefined;
}

export interface Side {
  readonly holder: 'application' | 'session';
  readonly grants: Grants;
  /** Of the authorizer, for a Session that may never do more. */
  readonly ceiling?: Grants | undefined;
}

function policyOf({ permissions, rules }: Grants) {
  const whole = rules.map(({ description, container, conditions, ...rest }) => ({
    ...rest,
    description,
    container,
    conditions,
  }));
  return compilePolicy({ permissions: [...permissions], rules: whole });
}

export function judge({
  holder,
  grants,
  ceiling,
}: Side): (permission: string, resource: Resource) => Verdict {
  const question = { holder, policy: policyOf(grants), ceiling: ceiling && policyOf(ceiling) };
  return (permission, resource) => ({
    ...explain(question, permission, resource),
    trace: trace(question, permission, resource),
  });
}

/** Places that the rules speak of, one below each, and one that they do not. */
export function samplesOf(...grants: readonly (Grants | undefined)[]): Resource[] {
  const rules = grants.flatMap((each) => each?.rules ?? []);
  const containers = new Set<string>();
  const ids = new Set<string>();
  for (const { container, conditions } of rules) {
    if (container !== undefined) containers.add(container);
    for (const { attribute, value } of conditions ?? []) (attribute === 'id' ? ids : containers).add(value);
  }
  const slashed = [...containers].map((each) => `/${each.replace(/^\/|\/$/g, '')}/`.replace('//', '/'));
  const below = slashed.slice(0, 3).map((each) => `${each}example/`);
  const places = [...new Set([...slashed, ...below, '/general/', '/elsewhere/'])];
  const first = slashed[0] ?? '/general/';
  return [
    ...places.slice(0, 12).map((container) => ({ container })),
    ...[...ids].slice(0, 4).map((id) => ({ id, container: first })),
  ];
}
