import { describe, expect, test } from 'bun:test';
import type { Kind, Minted } from '../../src/domain/key.ts';
import { unknownKey } from '../support/keys.ts';
import { databases } from '../support/test-server.ts';
import { newApplication, openTestStore } from '../support/test-store.ts';

describe.each(databases)('the store on %s: credentials', async (_, database) => {
  const on = await openTestStore(database);

  test('a key of a tenant that another node has just created works', async () => {
    const node = await on.openNode();
    expect(await node.credentials.find(unknownKey('pvt'))).toBeUndefined();
    const tenant = await on.tenant();
    const { id, key } = await on.application(tenant);
    expect(await node.credentials.find(key)).toMatchObject({ applicationId: id, tenantTag: key.tag });
  });

  test('a refused key costs the same queries, whether its tag exists or not, and each names a tenant', async () => {
    const asked: { by: unknown; tenant: string | undefined }[] = [];
    const node = await on.openNode(undefined, (db) => ({
      ...db,
      lookup: (by, key, tenant) => {
        asked.push({ by, tenant });
        return db.lookup(by, key, tenant);
      },
    }));
    const tenant = await on.tenant();
    const { key } = await on.application(tenant);
    await node.credentials.find(key);
    const queriesOf = async (one: Minted) => {
      asked.length = 0;
      expect(await node.credentials.find(one)).toBeUndefined();
      expect(asked.filter(({ tenant }) => tenant !== undefined)).toHaveLength(1);
      return new Set(asked.map(({ by }) => by));
    };
    for (const kind of ['mgt', 'ses'] as const)
      expect(await queriesOf(unknownKey(kind))).toEqual(await queriesOf(on.mint(kind, tenant)));
  });

  test('two tenants can store the same digest, and each key finds its own', async () => {
    const [one, other] = [await on.tenant(), await on.tenant()];
    const first = await on.application(one);
    const { digest, ending } = first.key;
    const copy = { ...on.mint('pvt', other), digest, ending };
    const application = newApplication(on.clock.now());
    await on.store.applications.create(other, application, copy);
    const node = await on.openNode();
    expect(await node.credentials.find(copy)).toMatchObject({ tenantId: other });
    expect(await (await on.openNode()).credentials.find(first.key)).toMatchObject({ tenantId: one });
  });

  test('nonces, session keys and application keys are not interchangeable', async () => {
    const tenant = await on.tenant();
    const { id, key } = await on.application(tenant, { type: 'public' });
    const session = await on.session(tenant, id);
    const find = (kind: Kind, key: Minted) => on.store.credentials.find({ ...key, kind });
    expect(await find('ses', session.nonce)).toBeUndefined();
    expect(await find('non', session.nonce)).toBeUndefined();
    expect(await find('pub', session.key)).toBeUndefined();
    expect(await find('ses', key)).toBeUndefined();
    expect(await find('non', key)).toBeUndefined();
  });

  test('concurrent lookups each get their own result', async () => {
    const tenant = await on.tenant();
    const made = await Promise.all(Array.from({ length: 30 }, () => on.application(tenant)));
    const asked = [...made, ...made.toReversed(), { id: undefined, key: on.mint('pvt', tenant) }];
    const found = await Promise.all(asked.map(({ key }) => on.store.credentials.find(key)));
    expect(found.map((principal) => principal?.applicationId)).toEqual(asked.map(({ id }) => id as string));
  });

  test('compiled grants are reused until the cache exceeds its size', async () => {
    const tenant = await on.tenant();
    const policyOf = async (key: Minted) => (await on.store.credentials.find(key))?.policy;
    const { key } = await on.application(tenant);
    const large: Minted[] = [];
    for (let at = 0; at < 17; at++)
      large.push((await on.application(tenant, { permissions: [`${'x'.repeat(1_000_000)}:${at}`] })).key);
    const first = await policyOf(key);
    expect(await policyOf(key)).toBe(first);
    for (const one of large) await policyOf(one);
    expect(await policyOf(key)).not.toBe(first);
  });
});
