/** Decides which changes of a token need `reveal`: those that affect who sees its existing data, or how. */
import { decideUnder, type Resource } from './policy.ts';
import { isInBrowser, type Principal } from './principal.ts';
import { canonicalContainer, stricter, type Transform } from './rule.ts';

type TokenLocation = Resource & { readonly container: string };

/** A patch that does not replace the data as a whole. */
export interface PartialPatch {
  readonly from: TokenLocation;
  readonly to: TokenLocation;
  /** Whether the patch sets a mask. */
  readonly remasks: boolean;
  /** Whether the patch merges an object into the data. */
  readonly merges: boolean;
}

/**
 * Returns true if the change needs `token:update` with `reveal` in the current container and the caller has less.
 * A caller with `reveal` may make any change, since it could copy the data anyway. Without `reveal`:
 *
 * - no key may set a mask or merge into the data, because mask, size and errors of the result depend on hidden data;
 * - a key in a browser may not move a token, because its authorizer, another session or another holder of the same
 *   public key may see more in the new container;
 * - a private or management key may move a token only to a container where it does not see more of the data.
 */
export function needsReveal(principal: Principal, { from, to, remasks, merges }: PartialPatch): boolean {
  if (mostVisible(principal, ['token:update'], from) === 'reveal') return false;
  if (remasks || merges) return true;
  if (canonicalContainer(from.container) === canonicalContainer(to.container)) return false;
  if (isInBrowser(principal)) return true;
  const [here, there] = [mostVisible(principal, disclosing, from), mostVisible(principal, disclosing, to)];
  return stricter(here, there) !== there;
}

/** The permissions whose responses contain data of a stored token. */
const disclosing = ['token:read', 'token:update'];

/** The least strict transform that the caller has through any of the permissions. No access counts as `redact`. */
function mostVisible(
  { policy, ceiling }: Principal,
  permissions: readonly string[],
  resource: Resource,
): Transform {
  return permissions
    .map((permission) => decideUnder(policy, ceiling, permission, resource))
    .map((verdict) => (verdict.allowed ? verdict.transform : 'redact'))
    .reduce((a, b) => (stricter(a, b) === a ? b : a));
}
