/** A backup contains a change even if its audit entry was not sealed yet, so a restore does not undo the change. */

import { beforeEach, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { byOperator } from '../../../src/domain/audit.ts';
import type { NewEntry } from '../../../src/store/store.ts';
import { exportOf, write } from '../../support/audit-export.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { shell } from '../../support/shell.ts';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const tables = ['audit_segments', 'audit_chains', 'audit_index', 'audit_pending'];

describe.each(databases)(
  'a restore on %s of a backup with entries that are not sealed yet',
  (_, database) => {
    let server: TestServer;
    let url: string;
    let folder: string;
    beforeEach(async () => {
      folder = temporaryFolder();
      url = await database.createMigrated(folder);
      server = await openTestServer(url, { SALLYPORT_MASTER_KEY: testMasterKey });
    });

    const record = (tenantId: string, operation: string, id: string) => {
      const entity = { kind: 'application' as const, id };
      const entry: NewEntry = { ...byOperator, at: server.clock.now(), tenantId, operation, entity };
      return server.app.store.audit.write([entry]);
    };

    test('lists the changes after it, and not those whose entries have other positions now', async () => {
      const { id: tenant, key } = await server.tenant();
      const [before, after] = [await server.application(key), await server.application(key)];
      await write(server.app, 20, tenant);
      // Committed after the backup, although its number is lower: the backup below does not contain it.
      await record(tenant, 'in-flight', before.id);
      await record(tenant, 'application.regenerate', before.id);
      for (const table of tables)
        await runSql(url, `create table backup_of_${table} as select * from ${table}`);
      await runSql(url, "delete from backup_of_audit_pending where entry like '%in-flight%'");
      server.clock.advance(1000);
      await record(tenant, 'application.regenerate', after.id);
      const file = join(folder, 'audit.jsonl');
      writeFileSync(file, `${(await exportOf(server.app)).join('\n')}\n`);
      for (const table of tables) {
        await runSql(url, `delete from ${table}`);
        await runSql(url, `insert into ${table} select * from backup_of_${table}`);
      }
      await server.close();
      const { code, out } = await shell(['recover', '--yes', '--audit', file, '--json'], {
        env: { DATABASE_URL: url, SALLYPORT_DATA_DIR: folder, SALLYPORT_MASTER_KEY: testMasterKey },
      });
      expect(code).toBe(0);
      expect(JSON.parse(out).revived).toMatchObject({
        tenants: [],
        applications: [{ application_id: after.id }],
      });
    });
  },
);
