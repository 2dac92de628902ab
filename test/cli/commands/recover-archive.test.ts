import { beforeEach, expect, test } from 'bun:test';
import { type Cli, openSqliteCli } from '../../support/cli.ts';
import { openTestServer, type TestServer } from '../../support/test-server.ts';

let cli: Cli;
let server: TestServer;
let key: string;
beforeEach(async () => {
  cli = openSqliteCli();
  server = await openTestServer(`sqlite:${cli.path('live.db')}`);
  key = (await server.tenant()).key;
});

const archive = (folder: string) => cli.run('audit', 'archive', cli.path(folder), '--older-than', '0');

/** Restores the backup with an audit export and archives. */
async function restore(...folders: string[]) {
  await server.close();
  const paths = ['audit.jsonl', ...folders].flatMap((name) => ['--audit', cli.path(name)]);
  const result = await cli.run('restore', cli.path('backup.db'), '--force', '--json', ...paths);
  server = await openTestServer(`sqlite:${cli.path('live.db')}`);
  return result;
}

test('a restore finds revocations in archives, and needs those that were made after the backup', async () => {
  const deleted = await server.application(key, { name: 'deleted' });
  await archive('before');
  await cli.run('backup', cli.path('backup.db'));
  await server.call('DELETE', `/applications/${deleted.id}`, { key });
  await archive('after');
  await cli.run('audit', 'export', cli.path('audit.jsonl'));
  expect(await restore()).toMatchObject({ code: 1, err: expect.stringContaining('(missing_archive)') });
  const { code, out } = await restore('after');
  expect(code).toBe(0);
  expect(JSON.parse(out).revived.applications).toMatchObject([{ application_id: deleted.id, deleted: true }]);
});

test('a restore does not need archives that are older than the backup', async () => {
  const deleted = await server.application(key, { name: 'deleted' });
  await archive('before');
  await cli.run('backup', cli.path('backup.db'));
  await server.call('DELETE', `/applications/${deleted.id}`, { key });
  await cli.run('audit', 'export', cli.path('audit.jsonl'));
  const { code, out } = await restore();
  expect(code).toBe(0);
  expect(JSON.parse(out).revived.applications).toMatchObject([{ application_id: deleted.id, deleted: true }]);
});
