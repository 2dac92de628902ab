/** The segments of tenants sign the end of the system chain, so that its removal is found without an anchor. */

import { beforeEach, describe, expect, test } from 'bun:test';
import { exportPaths, verifyFiles } from '../../src/audit/files.ts';
import type { AuditDb } from '../../src/audit/log/chain.ts';
import { exportedParts } from '../../src/audit/proof/export.ts';
import { verifyParts } from '../../src/audit/proof/verifier.ts';
import type { Verdict } from '../../src/audit/proof.ts';
import { systemTenant } from '../../src/audit/records.ts';
import type { Db } from '../../src/db/db.ts';
import { boundOf } from '../../src/db/statement.ts';
import { checkHeads } from '../../src/operations/diagnosis.ts';
import { exportOf, masters, named, verify, verifyDatabase, write } from '../support/audit-export.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

const tables = ['audit_segments', 'audit_chains'];

describe.each(databases)('the system chain in %s', (_, database) => {
  let on: TestStore;
  let tenant: string;
  beforeEach(async () => {
    on = await openTestStore(database);
    tenant = await on.tenant();
    await write(on, 3, tenant);
    for (let segment = 1; segment <= 2; segment++) await write(on, 2);
    await write(on, 2, tenant);
  });

  async function remove(tenantId: string): Promise<void> {
    for (const table of tables) await on.runSql(`delete from ${table} where tenant_id = '${tenantId}'`);
  }

  const verified = async () => verify(await exportOf(on));
  const messages = ({ findings }: Verdict) => findings.map(({ chain, message }) => `${chain}: ${message}`);
  const doctor = async () => (await checkHeads(on.db, masters, 'verify')).map(({ state }) => state);

  test('verifies, also together with a chain that was deleted after its tenant', async () => {
    const folder = temporaryFolder();
    expect((await verified()).findings).toEqual([]);
    expect(await doctor()).toEqual(['ok']);
    const { maintenance } = on;
    await maintenance.tenants.markDeleted(tenant);
    while (!(await maintenance.removeTenantRows(tenant, 500)).done);
    const now = startTime + 1e9;
    await maintenance.audit.archive({ folder, now, before: now, tenantId: tenant });
    await maintenance.audit.recordHeads('all');
    await maintenance.audit.seal();
    const parts = await maintenance.audit.parts(startTime);
    expect((await verifyDatabase(on)).findings).toEqual([]);
    expect(await verifyFiles(exportPaths(folder), { masters }, parts)).toMatchObject({ ok: true, notes: [] });
    expect(await verifyFiles(exportPaths(folder), { masters })).toMatchObject({
      ok: true,
      notes: [
        expect.stringMatching(/^the system chain, which has segment 2 according to /),
        expect.stringMatching(/^entries after the last segment of each chain, /),
      ],
    });
  });

  test('is reported as missing after its removal, and does not verify after the service has started another one', async () => {
    await remove(systemTenant);
    const missing = await verified();
    expect(named(missing)).toEqual(['cut_off']);
    expect(messages(missing)).toEqual([
      `system: the chain is missing, but had segment 2 according to segment 2 of chain ${tenant}`,
    ]);
    expect(await doctor()).toEqual(['fail']);
    await write(on, 2);
    expect(named(await verified())).toEqual(['cut_off 1']);
    expect(await doctor()).toEqual(['fail']);
    for (let segment = 2; segment <= 3; segment++) await write(on, 2);
    await on.maintenance.audit.recordHeads('all');
    const restarted = await verified();
    expect(named(restarted)).toEqual(['anchor_differs 2']);
    expect(messages(restarted)[0]).toEndWith(`segment 2 does not match segment 2 of chain ${tenant}`);
  });

  test('cannot be reset to an earlier state alone', async () => {
    for (const table of tables) await on.runSql(`create table old_${table} as select * from ${table}`);
    await write(on, 2);
    await write(on, 1, tenant);
    const where = `where tenant_id = '${systemTenant}'`;
    for (const table of tables) {
      await on.runSql(`delete from ${table} ${where}`);
      await on.runSql(`insert into ${table} select * from old_${table} ${where}`);
    }
    expect(named(await verified())).toEqual(['cut_off 2']);
  });

  test('is not needed to verify the export of one tenant', async () => {
    expect(await verify(await exportOf(on, tenant))).toMatchObject({ ok: true, entries: 5 });
  });

  test('and the other chains are exported as one state while entries are written', async () => {
    const other = await on.tenant();
    await write(on, 1500, other);
    const lines: string[] = [];
    for await (const line of (await on.maintenance.audit.export(startTime))?.lines ?? []) {
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

  test('and the other chains are one state if the system chain grows while a cluster reads them', async () => {
    const late = await on.open();
    await write(late, 1, tenant);
    let reads = 0;
    const all: Db['all'] = async (statement) => {
      if (boundOf(statement)[0].includes('from audit_chains order by') && ++reads <= 3) {
        await write(on, 1);
        await write(on, 1, tenant);
        // This node may still know the end of the system chain from before.
        await write(late, 1, tenant);
      }
      return on.db.all(statement);
    };
    const db: Db = Object.assign(Object.create(on.db), { all, isDistributed: async () => true });
    const parts = await exportedParts({ db } as AuditDb, { at: startTime });
    expect(reads).toBe(4);
    expect((await verifyParts(parts, { masters }, [])).findings).toEqual([]);
  });
});
