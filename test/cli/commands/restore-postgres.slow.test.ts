/** A restore on PostgreSQL with its own programs, while a pooler holds connections to the database of the service. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { Glob } from 'bun';
import { Cluster } from '../../../torture/crash/cluster.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import { noPgbouncer, type Pgbouncer, pgbouncers, startPgbouncer } from '../../support/pgbouncer.ts';
import { isMissing } from '../../support/skip.ts';
import { openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

/** The programs of a server and a client of the same version, which Debian installs together. */
const [programs] = [...new Glob('/usr/lib/postgresql/*/bin/pg_dump').scanSync('/')];
const folder = programs?.replace(/\/pg_dump$/, '');
const noPrograms = isMissing(
  folder !== undefined && !noPgbouncer,
  'restore of PostgreSQL: no server of the operating system or no pgbouncer found',
);

let [cli, cluster, pooler, server]: [Cli?, Cluster?, Pgbouncer?, TestServer?] = [];
beforeAll(async () => {
  if (noPrograms) return;
  cli = openCli(() => ({ SALLYPORT_MASTER_KEY: testMasterKey }));
  // The server runs as another user.
  chmodSync(cli.folder, 0o711);
  cluster = await Cluster.make(cli.path('cluster'), folder);
  await cluster.start();
  await runSql(cluster.url(), 'create database sallyport');
  pooler = await startPgbouncer(pgbouncers[0]?.[1] as string, cluster.port);
});
afterAll(async () => {
  await server?.close();
  await pooler?.stop();
  await cluster?.kill();
});

test.skipIf(noPrograms)('restores into a new database and leaves that of the service alone', async () => {
  const [terminal, primary] = [cli as Cli, cluster as Cluster];
  const url = primary.url('sallyport');
  const pooled = url.replace(`:${primary.port}/`, `:${pooler?.port}/`);
  const settings = { SALLYPORT_MASTER_KEY: testMasterKey };
  const open = async (database: string) => {
    server = await openTestServer(database, settings);
    return server;
  };
  const live = await open(pooled);
  const { key } = await live.tenant();
  const [revoked, kept] = [await live.application(key), await live.application(key)];
  const [dump, broken, log] = ['sallyport.dump', 'broken.dump', 'audit.jsonl'].map(terminal.path) as [
    string,
    string,
    string,
  ];
  const dumped = Bun.spawnSync([
    `${folder}/pg_dump`,
    '--format=custom',
    '--exclude-table-data=sessions',
    `--file=${dump}`,
    url,
  ]);
  expect([dumped.exitCode, String(dumped.stderr)]).toEqual([0, '']);
  await live.call('DELETE', `/applications/${revoked.id}`, { key });
  await terminal.run('audit', 'export', log, '--database-url', url);
  const databases = async () =>
    (await runSql(primary.url(), 'select datname from pg_database order by 1')).map(
      (row) => (row as { datname: string }).datname,
    );
  const before = await databases();
  const rows = () => runSql(url, 'select id from applications order by id');
  const applications = await rows();

  writeFileSync(broken, readFileSync(dump).subarray(0, 20_000));
  const failed = await terminal.run('restore', broken, '--database-url', url);
  expect([failed.code, failed.err]).toEqual([1, expect.stringContaining('pg_restore')]);
  expect(await databases()).toEqual(before);

  const restored = await terminal.json('restore', dump, '--database-url', url, '--audit', log, '--revoke');
  expect([restored.code, restored.body.revived.applications.length]).toEqual([0, 1]);
  expect(await rows()).toEqual(applications);
  await server?.close();
  await open(url.replace(/sallyport$/, restored.body.database));
  // 403: valid, without `application:read`.
  const statusOf = async (credential: string) =>
    (await (server as TestServer).call('GET', '/applications/key', { key: credential })).status;
  expect([await statusOf(revoked.key), await statusOf(kept.key), await statusOf(key)]).toEqual([
    401, 403, 200,
  ]);
});
