/** The checkpoints of tenants sign the end of the system chain, so that its removal is found without an anchor. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { archiveLog } from '../../../src/operations/audit-archive.ts';
import { checkHeads } from '../../../src/operations/audit-diagnosis.ts';
import { chainAll, exportPaths, verifyFiles } from '../../../src/operations/audit-files.ts';
import { systemTenant } from '../../../src/store/audit/hash-chain.ts';
import { type Verdict, verifyParts } from '../../../src/store/audit/verify.ts';
import { exportOf, masters, named, verify, write } from '../../support/audit-export.ts';
import { databases, startTime } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';

const tables = { audit: 'chain', audit_checkpoints: 'chain', audit_chains: 'number' };

describe.each(databases)('the system chain in %s', (_, database) => {
  let on: TestStore;
  let tenant: string;
  beforeEach(async () => {
    on = await openTestStore(database);
    tenant = await on.tenant();
    await write(on, 3, tenant);
    await write(on, 4);
    await write(on, 2, tenant);
  });
  afterEach(() => on.close());

  async function numberOf(tenantId: string): Promise<number> {
    const sql = `select number from audit_chains where tenant_id = '${tenantId}'`;
    return (await on.runSql<{ number: number }>(sql))[0]?.number as number;
  }

  async function remove(tenantId: string): Promise<void> {
    const number = await numberOf(tenantId);
    for (const [table, column] of Object.entries(tables))
      await on.runSql(`delete from ${table} where ${column} = ${number}`);
  }

  const verified = async () => verify(await exportOf(on));
  const messages = ({ findings }: Verdict) => findings.map(({ chain, message }) => `${chain}: ${message}`);
  const doctor = async () =>
    (await checkHeads(on.maintenance.db, masters, 'verify')).map(({ state }) => state);

  test('verifies, also together with a chain that was deleted after its tenant', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-system-'));
    expect((await verified()).findings).toEqual([]);
    expect(await doctor()).toEqual(['ok']);
    const { maintenance } = on;
    await maintenance.tenants.markDeleted(tenant);
    while (!(await maintenance.removeTenantRows(tenant, 500)).done);
    const now = startTime + 1e9;
    await archiveLog(maintenance, { folder, now, before: now, tenantId: tenant });
    await maintenance.audit.recordHeads('all');
    await chainAll(maintenance);
    const parts = await maintenance.audit.export(startTime);
    expect((await verifyParts(parts, { masters, archives: 'optional' })).findings).toEqual([]);
    expect(await verifyFiles(exportPaths(folder), { masters }, parts)).toMatchObject({ ok: true, notes: [] });
    expect(await verifyFiles(exportPaths(folder), { masters })).toMatchObject({
      ok: true,
      notes: [
        expect.stringMatching(/^the system chain, which has row 4 according to /),
        expect.stringMatching(/^entries after the last row of each chain, /),
      ],
    });
    rmSync(folder, { recursive: true });
  });

  test('is reported as missing after its removal, and does not verify after the service has started another one', async () => {
    await remove(systemTenant);
    const missing = await verified();
    expect(named(missing)).toEqual(['missing_chain']);
    expect(messages(missing)).toEqual([
      `system: the chain is missing, but had row 4 according to the checkpoint of row 5 of chain ${tenant}`,
    ]);
    expect(await doctor()).toEqual(['fail']);
    await write(on, 2);
    expect(named(await verified())).toEqual(['cut_off 2']);
    expect(await doctor()).toEqual(['fail']);
    await write(on, 6);
    await on.maintenance.audit.recordHeads('all');
    const restarted = await verified();
    expect(named(restarted)).toEqual(['anchor_differs 4']);
    expect(messages(restarted)[0]).toEndWith(
      `row 4 does not match the checkpoint of row 5 of chain ${tenant}`,
    );
  });

  test('cannot be reset to an earlier state alone', async () => {
    for (const table of Object.keys(tables))
      await on.runSql(`create table old_${table} as select * from ${table}`);
    await write(on, 2);
    await write(on, 1, tenant);
    const number = await numberOf(systemTenant);
    for (const [table, column] of Object.entries(tables)) {
      await on.runSql(`delete from ${table} where ${column} = ${number}`);
      await on.runSql(`insert into ${table} select * from old_${table} where ${column} = ${number}`);
    }
    expect(named(await verified())).toEqual(['cut_off 4']);
  });

  test('is signed by the other chains: its position cannot be changed there', async () => {
    for (const change of ['system_seq = 0', 'system_seq = null', 'system_hash = hash', 'format = 1']) {
      await on.runSql('create table kept as select * from audit_checkpoints');
      await on.runSql(`update audit_checkpoints set ${change} where system_seq = 4`);
      expect(named(await verified())).toContain('forged_checkpoint 5');
      await on.runSql('delete from audit_checkpoints');
      await on.runSql('insert into audit_checkpoints select * from kept');
      await on.runSql('drop table kept');
    }
    expect((await verified()).ok).toBe(true);
  });

  test('is not needed to verify the export of one tenant', async () => {
    expect(await verify(await exportOf(on, tenant))).toMatchObject({ ok: true, rows: 5 });
  });

  test('and the other chains are exported as one state while entries are written', async () => {
    const other = await on.tenant();
    await write(on, 1500, other);
    const lines: string[] = [];
    for (const part of await on.maintenance.audit.export(startTime))
      for await (const line of part.lines()) {
        lines.push(line);
        if (lines.length % 400 === 0 || line.includes('"footer"')) {
          await write(on, 1);
          await write(on, 1, tenant);
          await write(on, 1, other);
          await on.maintenance.audit.recordHeads('all');
        }
      }
    expect((await verify(lines)).findings).toEqual([]);
    expect((await verified()).findings).toEqual([]);
  });
});
