/** The work of a list request or a sweep does not depend on the number of applications or sessions. */
import { describe, expect, test } from 'bun:test';
import { newId } from '../../src/domain/key.ts';
import type { ListOrder, ListPage, ListWindow, Store } from '../../src/store/store.ts';
import { plansOf, recorder, rowsVisited } from '../support/statement-recorder.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore, runSql } from '../support/test-store.ts';

const many = 12_000;
const sessionColumns =
  'sessions (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules, created_at, expires_at)';

describe.each(databases)('on %s, one row of many', async (name, database) => {
  const asked = recorder();
  const digest = (n: number, kind: string) => {
    const hex = `${kind}${n.toString(16).padStart(10, '0')}`;
    return name === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'`;
  };
  const add = async (into: string, rows: string[]) => {
    for (let at = 0; at < rows.length; at += 2000)
      await runSql(on.url, `insert into ${into} values ${rows.slice(at, at + 2000).join(', ')}`);
  };
  const on = await openTestStore(database);
  const tenant = await on.tenant();
  const labels = { team: 'shop', tier: 'one' };
  /** The oldest application and the oldest session. */
  const application = (await on.application(tenant, { name: 'wanted', type: 'public', labels })).id;
  const session = (await on.session(tenant, application, { expiresAt: on.clock.now() + 1e9 })).id;
  const now = on.clock.now();
  const [other] = [newId(now + 1)];
  const applications = [`('${tenant}', '${other}', 'x', 'X', 'public', '[]', '[]', ${now + 1})`];
  const sessions: string[] = [];
  const labelled: string[] = [];
  for (let n = 0; n < many; n++) {
    const id = newId(now + 2 + n);
    applications.push(`('${tenant}', '${id}', 'x', 'X', 'public', '[]', '[]', ${now + 1})`);
    labelled.push(`('${tenant}', 'team', 'shop', '${id}')`);
    sessions.push(
      `('${tenant}', '${other}', '${newId(now + 2 + n)}', ${digest(n, 'aa')}, ${digest(n, 'bb')}, '[]', '[]', ${now}, ${now + 1e9})`,
    );
  }
  await add(
    'applications (tenant_id, id, name, name_folded, type, permissions, rules, created_at)',
    applications,
  );
  await add('application_labels (tenant_id, name, value, application_id)', labelled);
  await add(sessionColumns, sessions);
  if (name !== 'SQLite') await runSql(on.url, 'analyze');
  const store: Store = await on.openNode(undefined, asked.through);

  const lists: [string, () => string, (window: ListWindow) => Promise<ListPage<{ id: string }>>][] = [
    [
      'application by name',
      () => application,
      (window) => store.applications.list(tenant, { name: 'Ante' }, window),
    ],
    [
      'application by two labels, the first of which all have',
      () => application,
      (window) => store.applications.list(tenant, { labels: { team: 'shop', tier: 'one' } }, window),
    ],
    [
      'application that was not used since a time',
      () => application,
      (window) => store.applications.list(tenant, { type: 'public', usedBefore: now + 1 }, window),
    ],
    [
      'session by application',
      () => session,
      (window) => store.sessions.list(tenant, { application }, window),
    ],
  ];

  const orders: ListOrder[] = ['newest', 'oldest'];
  const inBothOrders = orders.flatMap((order) => lists.map((one) => [order, ...one] as const));

  test.each(inBothOrders)(
    '%s first, %s: found with bounded work per page',
    async (order, _, wanted, list) => {
      const found: string[] = [];
      let pages = 0;
      for (let window: ListWindow | undefined = { size: 100, page: 1, order }; window; pages++) {
        asked.take();
        const page: ListPage<{ id: string }> = await list(window);
        const statements = asked.take();
        // With a page number, two for each 2,000 rows.
        expect(statements.length).toBeLessThanOrEqual(window.page === undefined ? 3 : 14);
        if (name === 'SQLite') {
          const steps = plansOf(on.url, statements, on.clock.now());
          expect(steps.filter((step) => /^SCAN (?!x\b)/.test(step))).toEqual([]);
        } else {
          expect(await rowsVisited(on.url, statements, on.clock.now())).toBeLessThanOrEqual(150_000);
        }
        expect(page.total).toBeUndefined();
        found.push(...page.rows.map(({ id }) => id));
        window = page.next === undefined ? undefined : { size: 100, order, start: page.next };
      }
      expect(found).toEqual([wanted()]);
      // The first page examines 10,000 rows to count them, the second 2,000, and the third the rest.
      expect(pages).toBe(3);
    },
  );

  test('sessions are counted in stretches of 2,000, and pages across them are complete', async () => {
    const crowded = await on.tenant();
    const [one, other] = [await on.application(crowded), await on.application(crowded)];
    const now = on.clock.now();
    const ids = Array.from({ length: 4_500 }, (_, n) => newId(now + n));
    const rows = ids.map((id, n) => {
      const [key, nonce] = [digest(n, 'cc'), digest(n, 'dd')];
      return `('${crowded}', '${[one, other][n % 2]?.id}', '${id}', ${key}, ${nonce}, '[]', '[]', ${now}, ${now + 1e9})`;
    });
    await add(sessionColumns, rows);
    const oldest = ids.filter((_, n) => n % 2 === 0);
    for (const order of orders) {
      const wanted = order === 'oldest' ? oldest : oldest.toReversed();
      for (const page of [1, 10, 11, 23, 24]) {
        const listed = await store.sessions.list(
          crowded,
          { application: one.id },
          { size: 100, page, order },
        );
        const expected = wanted.slice((page - 1) * 100, page * 100);
        expect(listed.rows.map(({ id }) => id)).toEqual(expected);
        expect(listed).toMatchObject({ total: 2250, tooDeep: false });
        expect(listed.next).toBe(page < 23 ? expected.at(-1) : undefined);
      }
    }
    let turns = 0;
    let ticking = setImmediate(function tick() {
      turns++;
      ticking = setImmediate(tick);
    });
    await store.sessions.list(crowded, {}, { size: 100, page: 1 });
    clearImmediate(ticking);
    expect(turns).toBeGreaterThanOrEqual(2);
  });

  test.each(lists)('%s: page numbers beyond the counted rows are too deep', async (_, _wanted, list) => {
    expect(await list({ size: 100, page: 101 })).toMatchObject({ tooDeep: true });
    expect(await list({ size: 100, page: 2 })).toMatchObject({ tooDeep: true });
  });

  test('an application with a rare label is found on the first page, without the others', async () => {
    const list = (window: ListWindow) =>
      store.applications.list(tenant, { labels: { tier: 'one', team: 'shop' } }, window);
    asked.take();
    const page = await list({ size: 100, page: 1 });
    const statements = asked.take();
    expect(page).toMatchObject({ rows: [{ id: application }], total: 1, next: undefined });
    expect(await list({ size: 100, start: page.rows[0]!.id })).toMatchObject({ rows: [], next: undefined });
    if (name === 'SQLite') {
      const steps = plansOf(on.url, statements, on.clock.now());
      expect(steps.filter((step) => /^SCAN (?!x\b)/.test(step))).toEqual([]);
    } else expect(await rowsVisited(on.url, statements, on.clock.now())).toBeLessThanOrEqual(30);
  });

  test('a sweep examines expired applications only', async () => {
    const { maintenance } = await on.open(undefined, asked.through);
    const now = on.clock.now();
    const addExpired = async () => {
      const { id } = await on.application(tenant);
      await runSql(on.url, `update applications set expires_at = ${now} where id = '${id}'`);
    };
    await addExpired();
    asked.take();
    expect(await maintenance.sweep(10)).toBe(1);
    const statements = asked.take().filter(({ sql }) => !sql.startsWith('insert'));
    await addExpired();
    if (name === 'SQLite') {
      for (const step of plansOf(on.url, statements, now)) expect(step).not.toMatch(/^SCAN (?!CONSTANT ROW)/);
    } else expect(await rowsVisited(on.url, statements, now)).toBeLessThanOrEqual(20);
  });

  test('the number of applications of a tenant is omitted if it is too large to count', async () => {
    expect(await store.applications.count(tenant)).toBeUndefined();
  });
});
