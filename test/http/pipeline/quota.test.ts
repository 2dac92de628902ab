import { describe, expect, test } from 'bun:test';
import { Failure, fail } from '../../../src/domain/error.ts';
import { quota } from '../../../src/http/pipeline/quota.ts';
import { failInserts } from '../../support/database.ts';
import {
  Clock,
  databases,
  manyConnections,
  openTestServer,
  testMasterKey,
} from '../../support/test-server.ts';

const settings = { SALLYPORT_PENDING_SESSIONS_PER_APPLICATION: '5', SALLYPORT_MASTER_KEY: testMasterKey };

describe.each(databases)('pending sessions on %s', async (_, database) => {
  const server = await openTestServer(database, { ...settings, ...manyConnections });
  const key = (await server.tenant()).key;

  const application = () => server.application(key, { type: 'public' });
  const create = (web: { key: string }) => server.call('POST', '/sessions', { key: web.key });
  const authorize = (nonce: string) =>
    server.call('POST', '/sessions/authorize', { key, body: { nonce, permissions: ['mine:x'] } });
  async function filled() {
    const web = await application();
    const sessions = [];
    for (let i = 0; i < 5; i++) sessions.push(await create(web));
    expect(sessions.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
    return { web, nonce: sessions[0]?.body.nonce };
  }

  test('are limited to the configured number', async () => {
    const { web } = await filled();
    const { status, body, headers } = await create(web);
    expect([status, body.code, headers.get('retry-after')]).toEqual([429, 'too_many_requests', '1']);
    expect(body.detail).toContain('already has 5 pending sessions');
    expect((await create(await application())).status).toBe(201);
  });

  test('no longer count when they are authorized', async () => {
    const { web, nonce } = await filled();
    await authorize(nonce);
    expect([(await create(web)).status, (await create(web)).status]).toEqual([201, 429]);
  });

  test('are counted again within a second after a rejection', async () => {
    const { web, nonce } = await filled();
    expect((await create(web)).status).toBe(429);
    await authorize(nonce);
    server.clock.advance(1000);
    expect([(await create(web)).status, (await create(web)).status]).toEqual([201, 429]);
  });

  test('no longer count when they expire', async () => {
    const { web } = await filled();
    server.clock.advance(179_999);
    expect((await create(web)).status).toBe(429);
    server.clock.advance(1000);
    expect((await create(web)).status).toBe(201);
  });

  test('stay within the limit with concurrent requests', async () => {
    const web = await application();
    const answers = await Promise.all(Array.from({ length: 30 }, () => create(web)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(5);
  });

  test('do not include failed requests', async () => {
    const web = await application();
    const allow = await failInserts(server.config.databaseUrl, 'audit_pending');
    for (let i = 0; i < 5; i++) expect((await create(web)).status).toBe(503);
    await allow();
    const answers = [];
    for (let i = 0; i < 6; i++) answers.push((await create(web)).status);
    expect(answers).toEqual([201, 201, 201, 201, 201, 429]);
  });

  test('of other processes count after a second', async () => {
    const other = await openTestServer(server.config.databaseUrl, settings);
    other.clock.advance(server.clock.now() - other.clock.now());
    const web = await application();
    const there = () => other.call('POST', '/sessions', { key: web.key });
    expect((await there()).status).toBe(201);
    for (let i = 0; i < 4; i++) expect((await create(web)).status).toBe(201);
    other.clock.advance(1000);
    expect((await there()).status).toBe(429);
  });
});

describe.each(databases)('active sessions with long rules on %s', async (_, database) => {
  const server = await openTestServer(database, { ...settings, ...manyConnections });
  const key = (await server.tenant()).key;

  const rules = (count: number) =>
    Array.from({ length: count }, (_, n) => ({
      priority: n + 1,
      transform: 'mask',
      permissions: ['token:read'],
      conditions: [{ attribute: 'id', operator: 'equals', value: `token-${n}` }],
    }));
  async function authorize(count: number) {
    const { key: web } = await server.application(key, { type: 'public' });
    const { nonce } = (await server.call('POST', '/sessions', { key: web })).body;
    return server.call('POST', '/sessions/authorize', { key, body: { nonce, rules: rules(count) } });
  }

  test('are limited, by the application that authorizes; short ones still succeed', async () => {
    for (const count of [10, 10, 40, 40, 40, 40, 40]) expect((await authorize(count)).status).toBe(204);
    server.clock.advance(1000);
    const { status, body } = await authorize(40);
    expect([status, body.code]).toEqual([429, 'too_many_requests']);
    expect(body.detail).toContain('more than 4 KiB of rules');
    expect((await authorize(2)).status).toBe(204);
    server.clock.advance(180_000);
    expect((await authorize(40)).status).toBe(204);
  });
});

describe('a quota', () => {
  function openQuota(max: number, count: () => number | Promise<number>) {
    const clock = new Clock();
    let [counts, rejections] = [0, 0];
    const counter = async () => {
      counts++;
      return count();
    };
    const limited = quota(max, counter, clock.now, () => {
      rejections++;
      return fail('too_many_requests');
    });
    return {
      clock,
      reserve: () => limited.reserve('tenant', 'application'),
      counts: () => counts,
      rejections: () => rejections,
    };
  }

  test('counts at most once a second', async () => {
    let stored = 0;
    const { clock, reserve, counts, rejections } = openQuota(100, () => stored);
    for (; stored < 99; stored++) (await reserve())();
    expect(counts()).toBe(1);
    (await reserve())();
    stored++;
    for (let i = 0; i < 50; i++) await expect(reserve()).rejects.toThrow(Failure);
    expect([counts(), rejections()]).toEqual([2, 50]);
    clock.advance(999);
    await expect(reserve()).rejects.toThrow(Failure);
    expect(counts()).toBe(2);
    clock.advance(1);
    stored = 50;
    (await reserve())();
    expect(counts()).toBe(3);
  });

  test('includes requests in progress', async () => {
    const { reserve } = openQuota(3, () => 0);
    const releases = await Promise.all([reserve(), reserve(), reserve()]);
    await expect(reserve()).rejects.toThrow(Failure);
    for (const release of releases) release();
    expect((await reserve())()).toBeUndefined();
  });

  test('includes requests that finish while it counts', async () => {
    let counted = Promise.resolve(0);
    const { clock, reserve } = openQuota(1, () => counted);
    const release = await reserve();
    clock.advance(1000);
    const counting = Promise.withResolvers<number>();
    counted = counting.promise;
    const reserving = reserve();
    release();
    counting.resolve(0);
    await expect(reserving).rejects.toThrow(Failure);
  });

  test('counts again after a count failed', async () => {
    let broken = true;
    const { reserve } = openQuota(3, () => {
      if (broken) throw new Error('the database is gone');
      return 0;
    });
    await expect(reserve()).rejects.toThrow('the database is gone');
    broken = false;
    expect((await reserve())()).toBeUndefined();
  });
});
