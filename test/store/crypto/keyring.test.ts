import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { WrongMasterKey } from '../../../src/store/crypto/keyring.ts';
import { openStores, type Stores } from '../../support/stores.ts';
import { databases } from '../../support/world.ts';

describe.each(databases)('the store on %s: the master key', (_, database) => {
  let on: Stores;
  beforeEach(async () => {
    on = await openStores(database);
  });
  afterEach(() => on.close());

  test('must open what proves it, and not only have the name that the database knows', async () => {
    await (await on.another()).ping();
    await on.raw('update master_key set proof = (select sealed from audit_key)');
    await expect(on.another()).rejects.toThrow(WrongMasterKey);
  });
});
