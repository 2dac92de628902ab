/** Reading the audit log: one page examines a bounded number of entries, with any filter. */
import { Database as Sqlite } from 'bun:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { newId } from '../../../src/domain/key.ts';
import { maxExamined } from '../../../src/store/audit/log.ts';
import type { Value } from '../../../src/store/engine/db.ts';
import type { AuditFilter, NewEntry, Store } from '../../../src/store/store.ts';
import { databases, startTime, testMasterKey } from '../../support/test-server.ts';
import { masterKeys, openTestStore, runSql, type TestStore } from '../../support/test-store.ts';

const pages = 3;
const count = pages * maxExamined - 500;
const actor = newId(1);

const filters: [name: string, filter: AuditFilter][] = [
  ['an operation that never occurred', { operation: 'none' }],
  ['an actor', { actor }],
  ['an entity', { entity: 'needle' }],
  ['a result', { result: 'denied' }],
  ['everything at once', { actor, entity: 'needle', operation: 'find', result: 'denied', from: 0, to: 9e12 }],
];

describe.each(databases)('the store on %s: pages of the audit log', (name, database) => {
  let on: TestStore;
  let watched: Store;
  let tenant: string;
  let began: number;
  const sent: { sql: string; values: readonly Value[] }[] = [];
  beforeAll(async () => {
    on = await openTestStore(database);
    tenant = await on.tenant();
    began = on.clock.now();
    const entry = (at: number): NewEntry => ({
      tenantId: tenant,
      at: began + at,
      actor: { kind: 'operator' },
      operation: 'noise',
      result: 'success',
      from: {},
    });
    const needle = { operation: 'find', entity: { kind: 'token', id: 'needle' }, result: 'denied' } as const;
    const entries = Array.from({ length: count }, (_, at) => entry(at));
    for (const at of [0, 2500])
      entries[at] = { ...entry(at), ...needle, actor: { kind: 'application', id: actor } };
    for (let at = 0; at < count; at += 1000) await on.store.audit.write(entries.slice(at, at + 1000));
    if (name === 'PostgreSQL') await runSql(on.url, 'analyze');
    watched = await on.openNode(masterKeys(testMasterKey), (db) => ({
      ...db,
      get: (sql, values = []) => {
        sent.push({ sql, values });
        return db.get(sql, values);
      },
      all: (sql, values = []) => {
        sent.push({ sql, values });
        return db.all(sql, values);
      },
    }));
  }, 60_000);
  afterAll(() => on.close());

  const page = (filter: AuditFilter, before?: string, limit = 20) =>
    Promise.try(() => watched.audit.list(tenant, filter, { limit, before }));

  async function walk(filter: AuditFilter, limit?: number) {
    const read = [await page(filter, undefined, limit)];
    for (let next = read[0]?.next; next !== undefined; next = read.at(-1)?.next)
      read.push(await page(filter, next, limit));
    return { pages: read.length, found: read.flatMap(({ entries }) => entries) };
  }

  const at = (moment: number) => new Date(began + moment).toISOString();

  test.each(filters)(
    'filtered by %s, one page ends early and the next ones find the rest',
    async (_, filter) => {
      const first = await page(filter);
      expect(first.entries).toEqual([]);
      expect(first.next).toBeDefined();
      const { pages: read, found } = await walk(filter);
      expect(read).toBeLessThanOrEqual(pages + 1);
      expect(found.map((entry) => entry.at)).toEqual(filter.operation === 'none' ? [] : [at(2500), at(0)]);
    },
  );

  test('the page after a full page starts after its last entry', async () => {
    const { found } = await walk({ operation: 'noise' }, 700);
    expect(found).toHaveLength(count - 2);
    expect(new Set(found.map(({ id }) => id)).size).toBe(count - 2);
  });

  test('a page of large entries ends early, and the next page continues', async () => {
    const other = await on.tenant();
    const large = { actor: { kind: 'operator' }, operation: 'x', result: 'success', from: {} } as const;
    const reason = 'x'.repeat(1_500_000);
    for (let made = 0; made < 5; made++)
      await on.store.audit.write([{ ...large, reason, tenantId: other, at: began + made }]);
    const sizes = [];
    for (let before: string | undefined, more = true; more; ) {
      const { entries, next } = await on.store.audit.list(other, {}, { limit: 20, before });
      sizes.push(entries.length);
      [before, more] = [next, next !== undefined];
    }
    expect(sizes).toEqual([2, 2, 1]);
  });

  test('from is inclusive and to is exclusive, to the millisecond', async () => {
    const { found } = await walk({ from: began + 2499, to: began + 2502 });
    expect(found.map((entry) => entry.at)).toEqual([at(2501), at(2500), at(2499)]);
    const { pages: read, found: needles } = await walk({ from: began + 2400, to: began + 2600, actor });
    expect([read, needles.length]).toEqual([1, 1]);
    expect((await page({ from: began + count })).entries).toEqual([]);
    expect((await page({ to: began, from: -5 })).entries).toEqual([]);
  });

  const ranges: typeof filters = [...filters, ['a time', { from: startTime, to: startTime + 9 }]];
  test.each(ranges)('filtered by %s, every statement reads a range of one index', async (_, filter) => {
    for (const before of [undefined, newId(on.clock.now() + count)]) {
      sent.length = 0;
      await page(filter, before);
      expect(sent.length).toBeLessThanOrEqual(2);
      for (const statement of sent) await expectRange(statement);
    }
  });

  async function expectRange({ sql, values }: (typeof sent)[number]): Promise<void> {
    if (name === 'SQLite') {
      // Of several bounds on one side SQLite uses one, and checks the others row by row.
      expect(sql.match(/\bid >=/g)?.length ?? 0).toBeLessThanOrEqual(1);
      expect(sql.match(/\bid </g)?.length ?? 0).toBeLessThanOrEqual(1);
      const db = new Sqlite(on.url.slice('sqlite:'.length));
      const text = `explain query plan ${sql.replace(/\$(\d+)/g, '?$1')}`;
      const steps = db.query(text).all(...(values as string[])) as { detail: string }[];
      db.close();
      expect(steps.map(({ detail }) => detail)).toEqual([
        expect.stringMatching(/^SEARCH audit USING (COVERING )?INDEX audit_by_tenant \(tenant_id=\?/),
      ]);
      return;
    }
    const db = new SQL(on.url, { max: 1 });
    const [answer] = await db.unsafe(`explain (analyze, timing off, format json) ${sql}`, [...values]);
    await db.close();
    expect(rowsRead(answer['QUERY PLAN'][0].Plan)).toBeLessThanOrEqual(maxExamined + 1);
  }
});

interface PlanNode {
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: PlanNode[];
}

/** Rows that the leaves of a plan read. */
function rowsRead(node: PlanNode): number {
  if (node.Plans) return node.Plans.reduce((sum, below) => sum + rowsRead(below), 0);
  return (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
}
