/** A PostgreSQL whose disk is full. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';
import { temporaryFolder } from '../support/cleanup.ts';
import { openCli } from '../support/cli.ts';
import { problemsIn, runDoctor } from '../support/doctor.ts';
import { mount, noMount, unmount } from '../support/mount.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { openTestServer, type TestServer, testMasterKey } from '../support/test-server.ts';

describe.skipIf(noMount)('on a full disk of PostgreSQL', () => {
  const folder = temporaryFolder();
  const ballast = join(folder, 'ballast');
  let postgres: Postgres;
  let server: TestServer;
  let key: string;

  function fillDisk(): void {
    const { bavail, bsize } = statfsSync(folder);
    writeFileSync(ballast, Buffer.alloc(bavail * bsize));
  }

  beforeAll(async () => {
    expect(mount('-t', 'tmpfs', '-o', 'size=250m', 'tmpfs', folder)).toBe(true);
    chmodSync(folder, 0o777);
    postgres = await startPostgres({ max_wal_size: '32MB', min_wal_size: '32MB' }, folder);
    server = await openTestServer(postgres.url);
    ({ key } = await server.tenant());
  });
  afterAll(async () => {
    await postgres.stop();
    unmount(folder);
  });

  const create = (id: string) =>
    server.call('POST', '/tokens', { key, body: { id, data: crypto.randomUUID().repeat(1000) } });

  test('changes get 503 and reads work; changes work again, and none is lost, when there is space', async () => {
    fillDisk();
    const stored: string[] = [];
    for (let count = 0; ; count++) {
      const { status } = await create(`token-${count}`);
      if (status === 503) break;
      expect(status).toBe(201);
      stored.push(`token-${count}`);
    }
    expect((await server.call('GET', '/readyz')).status).toBe(200);
    expect((await server.call('GET', '/logs', { key })).status).toBe(200);

    rmSync(ballast);
    expect((await create('later')).status).toBe(201);
    for (const id of stored) expect((await server.call('GET', `/tokens/${id}`, { key })).status).toBe(200);
  });

  test('doctor says so if the server accepts no new connection', async () => {
    // The server writes this cache when the first connection needs it.
    const caches = new Glob('**/pg_internal.init').scanSync({ cwd: folder, absolute: true });
    for (const file of caches) rmSync(file);
    fillDisk();
    const cli = openCli(() => ({ SALLYPORT_MASTER_KEY: testMasterKey }));
    const { code, checks } = await runDoctor(cli, '--database-url', postgres.url);
    rmSync(ballast);
    expect(code).toBe(1);
    const [database] = problemsIn(checks).filter(({ name }) => name === 'database');
    expect(database?.message).toContain('could not write init file');
    expect(database?.hint).toContain('free space on the disk of the database');
  });
});
