import { describe, expect, test } from 'bun:test';
import { mint, newTag } from '../../src/domain/key.ts';
import { maxId } from '../../src/store/lists/page.ts';
import type { ApplicationFilter } from '../../src/store/store.ts';
import { recorder } from '../support/statement-recorder.ts';
import { databases } from '../support/test-server.ts';
import { newApplication, openTestStore } from '../support/test-store.ts';

const all = { size: 1000, page: 1 };
const someone = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';

describe.each(databases)('the store on %s: lists', async (_, database) => {
  const names = [
    'Ärger',
    'ärger zwei',
    '100%',
    '100x',
    'a_b',
    'axb',
    'back\\slash',
    "it's",
    'ПРИВЕТ',
    'İstanbul',
  ];
  const on = await openTestStore(database);
  const data = newApplication(on.clock.now());
  const tenant = data.id;
  const tag = newTag();
  await on.maintenance.tenants.create({
    id: tenant,
    tag,
    name: 'lists',
    createdAt: on.clock.now(),
    application: { ...data, name: 'first', type: 'management' },
    key: mint('mgt', tag),
  });
  const ids: string[] = [data.id];
  for (const name of names) {
    const type = ids.length % 2 === 0 ? 'public' : 'private';
    ids.unshift((await on.application(tenant, { name, type })).id);
  }
  await on.application(await on.tenant(), { name: 'of another tenant' });

  const list = async (filter: ApplicationFilter, window = {}) =>
    (await on.store.applications.list(tenant, filter, { ...all, ...window })).rows.map((row) => row.id);
  const named = async (name: string) =>
    (await on.store.applications.list(tenant, { name }, all)).rows.map((row) => row.name).toSorted();

  test('newest first, also within one millisecond', async () => {
    expect(await list({})).toEqual(ids);
  });

  test('page numbers and cursors both list every row once', async () => {
    const [byNumber, byCursor]: [string[], string[]] = [[], []];
    for (let page = 1; page <= 5; page++) byNumber.push(...(await list({}, { size: 3, page })));
    for (let before: string | undefined = maxId; before !== undefined; ) {
      const page = await on.store.applications.list(tenant, {}, { size: 3, before });
      byCursor.push(...page.rows.map(({ id }) => id));
      before = page.next;
    }
    expect(byNumber).toEqual(ids);
    expect(byCursor).toEqual(ids);
  });

  test('a page after the last one is empty', async () => {
    expect(await list({}, { size: 3, page: 300 })).toEqual([]);
    expect(await list({}, { page: undefined, before: ids.at(-1) })).toEqual([]);
  });

  test('a filter by ids ignores their order, unknown ids and duplicates', async () => {
    const wanted = [ids[4]!, ids[1]!, someone, ids[4]!];
    expect(await list({ ids: wanted })).toEqual([ids[1]!, ids[4]!]);
    expect(await list({ ids: [] })).toEqual([]);
  });

  test.each([
    ['ÄRGER', ['Ärger', 'ärger zwei']],
    ['Ärger', ['Ärger', 'ärger zwei']],
    ['%', ['100%']],
    ['_', ['a_b']],
    ['\\', ['back\\slash']],
    ["'", ["it's"]],
    ['привет', ['ПРИВЕТ']],
    ['İST', ['İstanbul']],
    ['nobody', []],
  ])('the name filter %p finds %p', async (name, expected) => {
    expect(await named(name)).toEqual(expected);
  });

  test.each<[string, ApplicationFilter, number]>([
    ['everything', {}, 11],
    ['a type', { type: 'public' }, 5],
    ['a part of the name', { name: '1' }, 2],
    ['both', { name: 'A', type: 'private' }, 2],
    ['no ids', { ids: [] }, 0],
  ])('the total agrees with the list for %s', async (_, filter, expected) => {
    const { rows, total } = await on.store.applications.list(tenant, filter, all);
    expect([rows.length, total]).toEqual([expected, expected]);
  });

  test('memory for the rows of a page is reserved before they are read', async () => {
    const asked = recorder();
    const store = await on.openNode(undefined, asked.through);
    const reserved: number[] = [];
    const reserve = (bytes: number) => void reserved.push(bytes);
    const { rows } = await store.applications.list(tenant, {}, { size: 3, page: 1, reserve });
    const bytes = rows.reduce((sum, { rules }) => sum + JSON.stringify(rules).length, 0);
    expect(reserved).toHaveLength(1);
    expect(reserved[0]).toBeGreaterThanOrEqual(4 * bytes);
    asked.take();
    const refuse = () => {
      throw new Error('no memory');
    };
    const refused = store.applications.list(tenant, {}, { size: 3, page: 1, reserve: refuse });
    await expect(refused).rejects.toThrow('no memory');
    const statements = asked.take().map(({ sql }) => sql);
    expect(statements.length).toBeGreaterThan(0);
    expect(statements.filter((sql) => /\br\.permissions\b/.test(sql))).toEqual([]);
  });

  test('combined filters must all match', async () => {
    const { rows: both } = await on.store.applications.list(tenant, { name: 'a', type: 'public' }, all);
    expect(both.length).toBeGreaterThan(0);
    for (const { name, type } of both) expect([type, /a/i.test(name)]).toEqual(['public', true]);
    const narrowed = await list({ ids: both.map(({ id }) => id), type: 'private' });
    expect(narrowed).toEqual([]);
  });
});
