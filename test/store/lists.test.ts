import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mint } from '../../src/domain/key.ts';
import type { ApplicationFilter } from '../../src/store/store.ts';
import { newApplication, openStores, type Stores } from '../support/stores.ts';
import { databases } from '../support/world.ts';

const all = { limit: 1000, offset: 0, before: undefined };
const someone = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';

describe.each(databases)('the store on %s: lists', (_, database) => {
  let on: Stores;
  let tenant: string;
  let ids: string[];
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
  beforeAll(async () => {
    on = await openStores(database);
    const data = newApplication(on.clock.now());
    tenant = data.id;
    await on.store.tenants.create({
      id: tenant,
      name: 'lists',
      createdAt: on.clock.now(),
      application: { ...data, name: 'first', type: 'management' },
      key: mint('mgt'),
    });
    ids = [data.id];
    for (const name of names) {
      const type = ids.length % 2 === 0 ? 'public' : 'private';
      ids.unshift((await on.application(tenant, { name, type })).id);
    }
    await on.application(await on.tenant(), { name: 'of another tenant' });
  });
  afterAll(() => on.close());

  const list = async (filter: ApplicationFilter, window = {}) =>
    (await on.store.applications.list(tenant, filter, { ...all, ...window })).map((row) => row.id);
  const named = async (name: string) =>
    (await on.store.applications.list(tenant, { name }, all)).map((row) => row.name).toSorted();

  test('newest first, also those of one millisecond', async () => {
    expect(await list({})).toEqual(ids);
  });

  test('pages by offset and pages by cursor both walk over every row once', async () => {
    const [byOffset, byCursor]: [string[], string[]] = [[], []];
    for (let offset = 0; offset <= ids.length; offset += 3)
      byOffset.push(...(await list({}, { limit: 3, offset })));
    for (let before: string | undefined; ; before = byCursor.at(-1)) {
      const page = await list({}, { limit: 3, before });
      byCursor.push(...page);
      if (page.length < 3) break;
    }
    expect(byOffset).toEqual(ids);
    expect(byCursor).toEqual(ids);
  });

  test('past the end there is nothing', async () => {
    expect(await list({}, { limit: 3, offset: 1000 })).toEqual([]);
    expect(await list({}, { before: ids.at(-1) })).toEqual([]);
  });

  test('ids narrow the list without ordering it; unknown and repeated ones add nothing', async () => {
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
  ])('count agrees with list for %s', async (_, filter, expected) => {
    expect(await list(filter)).toHaveLength(expected);
    expect(await on.store.applications.count(tenant, filter)).toBe(expected);
  });

  test('filters that are combined must all hold', async () => {
    const both = await on.store.applications.list(tenant, { name: 'a', type: 'public' }, all);
    expect(both.length).toBeGreaterThan(0);
    for (const { name, type } of both) expect([type, /a/i.test(name)]).toEqual(['public', true]);
    const narrowed = await list({ ids: both.map(({ id }) => id), type: 'private' });
    expect(narrowed).toEqual([]);
  });
});
