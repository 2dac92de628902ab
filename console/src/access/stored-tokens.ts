/** Stored tokens for the preview: in the containers and with the ids of the rules, then the newest other tokens. */

import { type Sallyport, type Token, ValidationError } from '../../../sdk/src/sallyport.ts';
import { canonicalContainer } from '../../../src/domain/rule.ts';
import { type Loaded, useDebounced, useLoad } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import type { Grants } from './grants.ts';

export interface NamedResources {
  readonly containers: readonly string[];
  readonly ids: readonly string[];
}

const containerPattern = /^\/?([\w-]+\/)*[\w-]*$/;
/** Bounds the requests for one preview. */
const maxContainers = 12;
const maxIds = 100;
export const tokensPerContainer = 20;
const newestTokens = 50;
/** Limits the pages that are read for one list. A page may be empty although the list continues. */
const maxPages = 5;

/** Valid containers and ids in the rules, each once. */
export function resourcesNamedBy(...grants: readonly (Grants | undefined)[]): NamedResources {
  const containers = new Set<string>();
  const ids = new Set<string>();
  for (const { container, conditions = [] } of grants.flatMap((each) => each?.rules ?? [])) {
    const named = conditions.filter(({ attribute }) => attribute === 'container').map(({ value }) => value);
    for (const name of [container, ...named])
      if (name !== undefined && containerPattern.test(name)) containers.add(canonicalContainer(name));
    for (const { attribute, operator, value } of conditions)
      if (attribute === 'id' && operator === 'equals') ids.add(value);
  }
  return { containers: [...containers].slice(0, maxContainers), ids: [...ids].slice(0, maxIds) };
}

async function first(
  api: Sallyport,
  filter: { container?: string; id?: string[] },
  size: number,
  signal: AbortSignal,
): Promise<Token[]> {
  const found: Token[] = [];
  let start: string | undefined;
  for (let page = 0; page < maxPages && found.length < size; page++) {
    const { data, pagination } = await api.tokens.list(
      { ...filter, size, ...(start !== undefined && { start }) },
      { signal },
    );
    found.push(...data);
    start = pagination.next;
    if (start === undefined) break;
  }
  return found.slice(0, size);
}

/** Returns no tokens if the draft has a container that the service rejects. */
function ignoreInvalid(error: unknown): Token[] {
  if (error instanceof ValidationError) return [];
  throw error;
}

/** Loads nothing unless `wanted`. */
export function useStoredTokens(
  wanted: boolean,
  ...grants: readonly (Grants | undefined)[]
): Loaded<Token[] | undefined> {
  const { api } = useSignedIn();
  const named = useDebounced(JSON.stringify(wanted ? resourcesNamedBy(...grants) : undefined), 300);
  return useLoad(`preview ${named}`, async (signal) => {
    if (named === undefined) return undefined;
    const { containers, ids } = JSON.parse(named) as NamedResources;
    const lists = await Promise.all([
      ids.length > 0 ? first(api, { id: [...ids] }, maxIds, signal) : [],
      ...containers.map((container) =>
        first(api, { container }, tokensPerContainer, signal).catch(ignoreInvalid),
      ),
      first(api, {}, newestTokens, signal),
    ]);
    return [...new Map(lists.flat().map((token) => [token.id, token])).values()];
  });
}
