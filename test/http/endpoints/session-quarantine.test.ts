/** Sessions in quarantine. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

describe.each(databases)('the quarantine of a session on %s', async (_, database) => {
  let key: string;
  let web: { id: string; key: string };
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  // Another node on the same database.
  const other = await openTestServer(server.config.databaseUrl);
  beforeEach(async () => {
    ({ key } = await server.tenant());
    web = await server.application(key, { name: 'web', type: 'public', permissions: ['token:create'] });
    const body = { id: 'card-42', container: '/cards/', data: { number: '4242' } };
    expect((await server.call('POST', '/tokens', { key, body })).status).toBe(201);
  });

  async function session(): Promise<{ id: string; key: string }> {
    const { nonce, session_key } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
    const permissions = ['token:read', 'token:update'];
    const rules = [{ priority: 1, conditions, transform: 'reveal', permissions }];
    await server.call('POST', '/sessions/authorize', { key, body: { nonce, rules } });
    const [{ id }] = (await server.call('GET', '/sessions', { key })).body.data;
    return { id, key: session_key };
  }

  const quarantine = (id: string, caller = key) =>
    server.call('POST', `/sessions/${id}/quarantine`, { key: caller });
  const release = (id: string, caller = key) =>
    server.call('DELETE', `/sessions/${id}/quarantine`, { key: caller });
  /** The access of the session on a node: the data that it reads, and the status of a change. */
  const access = async (node: TestServer, caller: string) => [
    (await node.call('GET', '/tokens/card-42', { key: caller })).body.data,
    (await node.call('PATCH', '/tokens/card-42', { key: caller, body: { metadata: {} } })).status,
  ];
  const free = [{ number: '4242' }, 200];

  test('applies on every node immediately, to this session only, until the release', async () => {
    const [suspect, neighbour] = [await session(), await session()];
    for (const node of [server, other]) expect(await access(node, suspect.key)).toEqual(free);
    const { status, body } = await quarantine(suspect.id);
    const quarantined_at = new Date(server.clock.now()).toISOString();
    expect([status, body.quarantined_at, body.state]).toEqual([200, quarantined_at, 'active']);
    for (const node of [other, server]) {
      expect(await access(node, suspect.key)).toEqual([undefined, 403]);
      expect(await access(node, neighbour.key)).toEqual(free);
    }
    const listed = (await other.call('GET', `/sessions?id=${suspect.id}`, { key })).body.data;
    expect(listed).toEqual([body]);
    server.clock.advance(1000);
    expect((await quarantine(suspect.id)).body).toEqual(body);
    expect((await release(suspect.id)).status).toBe(204);
    expect((await release(suspect.id)).status).toBe(204);
    for (const node of [other, server]) expect(await access(node, suspect.key)).toEqual(free);
    const after = (await server.call('GET', `/sessions?id=${suspect.id}`, { key })).body.data;
    expect(after[0]).not.toHaveProperty('quarantined_at');
  });

  test('reviews and decisions say whose quarantine it is, and the log records it with the attempts', async () => {
    const suspect = await session();
    await quarantine(suspect.id);
    const entryOf = async () => {
      const { data } = (await server.call('GET', '/access/who?token=card-42', { key })).body;
      return data.find(({ subject }: { subject: { id: string } }) => subject.id === suspect.id);
    };
    expect(await entryOf()).toMatchObject({
      transform: 'redact',
      quarantine: { type: 'session', id: suspect.id, name: 'web' },
    });
    const resource = { id: 'card-42', container: '/cards/' };
    const question = { credential: suspect.key, permission: 'token:update', resource };
    const { reason } = (await server.call('POST', '/decisions', { key, body: question })).body;
    expect(reason).toStartWith('the session is in quarantine: ');
    const denied = await other.call('PATCH', '/tokens/card-42', { key: suspect.key, body: { metadata: {} } });
    expect(denied.body.code).toBe('quarantined');
    await release(suspect.id);
    await server.call('POST', `/applications/${web.id}/quarantine`, { key });
    expect((await entryOf()).quarantine).toEqual({ type: 'application', id: web.id, name: 'web' });
    await other.flush();
    const { data } = (await server.call('GET', '/logs?size=100', { key })).body;
    const recorded = data.map(({ operation, result, decision }: Record<string, { reason?: string }>) =>
      [operation, result, ...(decision?.reason ? [decision.reason] : [])].join(' '),
    );
    expect(recorded).toContain('session.quarantine success');
    expect(recorded).toContain('session.release success');
    expect(recorded).toContain('token.update denied the session is in quarantine');
  });

  test('a pending session stays in quarantine when it is authorized', async () => {
    const { nonce, session_key } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const [{ id }] = (await server.call('GET', '/sessions', { key })).body.data;
    expect((await quarantine(id)).body.state).toBe('pending');
    await server.call('POST', '/sessions/authorize', { key, body: { nonce, permissions: ['token:read'] } });
    expect((await access(other, session_key))[1]).toBe(403);
  });

  test('ended, expired and other tenants’ sessions get 404', async () => {
    const [ended, expired] = [await session(), await session()];
    const stranger = await server.tenant();
    expect((await quarantine(ended.id, stranger.key)).status).toBe(404);
    expect((await release(ended.id, stranger.key)).status).toBe(404);
    await server.call('DELETE', `/sessions/${ended.id}`, { key });
    expect((await quarantine(ended.id)).status).toBe(404);
    server.clock.advance(180_000);
    expect((await quarantine(expired.id)).status).toBe(404);
  });
});
