import { describe, expect, test } from 'bun:test';
import { newId, Secret } from '../../src/domain/key.ts';
import type { Store, StoreTransaction } from '../../src/store/store.ts';
import { databases, sqlite } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

const fields = (name: string) => ({
  name,
  origin: 'https://payments.example',
  requests: [],
  ca: undefined,
  certificate: undefined,
  timeout: 25,
  max_in_flight: 50,
  ignored_headers: [],
  secrets: { headers: { authorization: new Secret('Bearer 1') }, privateKey: undefined },
});

const change = (on: TestStore) => ({ by: crypto.randomUUID(), at: on.clock.now() });

async function create(
  on: TestStore,
  tenant: string,
  name: string,
  { destinations }: Pick<Store, 'destinations'> = on.store,
): Promise<string> {
  const id = newId(on.clock.now());
  await destinations.create(tenant, id, fields(name), change(on), 100);
  return id;
}

describe.each(databases)('decrypted secrets of destinations on %s', async (_, database) => {
  const on = await openTestStore(database);
  const tenant = await on.tenant();

  /** Whether two reads return the same object, which has decrypted the secrets once. */
  const isCached = async (id: string) => {
    const first = await on.store.destinations.get(tenant, id);
    return first === (await on.store.destinations.get(tenant, id));
  };

  test.each<[string, (tx: StoreTransaction, id: string) => Promise<unknown>]>([
    ['updated', (tx, id) => tx.destinations.update(tenant, id, change(on), () => fields('renamed'))],
    ['deleted', (tx, id) => tx.destinations.delete(tenant, id, () => {})],
  ])(
    'are dropped when the destination is %s, and not cached by reads before the commit',
    async (what, end) => {
      const id = await create(on, tenant, 'payments');
      expect(await isCached(id)).toBe(true);
      await on.store.change(tenant, async (tx) => {
        await end(tx, id);
        expect((await on.store.destinations.get(tenant, id))?.name).toBe('payments');
        expect(await isCached(id)).toBe(false);
      });
      const after = await on.store.destinations.get(tenant, id);
      expect(after?.name).toBe(what === 'updated' ? 'renamed' : undefined);
      if (after) expect(await isCached(id)).toBe(true);
    },
  );
});

test('decrypted secrets of destinations are dropped when many others are read', async () => {
  const on = await openTestStore(sqlite);
  const tenant = await on.tenant();
  const first = await create(on, tenant, 'first');
  const cached = await on.store.destinations.get(tenant, first);
  expect(await on.store.destinations.get(tenant, first)).toBe(cached);
  for (let count = 0; count < 10; count++) {
    const other = await on.tenant();
    const ids = await on.store.change(other, async (tx) => {
      const made: string[] = [];
      for (let at = 0; at < 100; at++) made.push(await create(on, other, `n${at}`, tx));
      return made;
    });
    for (const id of ids) await on.store.destinations.get(other, id);
  }
  expect(await on.store.destinations.get(tenant, first)).not.toBe(cached);
});
