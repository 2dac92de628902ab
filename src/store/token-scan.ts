/** Which Tokens a list shows: those that lie in any of the scopes and pass the filter. */
import type { Bound, Scope } from '../domain/scope.ts';
import { alive } from './applications.ts';
import type { TokenFilter } from './store.ts';
import { all, type Params } from './where.ts';

/** Past this, one scan that looks at every scope is better than a scan for each. */
const mostScans = 100;

interface Scan {
  readonly from: string;
  /** The condition that an index answers. */
  readonly where: string;
}

export interface Bounds {
  /** Only those made before this one. */
  readonly before?: string | undefined;
  /** No more than so many are wanted of each scan. */
  readonly limit?: number | undefined;
}

/**
 * A select of their `seq`. Every scope is read newest first from an index that holds nothing else, so that
 * the cost does not grow with what is hidden. Ids are so narrow that the scopes are checked afterwards.
 */
export function selectTokens(
  params: Params,
  tenant: string,
  scopes: readonly Scope[],
  filter: TokenFilter,
  bounds: Bounds,
): string {
  if (scopes.length === 0) return 'select t.seq from tokens t where 1 = 0';
  const together = filter.ids !== undefined || scopes.length > mostScans;
  const parts = together
    ? [{ scan: byAge(filter.ids && `t.id in ${params.list(filter.ids)}`), scopes }]
    : scopes.flatMap((scope) => scansOf(params, scope).map((scan) => ({ scan, scopes: [scope] })));
  const selects = parts.map(({ scan, scopes }) => {
    const where = all(
      `t.tenant_id = ${params.add(tenant)}`,
      scan.where,
      `(${scopes.map((scope) => within(params, scope)).join(' or ')})`,
      passing(params, filter),
      bounds.before !== undefined && `t.seq < ${params.add(bounds.before)}`,
      alive('t'),
    );
    const limit = bounds.limit === undefined ? '' : `order by t.seq desc limit ${params.add(bounds.limit)}`;
    return `select * from (select t.seq from ${scan.from} where ${where} ${limit}) as part`;
  });
  return selects.join(' union ');
}

function byAge(where: string | undefined): Scan {
  return { from: 'tokens t', where: where ?? '1 = 1' };
}

function scansOf(params: Params, { container, id }: Scope): Scan[] {
  if (!container) return [byAge(id && bounded(params, id))];
  const from = 'token_containers c join tokens t on t.tenant_id = c.tenant_id and t.seq = c.seq';
  return (container.exact ? [1] : [0, 1]).map((own) => ({
    from,
    where: `c.tenant_id = t.tenant_id and c.container = ${params.add(container.value)} and c.own = ${own}`,
  }));
}

/** Every character of an id sorts before "~", so this is all that starts with the value. */
function bounded(params: Params, { value, exact }: Bound): string {
  if (exact) return `t.id = ${params.add(value)}`;
  return `t.id >= ${params.add(value)} and t.id < ${params.add(`${value}~`)}`;
}

function within(params: Params, { container, id }: Scope): string {
  const starts = (column: string, { value, exact }: Bound) =>
    exact
      ? `${column} = ${params.add(value)}`
      : `substr(${column}, 1, ${value.length}) = ${params.add(value)}`;
  return all(container && starts('t.container_folded', container), id && starts('t.id', id)) || '1 = 1';
}

function passing(params: Params, { type, metadata }: TokenFilter): string {
  const pairs = Object.entries(metadata ?? {}).map(
    ([
      name,
      value,
    ]) => `exists (select 1 from token_metadata m where m.tenant_id = t.tenant_id and m.seq = t.seq
      and m.name = ${params.add(name)} and m.value = ${params.add(value)})`,
  );
  return all(type && `t.type = ${params.add(type)}`, ...pairs) || '1 = 1';
}
