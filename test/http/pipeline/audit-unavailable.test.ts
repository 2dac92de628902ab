import { describe, expect, test } from 'bun:test';
import { type Route, takesIdempotencyKey } from '../../../src/http/pipeline/route.ts';
import { routes } from '../../../src/http/routes.ts';
import { allRows, failInserts } from '../../support/database.ts';
import { routeCaller } from '../../support/route-access.ts';
import { type ApiResponse, databases, openTestServer } from '../../support/test-server.ts';

const changing = routes.filter(({ kind }) => kind === 'change');

describe.each(databases)('when the audit log cannot be written on %s', async (_, database) => {
  const server = await openTestServer(database);

  /** The responses to requests while the audit log cannot be written, and to the last one afterwards. */
  async function rejectedThenDone(route: Route, requests: readonly Record<string, string>[]) {
    const tenant = await server.tenant();
    await server.call('POST', '/tokens', { key: tenant.key, body: { data: 'x' } });
    const { path, key, body } = await routeCaller(server.call).prepare(route, tenant);
    const send = (headers = {}) => server.call(route.method, path, { key, body, headers });
    await server.flush();
    const { databaseUrl } = server.config;
    const before = await allRows(databaseUrl);
    const allow = await failInserts(databaseUrl, 'audit_pending');
    const rejected: ApiResponse[] = [];
    for (const headers of requests) rejected.push(await send(headers));
    await allow();
    expect(await allRows(databaseUrl)).toEqual(before);
    return { rejected, done: await send(requests.at(-1)) };
  }

  test.each(changing.map((route) => [route.name, route] as const))(
    '%s changes nothing, returns no secret, and can be retried',
    async (_name, route) => {
      const idempotent = takesIdempotencyKey(route) ? [{ 'Idempotency-Key': crypto.randomUUID() }] : [];
      const { rejected, done } = await rejectedThenDone(route, [{}, ...idempotent]);
      for (const each of rejected) {
        expect(each).toMatchObject({ status: 503, body: { code: 'unavailable' } });
        expect(JSON.stringify(each.body)).not.toContain('slp_');
      }
      expect(done.status).toBeLessThan(300);
      expect(done.headers.get('idempotency-replayed')).toBeNull();
    },
  );

  test('a request is still denied, and the missing audit entry is logged', async () => {
    const allow = await failInserts(server.config.databaseUrl, 'audit_pending');
    expect((await server.call('GET', '/applications')).status).toBe(401);
    await server.flush();
    await allow();
    expect(server.logged.join('\n')).toContain('denials and reads could not be written to the audit log');
  });
});
