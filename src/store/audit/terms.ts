/** Terms of audit entries: values by which the index finds entries, stored as hashes. */
import type { Entry } from '../../domain/audit.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import type { AuditFilter } from '../store.ts';

/**
 * The terms and the request id that the index stores for an entry. Both are empty if the text is not the JSON of an
 * entry.
 */
export function indexTerms(text: string): { terms: ReadonlySet<number>; request: number | null } {
  try {
    const entry = JSON.parse(text) as Entry;
    const { request_id } = entry;
    return { terms: termsOf(entry), request: request_id === undefined ? null : hash(request_id) };
  } catch {
    return { terms: new Set(), request: null };
  }
}

/** The distinct terms of an entry, hashed. */
function termsOf({ actor, operation, entity, resource, result }: Entry): Set<number> {
  const terms = new Set<number>();
  const add = (text: string) => terms.add(hash(text));
  for (const id of resource?.ids ?? []) add(`id:${id}`);
  if (entity) add(`id:${entity.id}`);
  for (const container of containersOf(resource?.container)) add(`container:${container}`);
  if (actor.id !== undefined) add(`actor:${actor.id}`);
  if (actor.application_id !== undefined) add(`actor:${actor.application_id}`);
  if (actor.authorized_by !== undefined) add(`authorizer:${actor.authorized_by}`);
  add(`operation:${operation}`);
  // Most entries are successes, so an index of them would be as long as the log.
  if (result !== 'success') add(`result:${result}`);
  return terms;
}

/** The terms that an entry must have to match the filter. The term that probably has the fewest entries is first. */
export function termsFor(filter: AuditFilter): number[] {
  const { token, entity, actor, authorizer, operation, container, result } = filter;
  const path = container === undefined ? '/' : canonicalContainer(container);
  const texts = [
    token !== undefined && `id:${token}`,
    entity !== undefined && `id:${entity}`,
    result !== undefined && result !== 'success' && `result:${result}`,
    actor !== undefined && `actor:${actor}`,
    authorizer !== undefined && `authorizer:${authorizer}`,
    operation !== undefined && `operation:${operation}`,
    path !== '/' && `container:${path}`,
  ];
  return texts.filter((text) => text !== false).map(hash);
}

/** The value of the column `request`. */
export function requestHash(requestId: string): number {
  return hash(requestId);
}

/** A signed 32-bit number, to fit the columns `term` and `request`. */
function hash(text: string): number {
  return Bun.hash.xxHash32(text) | 0;
}

/** The container and all containers above it except the root, in canonical form. */
function containersOf(container: string | undefined): string[] {
  if (container === undefined) return [];
  const path = canonicalContainer(container);
  const ends = [...path.matchAll(/\//g)].map(({ index }) => index + 1);
  return ends.filter((end) => end > 1).map((end) => path.slice(0, end));
}

/**
 * Whether an entry matches the filter, except for its time. Checks all fields, because terms in the index are hashes,
 * which may collide.
 */
export function matches(entry: Entry, filter: AuditFilter): boolean {
  const { actor, operation, entity, resource, decision, result, request_id } = entry;
  const { container } = filter;
  return (
    (filter.token === undefined ||
      (entity?.kind === 'token' && entity.id === filter.token) ||
      (resource?.ids?.includes(filter.token) ?? false)) &&
    (filter.entity === undefined || entity?.id === filter.entity) &&
    (filter.actor === undefined || actor.id === filter.actor || actor.application_id === filter.actor) &&
    (filter.authorizer === undefined || actor.authorized_by === filter.authorizer) &&
    (filter.operation === undefined || operation === filter.operation) &&
    (filter.result === undefined || result === filter.result) &&
    (filter.request_id === undefined || request_id === filter.request_id) &&
    (filter.transform === undefined || decision?.transform === filter.transform) &&
    (container === undefined ||
      (resource?.container !== undefined &&
        canonicalContainer(resource.container).startsWith(canonicalContainer(container))))
  );
}

/** Whether a time matches the filter. */
export function isBetween(at: number, { from, to }: AuditFilter): boolean {
  return (from === undefined || at >= from) && (to === undefined || at < to);
}
