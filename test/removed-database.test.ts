import { beforeEach, describe, expect, test } from 'bun:test';
import { renameSync, writeFileSync } from 'node:fs';
import { openTestServer, sqlite, type TestServer } from './support/test-server.ts';

describe('if the SQLite file of a running service is removed', () => {
  let server: TestServer;
  let key: string;
  const path = () => server.config.databaseUrl.slice('sqlite:'.length);
  const body = { name: 'x', type: 'private', permissions: ['token:read'] };
  const create = async () => (await server.call('POST', '/applications', { key, body })).status;
  const read = async () => (await server.call('GET', '/tokens', { key })).status;
  const ready = async () => (await server.call('GET', '/readyz')).status;
  const up = async () => {
    await server.flush();
    const text = await (await fetch(server.app.metricsUrl as string)).text();
    return /^sallyport_database_up (\d)$/m.exec(text)?.[1];
  };
  /** The file is checked at most once per millisecond. */
  const nextCheck = async () => {
    for (const end = performance.now() + 1; performance.now() < end; ) await new Promise(setImmediate);
  };
  beforeEach(async () => {
    server = await openTestServer(sqlite, { SALLYPORT_METRICS_PORT: '0' });
    key = (await server.tenant()).key;
    expect([await create(), await read(), await ready(), await up()]).toEqual([201, 200, 200, '1']);
  });

  test.each([
    ['no file', () => {}],
    ['another file', () => writeFileSync(path(), 'x')],
  ])(
    'or replaced (%s), every request with a key fails with 503, readiness and metrics report it, and it recovers',
    async (_, put) => {
      renameSync(path(), `${path()}.away`);
      put();
      await nextCheck();
      expect([await create(), await read(), await ready(), await up()]).toEqual([503, 503, 503, '0']);
      const logged = server.logged
        .map((line) => JSON.parse(line))
        .find(({ message }) => message === 'the database is unreachable');
      expect(logged.error).toContain(`the database file was moved or deleted: ${path()}`);
      renameSync(`${path()}.away`, path());
      expect([await create(), await read(), await ready(), await up()]).toEqual([201, 200, 200, '1']);
    },
  );
});
