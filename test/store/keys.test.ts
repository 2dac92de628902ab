import { describe, expect, test } from 'bun:test';
import type { Minted } from '../../src/domain/key.ts';
import { databases } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

describe.each(databases)('the store on %s: keys', async (_, database) => {
  const on = await openTestStore(database);

  const change = () => ({ by: crypto.randomUUID(), at: on.clock.now() });
  const find = (key: Minted) => on.store.credentials.find(key);

  test('keys are listed newest first, and a new one works immediately', async () => {
    const tenant = await on.tenant();
    const { id, key } = await on.application(tenant);
    on.clock.advance(1);
    const by = change();
    const done = await on.store.keys.create(tenant, id, by, () => on.mint('pvt', tenant));
    expect(await find(done!.key)).toMatchObject({ applicationId: id });
    expect(await on.store.keys.list(tenant, id)).toEqual([
      { ...done!.created, created_by: by.by, ending: done!.key.ending },
      expect.objectContaining({ ending: key.ending }),
    ]);
  });

  test('creating a key sees the number of keys, which no concurrent change alters', async () => {
    const [tenant, node] = [await on.tenant(), await on.openNode()];
    const { id } = await on.application(tenant);
    const seen: number[] = [];
    const make = (store = on.store) =>
      store.keys.create(tenant, id, change(), (_, keys) => {
        seen.push(keys);
        return on.mint('pvt', tenant);
      });
    await Promise.all([make(), make(node), make(), make(node)]);
    expect(seen.sort()).toEqual([1, 2, 3, 4]);
  });

  test('creating or deleting a key changes nothing if the callback throws', async () => {
    const tenant = await on.tenant();
    const { id, key } = await on.application(tenant);
    const no = () => {
      throw new Error('no');
    };
    expect(await on.store.keys.create(tenant, id, change(), no).catch(() => 'refused')).toBe('refused');
    const [only, ...others] = await on.store.keys.list(tenant, id);
    expect(others).toEqual([]);
    expect(await on.store.keys.delete(tenant, id, only!.id, no).catch(() => 'refused')).toBe('refused');
    expect(await find(key)).toBeDefined();
    expect(await on.store.keys.delete(tenant, id, only!.id, () => {})).toEqual(only);
    expect(await find(key)).toBeUndefined();
  });

  test('keys of another tenant are not listed', async () => {
    const [mine, theirs] = [await on.tenant(), await on.tenant()];
    const { id } = await on.application(theirs);
    const [only] = await on.store.keys.list(theirs, id);
    expect(await on.store.keys.list(mine, id)).toEqual([]);
    expect(await on.store.keys.create(mine, id, change(), () => on.mint('pvt', mine))).toBeUndefined();
    expect(await on.store.keys.delete(mine, id, only!.id, () => {})).toBeUndefined();
    expect(await on.store.keys.list(theirs, id)).toEqual([only!]);
  });
});
