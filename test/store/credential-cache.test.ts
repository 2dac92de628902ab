import { beforeEach, expect, test } from 'bun:test';
import type { Db } from '../../src/db/db.ts';
import { mapCounters, watchCommits } from '../../src/db/sqlite/commit-watch.ts';
import type { Minted } from '../../src/domain/key.ts';
import type { Store } from '../../src/store/store.ts';
import { byTag } from '../../src/store/tenants.ts';
import { sqlite } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

let on: TestStore;
let node: Store;
let db: Db;
let lookups: number;
let tenant: string;
let application: { id: string; key: Minted };
beforeEach(async () => {
  on = await openTestStore(sqlite);
  lookups = 0;
  node = await on.openNode(undefined, (opened) => {
    db = opened;
    return {
      ...opened,
      lookup: (...wanted) => {
        if (wanted[0] !== (byTag as unknown)) lookups++;
        return opened.lookup(...wanted);
      },
    };
  });
  tenant = await on.tenant();
  application = await on.application(tenant, { expiresAt: on.clock.now() + 1000 });
});

const find = () => node.credentials.find(application.key);

test('a credential is read once until the next commit', async () => {
  for (let n = 0; n < 5; n++) expect(await find()).toMatchObject({ applicationId: application.id });
  expect(lookups).toBe(1);
});

test('a key that was not found is read again', async () => {
  const key = on.mint('pvt', tenant);
  for (let n = 0; n < 3; n++) expect(await node.credentials.find(key)).toBeUndefined();
  expect(lookups).toBe(3);
});

test('a cached credential has the time of the request', async () => {
  await find();
  on.clock.advance(10);
  expect((await find())?.now).toBe(on.clock.now());
});

test('a cached credential is invalid from the millisecond at which it expires', async () => {
  await find();
  on.clock.advance(999);
  expect(await find()).toBeDefined();
  on.clock.advance(1);
  expect(await find()).toBeUndefined();
  expect(lookups).toBe(2);
});

test('a cached policy lacks a rule from the millisecond at which it ends, and is then cached again', async () => {
  const ends = [200, 300].map((after) => new Date(on.clock.now() + after).toISOString());
  const rules = ends.map((expires_at, index) => ({
    description: undefined,
    conditions: undefined,
    priority: 1,
    container: `/${index}/`,
    transform: 'mask' as const,
    permissions: ['token:read'],
    expires_at,
  }));
  const own = await on.application(tenant, { rules, permissions: [] });
  const seen = async () => (await node.credentials.find(own.key))?.policy.rules.length;
  const before = lookups;
  for (const [after, count, reads] of [
    [0, 2, 1],
    [199, 2, 1],
    [1, 1, 2],
    [99, 1, 2],
    [1, 0, 3],
    [1, 0, 3],
  ] as const) {
    on.clock.advance(after);
    for (let n = 0; n < 3; n++) expect(await seen()).toBe(count);
    expect(lookups - before).toBe(reads);
  }
});

test('a commit of another node makes the next request read the credential again', async () => {
  await find();
  const change = { by: application.id, at: on.clock.now() };
  await on.store.applications.regenerate(tenant, application.id, change, () => on.mint('pvt', tenant));
  expect(await find()).toBeUndefined();
  expect(lookups).toBe(2);
});

test('credentials are not cached while a commit of another process is in progress', async () => {
  await find();
  const writer = watchCommits(mapCounters(on.url.slice('sqlite:'.length)), db);
  const end = writer.beginCommit();
  for (let n = 0; n < 3; n++) await find();
  expect(lookups).toBe(4);
  end();
  for (let n = 0; n < 3; n++) await find();
  expect(lookups).toBe(5);
});
