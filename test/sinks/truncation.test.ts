import { expect, test } from 'bun:test';
import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openCli } from '../support/cli.ts';
import { openTestServer, testMasterKey } from '../support/test-server.ts';

test('a database that was replaced by an older copy does not contain the anchor that a sink has received', async () => {
  const cli = openCli((folder) => ({
    DATABASE_URL: `sqlite:${join(folder, 'live.db')}`,
    SALLYPORT_MASTER_KEY: testMasterKey,
  }));
  const sinkFile = cli.path('sink.jsonl');
  const open = () =>
    openTestServer(`sqlite:${cli.path('live.db')}`, {
      SALLYPORT_MASTER_KEY: testMasterKey,
      SALLYPORT_SINK: JSON.stringify({ type: 'file', path: sinkFile }),
    });
  const first = await open();
  const { id, key } = await first.tenant();
  await first.application(key);
  await first.flush();
  await first.close();
  copyFileSync(cli.path('live.db'), cli.path('older.db'));
  const second = await open();
  await second.application(key);
  await second.flush();
  await second.close();
  const anchors = readFileSync(sinkFile, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ type, tenant_id }) => type === 'checkpoint' && tenant_id === id)
    .map(({ anchor }) => anchor as string);
  const verify = async (name: string) => {
    expect((await cli.run('audit', 'export', cli.path(name))).code).toBe(0);
    const withoutAnchor = await cli.json('audit', 'verify', cli.path(name));
    const withAnchor = await cli.json(
      'audit',
      'verify',
      cli.path(name),
      '--anchor',
      anchors.at(-1) as string,
    );
    return [withoutAnchor.body.ok, withAnchor.body.ok, withAnchor.body.findings?.[0]?.code];
  };
  expect(await verify('complete.jsonl')).toEqual([true, true, undefined]);
  for (const suffix of ['-wal', '-shm']) rmSync(cli.path(`live.db${suffix}`), { force: true });
  copyFileSync(cli.path('older.db'), cli.path('live.db'));
  expect(await verify('truncated.jsonl')).toEqual([true, false, 'cut_off']);
  cli.remove();
});
