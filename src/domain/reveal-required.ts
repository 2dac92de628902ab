/** Changes that keep the data of a token, and decide what others see of it. */
import { decideUnder, type Resource } from './policy.ts';
import { isInBrowser, type Principal } from './principal.ts';
import { canonicalContainer } from './rule.ts';
import { stricter, type Transform } from './transform.ts';

interface Place extends Resource {
  readonly container: string;
}

/** A patch that keeps the data, or part of it. */
export interface KeepingPatch {
  readonly from: Place;
  readonly to: Place;
  /** Whether it sets a mask. */
  readonly remasks: boolean;
  /** Whether it merges an object into the data. */
  readonly merges: boolean;
}

/**
 * Whether the caller may make this change only with `token:update` and `reveal` where the token lies, and has less.
 * With `reveal` it may make any change, since it could as well copy the data. Without:
 *
 * - no key sets a mask or merges into the data: mask, size and errors of the result depend on hidden data;
 * - a key in a browser moves no token: its authorizer, another session or another holder of the same public key may
 *   see more in the new container;
 * - a private or management key moves a token only to where it does not see more of the data itself.
 */
export function needsReveal(principal: Principal, { from, to, remasks, merges }: KeepingPatch): boolean {
  if (seen(principal, ['token:update'], from) === 'reveal') return false;
  if (remasks || merges) return true;
  if (canonicalContainer(from.container) === canonicalContainer(to.container)) return false;
  if (isInBrowser(principal)) return true;
  const [here, there] = [seen(principal, showing, from), seen(principal, showing, to)];
  return stricter(here, there) !== there;
}

/** The permissions whose replies show the data of a stored token. */
const showing = ['token:read', 'token:update'];

/** The most that the caller sees of the data there, by any of the permissions. No access shows as much as `redact`. */
function seen({ policy, ceiling }: Principal, permissions: readonly string[], resource: Resource): Transform {
  return permissions
    .map((permission) => decideUnder(policy, ceiling, permission, resource))
    .map((verdict) => (verdict.allowed ? verdict.transform : 'redact'))
    .reduce((a, b) => (stricter(a, b) === a ? b : a));
}
