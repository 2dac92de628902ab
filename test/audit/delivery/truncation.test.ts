import { expect, test } from 'bun:test';
import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openCli } from '../../support/cli.ts';
import { openTestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

test('a database that was replaced by an older copy does not contain the anchors that a sink has received', async () => {
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
  // After a minute, the system chain records the ends of the other chains.
  second.clock.advance(120_000);
  await second.flush();
  await second.close();
  const lines = readFileSync(sinkFile, 'utf8').trimEnd().split('\n');
  const segments = lines.map((line) => JSON.parse(line)).filter(({ type }) => type === 'segment');
  const lastAnchor = (tenant: string | undefined) =>
    segments.findLast(({ tenant_id }) => tenant_id === tenant).anchor as string;
  const verify = async (...anchors: string[]) => {
    const { body } = await cli.json('audit', 'verify', ...anchors.flatMap((anchor) => ['--anchor', anchor]));
    return [body.ok, body.findings[0]?.code];
  };
  expect(await verify(lastAnchor(id), lastAnchor(undefined))).toEqual([true, undefined]);
  for (const suffix of ['-wal', '-shm']) rmSync(cli.path(`live.db${suffix}`), { force: true });
  copyFileSync(cli.path('older.db'), cli.path('live.db'));
  expect(await verify()).toEqual([true, undefined]);
  const pending = `insert into audit_pending (tenant_id, id, at, format, mac, entry)
    values ('${id}', '${id}', 1, 1, x'00', '{}')`;
  await runSql(`sqlite:${cli.path('live.db')}`, pending);
  const { body } = await cli.json('audit', 'verify');
  expect(body).toMatchObject({ ok: true, notes: ['1 entry that the service has not sealed yet'] });
  await runSql(`sqlite:${cli.path('live.db')}`, 'delete from audit_pending');
  expect(await verify(lastAnchor(id))).toEqual([false, 'cut_off']);
  expect(await verify(lastAnchor(undefined))).toEqual([false, 'cut_off']);
});
