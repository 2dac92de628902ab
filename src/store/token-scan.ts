/**
 * Which Tokens a list shows: those that lie in any of the scopes and pass the filter.
 *
 * Each scope is read from an index that holds its Tokens and no others, so that the cost does not grow with what
 * is hidden. What an index entry says too little of is looked up in a subselect, one by one: joined, a database
 * that knows too little about its tables might read all of them instead.
 */
import type { Bound, Scope } from '../domain/scope.ts';
import { alive } from './applications.ts';
import type { TokenFilter, Window } from './store.ts';
import { all, any, type Params } from './where.ts';

interface Scan {
  /** The table whose index is read, and what it is called: `t` for Tokens. */
  readonly from: 'tokens t' | 'token_containers c' | 'token_metadata m';
  /** What the index answers, beside the tenant. */
  readonly where?: string | undefined;
  /** Whether it has them in order of age. */
  readonly inOrder: boolean;
  /** What else must be true of the Token. */
  readonly check?: string | undefined;
}

/** A select of `seq`; with a window, of no more than that needs. */
export function selectTokens(
  params: Params,
  tenant: string,
  scopes: readonly Scope[],
  filter: TokenFilter,
  window?: Window,
): string {
  const among = scopes[0]?.among;
  const selects = scansOf(params, scopes, filter).map(({ from, where, inOrder, check }) => {
    const entry = from.slice(-1);
    const age = ageOf(entry, inOrder);
    const token = all(alive('t'), check, among && inAny(params, among), passing(params, filter));
    const conditions = all(
      `${entry}.tenant_id = ${params.add(tenant)}`,
      where,
      window?.before !== undefined && `${age} < ${params.add(window.before)}`,
      entry === 't' ? token : isTrueOfToken(entry, token),
    );
    const newest = window && `order by ${age} desc limit ${params.add(window.offset + window.limit)}`;
    return `select * from (select ${entry}.seq from ${from} where ${conditions} ${newest ?? ''}) as part`;
  });
  return selects.join(' union ') || 'select seq from tokens where 1 = 0';
}

/** Found by `seq` alone, which one index has and no other. */
function isTrueOfToken(entry: string, condition: string): string {
  return `(select 1 from tokens t where t.seq = ${entry}.seq and ${condition}) = 1`;
}

/** As text where it must be sorted, so that no index in order of age is read instead of the right one. */
function ageOf(entry: string, inOrder: boolean): string {
  return inOrder ? `${entry}.seq` : `cast(${entry}.seq as text)`;
}

/** One page of the columns of `t`, newest first. */
export function pageOfTokens(
  params: Params,
  columns: string,
  tenant: string,
  scopes: readonly Scope[],
  filter: TokenFilter,
  window: Window,
): string {
  const shown = selectTokens(params, tenant, scopes, filter, window);
  return `select ${columns} from (select seq from (${shown}) as shown
      order by seq desc limit ${params.add(window.limit)} offset ${params.add(window.offset)}) as page
    join tokens t on t.seq = page.seq order by page.seq desc`;
}

function scansOf(params: Params, scopes: readonly Scope[], filter: TokenFilter): Scan[] {
  if (scopes.length === 0) return [];
  if (filter.ids) return [byIds(params, filter.ids, scopes)];
  if (scopes[0]?.among) return [byAge(inAny(params, scopes))];
  const ofOneToken = scopes.filter(({ id }) => id?.exact);
  const others = scopes.filter(({ id }) => !id?.exact);
  const scans = others.flatMap((scope) => scansOfOne(params, scope, filter));
  if (ofOneToken.length === 0) return scans;
  const ids = ofOneToken.map(({ id }) => (id as Bound).value);
  return [...scans, byIds(params, ids, ofOneToken)];
}

/** Ids are so narrow that the scopes are checked afterwards. */
function byIds(params: Params, ids: readonly string[], scopes: readonly Scope[]): Scan {
  const where = `t.id in ${params.list([...new Set(ids)])}`;
  return { from: 'tokens t', where, inOrder: false, check: inAny(params, scopes) };
}

/** One scan that looks at every scope, where there are too many for a scan each. */
function byAge(check?: string): Scan {
  return { from: 'tokens t', inOrder: true, check };
}

function scansOfOne(params: Params, { container, id }: Scope, { metadata }: TokenFilter): Scan[] {
  if (container) {
    return (container.exact ? [1] : [0, 1]).map((own) => ({
      from: 'token_containers c',
      where: all(
        `c.container = ${params.add(container.value)} and c.own = ${own}`,
        id && startsWith(params, 'c.id', id),
      ),
      inOrder: !id,
    }));
  }
  if (id) return [{ from: 'tokens t', where: startsWith(params, 't.id', id), inOrder: false }];
  const [pair] = Object.entries(metadata ?? {});
  if (!pair) return [byAge()];
  const [name, value] = pair.map((part) => params.add(part));
  return [{ from: 'token_metadata m', where: `m.name = ${name} and m.value = ${value}`, inOrder: true }];
}

/** Every character of an id sorts before "~", so this is all that starts with the value. */
function startsWith(params: Params, column: string, { value }: Bound): string {
  return `${column} >= ${params.add(value)} and ${column} < ${params.add(`${value}~`)}`;
}

function inAny(params: Params, scopes: readonly Scope[]): string {
  const is = (column: string, { value, exact }: Bound) =>
    exact
      ? `${column} = ${params.add(value)}`
      : `substr(${column}, 1, ${params.add(value.length)}) = ${params.add(value)}`;
  return any(
    scopes.map(({ container, id }) =>
      all(container && is('t.container_folded', container), id && is('t.id', id)),
    ),
  );
}

function passing(params: Params, { type, metadata }: TokenFilter): string {
  const pairs = Object.entries(metadata ?? {}).map(
    ([name, value]) => `(select 1 from token_metadata p where p.seq = t.seq
      and p.name = ${params.add(name)} and p.value = ${params.add(value)}) = 1`,
  );
  return all(type && `t.type = ${params.add(type)}`, ...pairs);
}
