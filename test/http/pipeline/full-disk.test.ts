import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KeyedRoute } from '../../../src/http/pipeline/route.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { mount, noMount, unmount } from '../../support/mount.ts';
import { authenticatedRoutes, routeCaller } from '../../support/route-access.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

const essential = [
  'deleteApplication',
  'regenerateKey',
  'deleteKey',
  'quarantineApplication',
  'quarantineSession',
  'endSession',
  'endSessions',
  'deleteToken',
  'deleteDestination',
];

/** A search answers guesses, so its audit entry must be durable before the reply. */
const auditedRead = 'searchTokens';

describe.skipIf(noMount)('on a full disk', () => {
  const folder = temporaryFolder();
  const ballast = join(folder, 'ballast');
  const requests = new Map<KeyedRoute, () => Promise<{ status: number; body: { code?: string } }>>();
  let server: TestServer;
  let tenant: { id: string; key: string };
  let leaked: string;

  function fillDisk(): void {
    rmSync(ballast, { force: true });
    const { bavail, bsize } = statfsSync(folder);
    writeFileSync(ballast, Buffer.alloc(bavail * bsize));
  }

  beforeAll(async () => {
    expect(mount('-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', folder)).toBe(true);
    server = await openTestServer(await sqlite.createMigrated(folder), {}, undefined, { reserved: 1 << 20 });
    tenant = await server.tenant();
    leaked = (await server.application(tenant.key)).key;
    for (const route of authenticatedRoutes) {
      const owner = await server.tenant();
      const { path, key, body } = await routeCaller(server.call).prepare(route, owner);
      requests.set(route, () => server.call(route.method, path, { key, body }));
    }
    await server.flush();
    fillDisk();
    expect((await server.call('POST', '/tokens', { key: tenant.key, body: { data: 'x' } })).status).toBe(503);
  });
  afterAll(async () => {
    unmount(folder);
  });

  test.each(authenticatedRoutes.map((route) => [route.name, route] as const))(
    '%s works if it reads or takes access away, and otherwise says that the disk is full',
    async (name, route) => {
      const { status, body } = (await requests.get(route)?.()) ?? {};
      const works = (route.kind === 'read' && name !== auditedRead) || essential.includes(name);
      if (works) expect(status).toBeLessThan(300);
      else expect({ status, body }).toMatchObject({ status: 503, body: { code: 'disk_full' } });
    },
  );

  test('a leaked key is revoked, and the audit log has the entry', async () => {
    expect((await server.call('POST', '/keys/revoke', { body: { key: leaked } })).status).toBe(204);
    expect((await server.call('GET', '/tokens', { key: leaked })).status).toBe(401);
    const { body } = await server.call('GET', '/logs?operation=key.revoke', { key: tenant.key });
    expect(body.data).toHaveLength(1);
  });

  test('the service starts, and accepts all changes when there is space again', async () => {
    const create = () => server.call('POST', '/tokens', { key: tenant.key, body: { data: 'x' } });
    const isFull = async () => (await server.call('GET', '/readyz')).body.disk_full ?? false;
    const { databaseUrl } = server.config;
    await server.close();
    fillDisk();
    server = await openTestServer(databaseUrl, {}, undefined, { reserved: 1 << 20 });
    expect([await isFull(), (await create()).body.code]).toEqual([true, 'disk_full']);
    rmSync(ballast);
    server.clock.advance(1000);
    expect([await isFull(), (await create()).status]).toEqual([false, 201]);
    fillDisk();
    expect([(await create()).status, (await create()).body.code]).toEqual([503, 'disk_full']);
  });
});
