/** What a list of Tokens costs: as much as it shows, however much else there is. */
import { Database as Sqlite } from 'bun:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { newId } from '../../src/domain/key.ts';
import type { Scope } from '../../src/domain/scope.ts';
import type { TokenFilter } from '../../src/store/store.ts';
import { pageOfTokens, selectTokens } from '../../src/store/token-scan.ts';
import { Params } from '../../src/store/where.ts';
import { openStores, raw, type Stores } from '../support/stores.ts';
import { databases } from '../support/world.ts';

const hidden = 20_000;
const shown = 30;

const within = (value: string) => ({ value, exact: false });
const exactly = (value: string) => ({ value, exact: true });

/** Each shows the same Tokens, which are older than all of the others. */
const scopes: [name: string, scopes: Scope[], filter?: TokenFilter][] = [
  ['a container and below', [{ container: within('/seen/') }]],
  ['a container alone', [{ container: exactly('/seen/deep/') }]],
  ['two containers', [{ container: within('/seen/') }, { container: within('/nothing/') }]],
  ['the start of an id', [{ id: within('seen-') }]],
  ['the start of an id in a container', [{ container: within('/mixed/'), id: within('seen-') }]],
  ['ids', Array.from({ length: shown }, (_, n) => ({ id: exactly(`seen-${n}`) }))],
  ['a filter by id', [{ container: within('/seen/') }], { ids: ['seen-1', 'seen-2', 'hidden-1'] }],
  ['a filter by metadata', [{ container: within('/seen/') }], { metadata: { colour: 'blue' } }],
  ['a filter by type', [{ container: within('/seen/') }], { type: 'card' }],
  ['metadata alone', [{}], { metadata: { rare: 'yes' } }],
];

const before = 'ffffffff-ffff-7fff-bfff-ffffffffffff';
const windows: [name: string, before: string | undefined][] = [
  ['from the start', undefined],
  ['from a cursor', before],
];
const cases = scopes.flatMap(([name, scopes, filter = {}]) =>
  windows.map(([from, before]) => [`${name}, ${from}`, scopes, filter, before] as const),
);

const tables = {
  tokens: 'tenant_id, seq, id, type, container, container_folded, version, created_at, data',
  token_containers: 'tenant_id, container, own, seq, id',
  token_metadata: 'tenant_id, name, value, seq',
};
type Rows = Record<keyof typeof tables, string[]>;

/** One row in SQL. Data is a byte that nobody opens. */
function row(database: string, ...values: (string | number | Uint8Array)[]): string {
  const literals = values.map((value) => {
    if (value instanceof Uint8Array) return database === 'SQLite' ? "x'00'" : "'\\x00'";
    return typeof value === 'number' ? value : `'${value}'`;
  });
  return `(${literals.join(', ')})`;
}

function addToken(
  rows: Rows,
  database: string,
  token: { tenant: string; at: number; id: string; container: string; rare: string },
): void {
  const { tenant, at, id, container, rare } = token;
  const seq = newId(at);
  rows.tokens.push(row(database, tenant, seq, id, 'card', container, container, 1, at, new Uint8Array(1)));
  const path = container.split('/').slice(1, -1);
  path.forEach((_, depth) => {
    const above = `/${path.slice(0, depth + 1).join('/')}/`;
    rows.token_containers.push(row(database, tenant, above, above === container ? 1 : 0, seq, id));
  });
  rows.token_metadata.push(row(database, tenant, 'colour', 'blue', seq));
  rows.token_metadata.push(row(database, tenant, 'rare', rare, seq));
}

async function insertAll(url: string, rows: Rows): Promise<void> {
  for (const [table, columns] of Object.entries(tables)) {
    const values = rows[table as keyof Rows];
    for (let at = 0; at < values.length; at += 2000) {
      const some = values.slice(at, at + 2000).join(', ');
      await raw(url, `insert into ${table} (${columns}) values ${some}`);
    }
  }
}

describe.each(databases)('on %s, a list of a few Tokens among many', (name, database) => {
  let on: Stores;
  let tenant: string;
  beforeAll(async () => {
    on = await openStores(database);
    tenant = await on.tenant();
    const rows: Rows = { tokens: [], token_containers: [], token_metadata: [] };
    const add = (at: number, id: string, container: string, rare: string) =>
      addToken(rows, name, { tenant, at, id, container, rare });
    for (let n = 0; n < shown; n++) {
      add(on.clock.now(), `seen-${n}`, '/seen/deep/', 'yes');
      add(on.clock.now(), `seen-in-mixed-${n}`, '/mixed/', 'yes');
    }
    for (let n = 0; n < hidden; n++)
      add(on.clock.now() + n, `hidden-${n}`, n % 2 ? '/mixed/' : '/hidden/deep/', 'no');
    await insertAll(on.url, rows);
  }, 60_000);
  afterAll(() => on.close());

  function statement(scopes: readonly Scope[], filter: TokenFilter, before: string | undefined) {
    const params = new Params();
    const window = { limit: 20, offset: 0, before };
    const page = pageOfTokens(params, 't.id', tenant, scopes, filter, window);
    return { sql: atNow(page), values: params.values };
  }

  function counting(scopes: readonly Scope[], filter: TokenFilter) {
    const params = new Params();
    const sql = `select count(*) from (${selectTokens(params, tenant, scopes, filter)}) as shown`;
    return { sql: atNow(sql), values: params.values };
  }

  const atNow = (sql: string) => sql.replace(/:now\b/g, String(on.clock.now()));

  if (name === 'SQLite') {
    const plan = ({ sql, values }: ReturnType<typeof statement>) => {
      const db = new Sqlite(on.url.slice('sqlite:'.length));
      const rows = db
        .query(`explain query plan ${sql.replace(/\$(\d+)/g, '?$1')}`)
        .all(...(values as string[]));
      db.close();
      return (rows as { detail: string }[]).map(({ detail }) => detail);
    };
    const narrow =
      /\((seq=\?|tenant_id=\? AND (container=\? AND own=\?|id=\?|id>\? AND id<\?|name=\? AND value=\?).*)\)$/;

    test.each(cases)('%s, reads no index but the narrowest', (_, scopes, filter, before) => {
      for (const steps of [plan(statement(scopes, filter, before)), plan(counting(scopes, filter))]) {
        const searches = steps.filter((step) => step.startsWith('SEARCH'));
        expect(searches.length).toBeGreaterThan(0);
        expect(searches.filter((step) => !narrow.test(step))).toEqual([]);
        expect(steps.filter((step) => /^SCAN (?!part|page|shown)/.test(step))).toEqual([]);
      }
    });
    return;
  }

  /** How many rows it takes to answer, of all tables together. */
  async function rowsVisited({ sql, values }: ReturnType<typeof statement>): Promise<number> {
    const db = new SQL(on.url, { max: 1 });
    const [answer] = await db.unsafe(`explain (analyze, timing off, format json) ${sql}`, values);
    await db.close();
    return rowsOf(answer['QUERY PLAN'][0].Plan);
  }

  test.each(cases)('%s, never reads them over and over', async (_, scopes, filter, before) => {
    expect(await rowsVisited(statement(scopes, filter, before))).toBeLessThan(3 * hidden);
    expect(await rowsVisited(counting(scopes, filter))).toBeLessThan(3 * hidden);
  });

  describe('once the database knows its tables', () => {
    beforeAll(() => raw(on.url, 'analyze'));

    test.each(cases)('%s, passes over none of them', async (_, scopes, filter, before) => {
      expect(await rowsVisited(statement(scopes, filter, before))).toBeLessThan(20 * shown);
      expect(await rowsVisited(counting(scopes, filter))).toBeLessThan(20 * shown);
    });
  });
});

interface PlanNode {
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly Plans?: PlanNode[];
}

function rowsOf(node: PlanNode): number {
  const { 'Actual Rows': kept, 'Actual Loops': loops } = node;
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0);
  return (kept + removed) * loops + (node.Plans ?? []).reduce((sum, below) => sum + rowsOf(below), 0);
}
