/** Audit entries about the requests of applications and sessions in quarantine. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { builtIn } from '../../../src/domain/permission.ts';
import { isRead } from '../../../src/domain/quarantine.ts';
import { operationOf } from '../../../src/http/pipeline/route.ts';
import { authenticatedRoutes, routeCaller } from '../../support/route-access.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

interface ListedEntry {
  readonly operation: string;
  readonly result: string;
  readonly reason?: string;
  readonly count?: number;
  readonly resource?: object;
}

describe.each(databases)('requests in quarantine on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_AUDIT_READS: 'off' });
  let tenant: { id: string; key: string };
  let suspect: { id: string; key: string };
  beforeEach(async () => {
    tenant = await server.tenant();
    suspect = await server.application(tenant.key, {
      name: 'suspect',
      permissions: builtIn.filter((name) => name !== 'token:use'),
    });
  });

  const { callRoute, createEntity } = routeCaller((...asked) => server.call(...asked));
  const reads = authenticatedRoutes.filter(
    ({ kind, permission }) => kind === 'read' && permission !== undefined && isRead(permission),
  );
  const get = (path: string, key = suspect.key, method = 'GET') => server.call(method, path, { key });

  async function quarantine(path = `/applications/${suspect.id}`): Promise<void> {
    expect((await server.call('POST', `${path}/quarantine`, { key: tenant.key })).status).toBe(200);
  }

  async function entriesOf(actor: string): Promise<ListedEntry[]> {
    await server.flush();
    return (await get(`/logs?actor=${actor}&size=100`, tenant.key)).body.data;
  }

  async function readEverything(): Promise<void> {
    for (const route of reads) {
      const { status } = await callRoute(route, suspect.key, await createEntity(route, tenant), tenant);
      expect([route.name, status]).toEqual([route.name, 200]);
    }
  }

  test('every successful read is counted, and none without quarantine', async () => {
    await readEverything();
    expect(await entriesOf(suspect.id)).toEqual([]);
    await quarantine();
    await readEverything();
    const counts: Record<string, number> = {};
    for (const { operation, result, count = 1 } of await entriesOf(suspect.id)) {
      expect([operation, result]).toEqual([operation, 'success']);
      counts[operation] = (counts[operation] ?? 0) + count;
    }
    const expected: Record<string, number> = {};
    for (const route of reads) expected[operationOf(route)] = (expected[operationOf(route)] ?? 0) + 1;
    expect(counts).toEqual(expected);
  });

  test('reads of one operation and minute are one entry with the ids in their paths', async () => {
    await quarantine();
    for (const path of ['', '', `/${suspect.id}`]) await get(`/applications${path}`);
    expect(await entriesOf(suspect.id)).toMatchObject([
      { operation: 'application.read', result: 'success', count: 3, resource: { ids: [suspect.id] } },
    ]);
  });

  test('a token list without tokens and a HEAD request are counted', async () => {
    await server.call('POST', '/tokens', { key: tenant.key, body: { id: 'card', data: 'd' } });
    await quarantine();
    await get('/tokens?container=/empty/');
    await get('/tokens/card', suspect.key, 'HEAD');
    expect(await entriesOf(suspect.id)).toMatchObject([
      { operation: 'token.read', result: 'success', count: 2, resource: { ids: ['card'] } },
    ]);
  });

  test('requests for resources that do not exist are counted with their ids, and none without quarantine', async () => {
    const unknown = crypto.randomUUID();
    const guess = async () => {
      for (const path of ['/tokens/guess-1', '/tokens/guess-2', `/applications/${unknown}`])
        expect((await get(path)).status).toBe(404);
    };
    await guess();
    expect(await entriesOf(suspect.id)).toEqual([]);
    await quarantine();
    await guess();
    const failed = { result: 'failed', reason: 'not_found', actor: { id: suspect.id } };
    const entries = await entriesOf(suspect.id);
    expect(entries).toHaveLength(2);
    const byOperation = (name: string) => entries.find(({ operation }) => operation === name);
    expect(byOperation('token.read')).toMatchObject({
      ...failed,
      count: 2,
      resource: { ids: ['guess-1', 'guess-2'] },
    });
    expect(byOperation('application.read')).toMatchObject({ ...failed, resource: { ids: [unknown] } });
    expect((await get(`/logs?actor=${suspect.id}&token=guess-2`, tenant.key)).body.data).toHaveLength(1);
  });

  test('requests of a session in quarantine are those of the session', async () => {
    const web = await server.application(tenant.key, { type: 'public', permissions: ['token:create'] });
    const { nonce, session_key } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const body = { nonce, permissions: ['token:read'] };
    await server.call('POST', '/sessions/authorize', { key: tenant.key, body });
    const [{ id }] = (await get('/sessions', tenant.key)).body.data;
    await quarantine(`/sessions/${id}`);
    await get('/tokens', session_key);
    await get('/tokens/guess', session_key);
    const actor = { kind: 'session', id, application_id: web.id };
    const entries = await entriesOf(id);
    expect(entries.map(({ result }) => result).sort()).toEqual(['failed', 'success']);
    for (const entry of entries) expect(entry).toMatchObject({ operation: 'token.read', actor });
  });
});
