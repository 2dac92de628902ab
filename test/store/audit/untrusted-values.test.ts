/** Columns that no hash chain covers. Changing them has no effect, or verification finds the change. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { chainAll } from '../../../src/operations/audit-files.ts';
import { recordAuditedReads } from '../../../src/operations/audit-settings.ts';
import { systemTenant } from '../../../src/store/audit/hash-chain.ts';
import { verifyParts } from '../../../src/store/audit/verify.ts';
import { openStore } from '../../../src/store/open.ts';
import { entry, exportOf, masters, named, verify, write } from '../../support/audit-export.ts';
import { databases, generousTimeout, startTime } from '../../support/test-server.ts';
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

  test('a checkpoint with another time does not hide entries from a search, and is found', async () => {
    const chain = await chainNumber();
    const filter = { from: startTime + 50_000 };
    const found = async () => (await on.store.audit.list(tenant, filter, { limit: 500 })).entries.length;
    await write(on, 300, tenant);
    const all = await found();
    expect(all).toBeGreaterThan(100);
    await on.runSql(`update audit_checkpoints set at = ${startTime} where chain = ${chain} and seq = 256`);
    expect(await found()).toBe(all);
    expect(named(await verify(await exportOf(on)))).toEqual(['forged_checkpoint 256']);
  });

  test('a signed checkpoint with another time than its entries is found', async () => {
    const chain = await chainNumber();
    await on.runSql(`delete from audit_checkpoints where chain = ${chain}`);
    await on.runSql(`update audit set at = at + 1000000 where chain = ${chain} and seq = 3`);
    await write(on, 2, tenant);
    await on.runSql(`update audit set at = at - 1000000 where chain = ${chain} and seq = 3`);
    expect(named(await verify(await exportOf(on)))).toEqual(['wrong_time 5']);
  });

  test('deleted or changed checkpoints do not change counts, and are found', async () => {
    const chain = await chainNumber();
    const counts = () => on.store.audit.count(tenant, { from: startTime, to: startTime + 600_000 }, 0);
    const at = (number: number) => ({ ...entry(number, tenant), at: startTime + 100 * number });
    await on.store.audit.write(Array.from({ length: 5000 }, (_, number) => at(number)));
    await chainAll(on.maintenance);
    const before = await counts();
    expect(before.counts.filter(({ success }) => success > 0).length).toBe(9);
    await on.runSql(`delete from audit_checkpoints where chain = ${chain} and seq between 100 and 4700`);
    expect(await counts()).toEqual(before);
    const deleted = await verify(await exportOf(on));
    expect(deleted.findings.length).toBe(18);
    expect(named(deleted).slice(0, 2)).toEqual(['missing_checkpoint 256', 'missing_checkpoint 512']);
    await on.runSql(`update audit_checkpoints set at = at - 100000 where chain = ${chain} and seq = 4864`);
    expect(await counts()).toEqual(before);
    expect(named(await verify(await exportOf(on)))).toContain('forged_checkpoint 4864');
  });

  test('changed records of the setting for reads are found and restored', async () => {
    const verified = async () =>
      verifyParts(await on.maintenance.audit.export(startTime), { masters, archives: 'optional' });
    const gaps = async () => (await on.store.audit.list(tenant, {}, { limit: 1 })).gaps;
    for (const [index, reads] of (['reveal', 'off', 'reveal'] as const).entries())
      await recordAuditedReads(on.maintenance, reads, startTime + index);
    await chainAll(on.maintenance);
    const before = await gaps();
    expect(await verified()).toMatchObject({ ok: true });
    for (const change of [
      `delete from setting_changes where value = 'off'`,
      `update setting_changes set at = at + 100 where value = 'off'`,
      `update setting_changes set value = 'reveal'`,
    ]) {
      await on.runSql(change);
      expect(named(await verified())).toContain('changed_settings');
      await on.maintenance.audit.reindex(systemTenant);
      await chainAll(on.maintenance);
      await on.runSql(`delete from setting_changes where at > ${startTime + 2}`);
      expect((await verified()).findings).toEqual([]);
      expect(await gaps()).toEqual(before);
    }
    on.clock.advance(120_000);
    await on.runSql(`insert into setting_changes values ('audit_reads', ${startTime + 3}, 'all')`);
    expect(named(await verified())).toEqual(['changed_settings']);
    await on.runSql(`delete from setting_changes where value = 'all'`);
    await on.runSql(`update settings set value = 'off'`);
    expect(named(await verified())).toEqual(['changed_settings']);
  });

  test('opening the database read-only does not create a missing key', async () => {
    await on.runSql('delete from audit_key');
    const options = { masters, timeout: generousTimeout, existing: true, readOnly: true };
    await (await openStore(on.url, options)).close();
    expect(await on.runSql('select * from audit_key')).toEqual([]);
  });
});
