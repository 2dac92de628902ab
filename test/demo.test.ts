import { describe, expect, test } from 'bun:test';
import { seed } from '../demo/seed.ts';
import { Sallyport } from '../sdk/src/sallyport.ts';
import { openWorld, sqlite } from './support/world.ts';

describe('the demo', () => {
  test('fills a tenant in which everyone sees what they are there for', async () => {
    const world = await openWorld(sqlite);
    const { key } = await world.tenant();
    const seeded = await seed({ url: world.url, key, now: world.clock.now });
    const see = async (name: string, id: string) =>
      (await new Sallyport({ url: world.url, key: seeded.key(name) }).tokens.get(id)).data;
    const card = { number: '4242424242424242', expiry: '01/29', holder: 'Ada Lovelace' };
    expect(await see('payments worker', 'card-42')).toEqual(card);
    expect(await see('payments worker', 'identity-42')).toBeUndefined();
    expect(await see('help desk', 'card-42')).toEqual({ number: 'XXXXXXXXXXXX4242', expiry: '01/29' });
    expect(await see('nightly report', 'card-42')).toBeUndefined();
    const { pagination } = await new Sallyport({ url: world.url, key }).applications.list();
    expect(pagination.total_items).toBe(13);
    await world.close();
  });
});
