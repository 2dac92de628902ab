import { beforeEach, describe, expect, test } from 'bun:test';
import { openBound } from '../../support/bound-client.ts';
import { shell } from '../../support/shell.ts';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const proxy = { SALLYPORT_TRUSTED_PROXIES: '10.0.0.0/8' };
const publicUrl = { SALLYPORT_PUBLIC_URL: 'https://keys.example' };

describe.each(databases)('doctor and bound sessions on %s', (_, database) => {
  let server: TestServer;
  let key: string;
  beforeEach(async () => {
    server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    key = (await server.tenant()).key;
  });

  async function check(settings: Record<string, string>): Promise<{ state: string; message: string }> {
    const { databaseUrl, dataDir } = server.config;
    const env = {
      DATABASE_URL: databaseUrl,
      SALLYPORT_DATA_DIR: dataDir,
      SALLYPORT_MASTER_KEY: testMasterKey,
      ...settings,
    };
    const { checks } = JSON.parse((await shell(['doctor', '--json'], { env })).out);
    return checks.find(({ name }: { name: string }) => name === 'bound sessions');
  }

  const states = async () => {
    const checks = [await check({}), await check({ ...proxy, ...publicUrl }), await check(proxy)];
    return checks.map(({ state }) => state);
  };

  test('warns behind a proxy without a public URL if an application requires them', async () => {
    expect(await states()).toEqual(['ok', 'ok', 'ok']);
    const fields = { type: 'public', name: 'shop', require_bound_sessions: true };
    const { id } = await server.application(key, fields);
    expect(await states()).toEqual(['ok', 'ok', 'warn']);
    expect((await check(proxy)).message).toContain(`"shop" (${id}) requires bound sessions`);
    await server.call('DELETE', `/applications/${id}`, { key });
    expect((await check(proxy)).state).toBe('ok');
  });

  test('warns behind a proxy without a public URL while a bound session is valid', async () => {
    const { key: web } = await server.application(key, { type: 'public' });
    await server.call('POST', '/sessions', { key: web });
    expect((await check(proxy)).state).toBe('ok');
    await openBound(server, web);
    // The command uses the clock of the machine, not that of the test.
    await runSql(server.config.databaseUrl, `update sessions set expires_at = ${Date.now() + 3_600_000}`);
    expect(await states()).toEqual(['ok', 'ok', 'warn']);
    expect((await check(proxy)).message).toContain('bound sessions exist');
  });
});
