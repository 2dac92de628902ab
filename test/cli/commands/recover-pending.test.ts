/** A backup contains a change even if its audit entry was not sealed yet, so a restore does not undo the change. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findRevived } from '../../../src/cli/commands/recover.ts';
import { byOperator } from '../../../src/domain/audit.ts';
import type { NewEntry } from '../../../src/store/store.ts';
import { exportOf, write } from '../../support/audit-export.ts';
import { databases } from '../../support/test-server.ts';
import { openTestStore, type TestStore } from '../../support/test-store.ts';

const tables = ['audit_segments', 'audit_chains', 'audit_index', 'audit_pending'];

describe.each(databases)(
  'a restore on %s of a backup with entries that are not sealed yet',
  (_, database) => {
    let on: TestStore;
    let tenant: string;
    let folder: string;
    beforeEach(async () => {
      on = await openTestStore(database);
      tenant = await on.tenant();
      folder = mkdtempSync(join(tmpdir(), 'sallyport-recovery-'));
      await write(on, 20, tenant);
    });
    afterEach(async () => {
      await on.close();
      rmSync(folder, { recursive: true, force: true });
    });

    const entry = (operation: string, id: string): NewEntry => ({
      ...byOperator,
      at: on.clock.now(),
      tenantId: tenant,
      operation,
      entity: { kind: 'application', id },
    });

    test('lists the changes after it, and not those whose entries have other positions now', async () => {
      const [before, after] = [await on.application(tenant), await on.application(tenant)];
      // Committed after the backup, although its number is lower: the backup below does not contain it.
      await on.store.audit.write([entry('in-flight', before.id)]);
      await on.store.audit.write([entry('application.regenerate', before.id)]);
      for (const table of tables)
        await on.runSql(`create table backup_of_${table} as select * from ${table}`);
      await on.runSql("delete from backup_of_audit_pending where entry like '%in-flight%'");
      on.clock.advance(1000);
      await on.store.audit.write([entry('application.regenerate', after.id)]);
      const file = join(folder, 'audit.jsonl');
      writeFileSync(file, `${(await exportOf(on)).join('\n')}\n`);
      for (const table of tables) {
        await on.runSql(`delete from ${table}`);
        await on.runSql(`insert into ${table} select * from backup_of_${table}`);
      }
      const restored = await on.open();
      await restored.maintenance.audit.seal();
      const { verdict, revived } = await findRevived(restored.maintenance, [file]);
      expect(verdict.findings).toEqual([]);
      expect(revived.applications.map(({ application_id }) => application_id)).toEqual([after.id]);
    });
  },
);
