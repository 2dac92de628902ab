import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { renameSync, writeFileSync } from 'node:fs';
import { openTestServer, sqlite, type TestServer } from './support/test-server.ts';

describe('if the SQLite file of a running service is removed', () => {
  let world: TestServer;
  let key: string;
  const path = () => world.config.databaseUrl.slice('sqlite:'.length);
  const body = { name: 'x', type: 'private', permissions: ['token:read'] };
  const create = async () => (await world.call('POST', '/applications', { key, body })).status;
  const ready = async () => (await world.call('GET', '/readyz')).status;
  const up = async () => {
    const text = await (await fetch(world.app.metricsUrl as string)).text();
    return /^sallyport_database_up (\d)$/m.exec(text)?.[1];
  };
  beforeEach(async () => {
    world = await openTestServer(sqlite, { SALLYPORT_METRICS_PORT: '0' });
    key = (await world.tenant()).key;
    expect([await create(), await ready(), await up()]).toEqual([201, 200, '1']);
  });
  afterEach(() => world.close());

  test.each([
    ['no file', () => {}],
    ['another file', () => writeFileSync(path(), 'x')],
  ])(
    'or replaced (%s), changes fail with 503, readiness and metrics report it, and it recovers',
    async (_, put) => {
      renameSync(path(), `${path()}.away`);
      put();
      expect([await create(), await ready(), await up()]).toEqual([503, 503, '0']);
      world.logged.length = 0;
      await world.flush();
      const logged = world.logged.map((line) => JSON.parse(line)).find(({ level }) => level === 'error');
      expect(logged.error).toContain(`its file is no longer at ${path()}`);
      renameSync(`${path()}.away`, path());
      expect([await create(), await ready(), await up()]).toEqual([201, 200, '1']);
    },
  );
});
