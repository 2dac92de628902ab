import { beforeEach, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/cleanup.ts';
import { unknownKey } from '../support/keys.ts';
import { shell } from '../support/shell.ts';
import { openTestServer, postgres, type TestServer } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';

const [old, next] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [string, string];

describe('readiness on PostgreSQL', () => {
  let folder: string;
  let url: string;
  let node: TestServer;
  beforeEach(async () => {
    folder = temporaryFolder();
    writeFileSync(join(folder, 'node.key'), old);
    url = await postgres.createMigrated('');
    const settings = { SALLYPORT_MASTER_KEY: '', SALLYPORT_MASTER_KEY_FILE: join(folder, 'node.key') };
    node = await openTestServer(url, settings);
    expect(await ready()).toBe(200);
  });

  const ready = async () => (await node.call('GET', '/readyz')).status;

  test('a node is not ready after a rotation until its key file has the new master key', async () => {
    const env = { DATABASE_URL: url, SALLYPORT_DATA_DIR: folder, SALLYPORT_MASTER_KEY: `${next},${old}` };
    const { code, err } = await shell(['master-key', 'rotate', '--force'], { env });
    expect([code, err]).toEqual([0, '']);
    expect(await ready()).toBe(503);
    expect(node.logged.at(-2)).toContain('the database needs the master key');
    writeFileSync(join(folder, 'node.key'), `${next}\n${old}\n`);
    expect(await ready()).toBe(200);
  });

  test('a node is not ready and authenticates no key while its only database is read-only', async () => {
    const { key } = await node.tenant();
    const session = await startSession(key);
    const statuses = async () => [
      await ready(),
      (await node.call('GET', '/applications', { key })).status,
      (await node.call('GET', '/tokens', { key: session })).status,
      (await node.call('GET', '/tokens', { key: unknownKey('pvt').secret.reveal() })).status,
    ];
    const name = new URL(url).pathname.slice(1);
    const endSessions = `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`;
    expect(await statuses()).toEqual([200, 200, 200, 401]);
    await runSql(url, `alter database ${name} set default_transaction_read_only = on`);
    await runSql(url, endSessions);
    expect(await statuses()).toEqual([503, 503, 503, 503]);
    await runSql(url, `begin read write; alter database ${name} reset default_transaction_read_only; commit`);
    await runSql(url, endSessions);
    expect(await statuses()).toEqual([200, 200, 200, 401]);
  });

  /** Returns the key of an authorized session. */
  async function startSession(key: string): Promise<string> {
    const web = await node.application(key, { type: 'public' });
    const backend = await node.application(key, { permissions: ['session:authorize', 'token:read'] });
    const { body } = await node.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: body.nonce, permissions: ['token:read'] };
    await node.call('POST', '/sessions/authorize', { key: backend.key, body: grant });
    return body.session_key;
  }
});
