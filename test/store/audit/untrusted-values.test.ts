/** Columns that are in no chain: changing them in the database changes nothing, or is found by verification. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { chainAll } from '../../../src/operations/audit-files.ts';
import { exportOf, named, verify, write } from '../../support/audit-export.ts';
import { databases } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';

describe.each(databases)('columns outside of the hash chains in %s', (_, database) => {
  let on: TestStore;
  let tenant: string;
  beforeEach(async () => {
    on = await openTestStore(database);
    tenant = await on.tenant();
    await write(on, 3, tenant);
  });
  afterEach(() => on.close());

  async function record(): Promise<void> {
    await on.maintenance.audit.recordHeads('all');
    await chainAll(on.maintenance);
  }

  async function chainNumber(): Promise<number> {
    const sql = `select number from audit_chains where tenant_id = '${tenant}'`;
    return (await on.runSql<{ number: number }>(sql))[0]?.number as number;
  }

  test.each(['recorded_seq = 1000', 'recorded_at = 9000000000000000', 'recorded_mac = null'])(
    'the end of a chain is still recorded in the system chain after `%s`',
    async (change) => {
      await record();
      const chain = await chainNumber();
      for (const table of ['audit', 'audit_checkpoints', 'audit_chains'])
        await on.runSql(`create table old_${table} as select * from ${table}`);
      await on.runSql(`update audit_chains set ${change} where number = ${chain}`);
      await write(on, 4, tenant);
      await record();
      for (const [table, column] of [
        ['audit', 'chain'],
        ['audit_checkpoints', 'chain'],
        ['audit_chains', 'number'],
      ]) {
        await on.runSql(`delete from ${table} where ${column} = ${chain}`);
        await on.runSql(`insert into ${table} select * from old_${table} where ${column} = ${chain}`);
      }
      expect(named(await verify(await exportOf(on)))).toEqual(['cut_off 3']);
    },
  );

  test('an end that is recorded already is not recorded again', async () => {
    const { audit } = on.maintenance;
    const entries = async () => (await audit.list(undefined, {}, { limit: 100 })).entries.length;
    await record();
    const before = await entries();
    await record();
    await audit.recordHeads();
    await chainAll(on.maintenance);
    expect(await entries()).toBe(before);
  });
});
