import { beforeEach, describe, expect, test } from 'bun:test';
import { WrongMasterKey } from '../../../src/db/keys/keyring.ts';
import { databases } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';

describe.each(databases)('the store on %s: the master key', (_, database) => {
  let on: TestStore;
  beforeEach(async () => {
    on = await openTestStore(database);
  });

  test('must decrypt the stored proof; the right id is not enough', async () => {
    await (await on.openNode()).ping();
    await on.runSql('update master_key set proof = (select wrapped from audit_key)');
    await expect(on.openNode()).rejects.toThrow(WrongMasterKey);
  });
});
