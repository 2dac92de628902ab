import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { type Kind, type Minted, mint } from '../../src/domain/key.ts';
import { databases } from '../support/test-server.ts';
import { grants, openTestStore, type TestStore } from '../support/test-store.ts';

const someone = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';

describe.each(databases)('the store on %s: credentials', (_, database) => {
  let on: TestStore;
  beforeAll(async () => {
    on = await openTestStore(database);
  });
  afterAll(() => on.close());

  test('an unknown key is not found', async () => {
    for (const kind of ['mgt', 'pvt', 'pub', 'ses', 'non'] as const) {
      expect(await on.store.credentials.find(kind, mint(kind).digest)).toBeUndefined();
    }
  });

  test('nonces, session keys and application keys are not interchangeable', async () => {
    const tenant = await on.tenant();
    const { id, key } = await on.application(tenant, { type: 'public' });
    const session = await on.session(tenant, id);
    const find = (kind: Kind, digest: Buffer) => on.store.credentials.find(kind, digest);
    expect(await find('ses', session.nonce.digest)).toBeUndefined();
    expect(await find('non', session.nonce.digest)).toBeUndefined();
    expect(await find('pub', session.key.digest)).toBeUndefined();
    expect(await find('ses', key.digest)).toBeUndefined();
    expect(await find('non', key.digest)).toBeUndefined();
  });

  test('concurrent lookups each get their own result', async () => {
    const tenant = await on.tenant();
    const made = await Promise.all(Array.from({ length: 30 }, () => on.application(tenant)));
    const asked = [...made, ...made.toReversed(), { id: undefined, key: mint('pvt') }];
    const found = await Promise.all(asked.map(({ key }) => on.store.credentials.find('pvt', key.digest)));
    expect(found.map((principal) => principal?.applicationId)).toEqual(asked.map(({ id }) => id as string));
  });

  test('the first lookup after a change sees it on every node', async () => {
    const [tenant, node] = [await on.tenant(), await on.openNode()];
    const { id, key } = await on.application(tenant);
    for (let round = 0; round < 10; round++) {
      const permissions = [`own:round-${round}`];
      const before = node.credentials.find('pvt', key.digest);
      await on.store.applications.update(tenant, id, { by: id, at: on.clock.now() }, (current) => ({
        ...current,
        permissions,
      }));
      const after = await node.credentials.find('pvt', key.digest);
      expect(after?.policy.grants.permissions).toEqual(permissions);
      await before;
    }
  });

  test('compiled grants are reused until the cache exceeds its size', async () => {
    const tenant = await on.tenant();
    const policyOf = async (digest: Buffer) => (await on.store.credentials.find('pvt', digest))?.policy;
    const { key } = await on.application(tenant);
    const large: Minted[] = [];
    for (let at = 0; at < 17; at++)
      large.push((await on.application(tenant, { permissions: [`${'x'.repeat(1_000_000)}:${at}`] })).key);
    const first = await policyOf(key.digest);
    expect(await policyOf(key.digest)).toBe(first);
    for (const { digest } of large) await policyOf(digest);
    expect(await policyOf(key.digest)).not.toBe(first);
  });
});

describe.each(databases)('the store on %s: a session with a ceiling', (_, database) => {
  let on: TestStore;
  beforeAll(async () => {
    on = await openTestStore(database);
  });
  afterAll(() => on.close());

  async function underCeiling(expiresAt?: number) {
    const tenant = await on.tenant();
    const web = await on.application(tenant, { type: 'public' });
    const backend = await on.application(tenant, { expiresAt });
    const session = await on.session(tenant, web.id, { expiresAt: on.clock.now() + 3_600_000 });
    await on.store.sessions.authorize(tenant, session.nonce.digest, {
      ...grants,
      by: backend.id,
      ceiling: backend.key.digest,
      expiresAt: undefined,
      maxLifetime: 3_600_000,
    });
    const node = await on.openNode();
    return { tenant, backend, find: () => node.credentials.find('ses', session.key.digest) };
  }

  test('has the current grants of its authorizer', async () => {
    const { tenant, backend, find } = await underCeiling();
    expect(await find()).toMatchObject({ policy: { grants }, ceiling: { grants } });
    const narrow = { name: 'narrow', permissions: ['own:thing'], rules: [] };
    await on.store.applications.update(tenant, backend.id, { by: someone, at: on.clock.now() }, () => narrow);
    expect(await find()).toMatchObject({
      policy: { grants },
      ceiling: { grants: { permissions: ['own:thing'], rules: [] } },
    });
  });

  test('is invalid as soon as its authorizer is regenerated', async () => {
    const { tenant, backend, find } = await underCeiling();
    const change = { by: someone, at: on.clock.now() };
    await on.store.applications.regenerate(tenant, backend.id, change, () => mint('pvt'));
    expect(await find()).toBeUndefined();
  });

  test('is invalid as soon as its authorizer is deleted', async () => {
    const { tenant, backend, find } = await underCeiling();
    await on.store.applications.delete(tenant, backend.id);
    expect(await find()).toBeUndefined();
  });

  test('is invalid from the millisecond at which its authorizer expires', async () => {
    const { find } = await underCeiling(on.clock.now() + 500);
    on.clock.advance(499);
    expect(await find()).toBeDefined();
    on.clock.advance(1);
    expect(await find()).toBeUndefined();
  });
});
