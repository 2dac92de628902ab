/** The quarantine of an application covers the sessions that it created or authorized. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';

const card = { id: 'card-42', container: '/cards/' };
const permissions = ['token:read', 'token:update'];
const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
const rule = { priority: 1, container: '/cards/', transform: 'reveal', permissions };

interface Session {
  readonly id: string;
  readonly key: string;
}

describe.each(databases)('sessions of an application in quarantine on %s', async (_, database) => {
  let key: string;
  let web: { id: string; key: string };
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  // Another node on the same database.
  const other = await openTestServer(server.config.databaseUrl);
  beforeEach(async () => {
    ({ key } = await server.tenant());
    web = await server.application(key, { name: 'web', type: 'public', permissions: ['token:create'] });
    const body = { ...card, data: { number: '4242' } };
    expect((await server.call('POST', '/tokens', { key, body })).status).toBe(201);
  });

  async function session(authorizer: string): Promise<Session> {
    const { nonce, session_key } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const rules = [{ priority: 1, conditions, transform: 'reveal', permissions }];
    const body = { nonce, rules };
    expect((await server.call('POST', '/sessions/authorize', { key: authorizer, body })).status).toBe(204);
    const [{ id }] = (await server.call('GET', '/sessions', { key })).body.data;
    return { id, key: session_key };
  }

  const set = (method: 'POST' | 'DELETE', id: string) =>
    server.call(method, `/applications/${id}/quarantine`, { key });
  /** The access of the session on every node: the data that it reads, and the code of a change. */
  const access = async ({ key }: Session) => {
    const seen: unknown[] = [];
    for (const node of [other, server]) {
      const { body } = await node.call('GET', '/tokens/card-42', { key });
      const changed = await node.call('PATCH', '/tokens/card-42', { key, body: { metadata: {} } });
      seen.push([body.data, changed.body.code ?? changed.status]);
    }
    return seen;
  };
  const free = Array(2).fill([{ number: '4242' }, 200]);
  const redacted = Array(2).fill([undefined, 'quarantined']);

  /** What decisions, AuthZEN and the access review say about the session. */
  async function reports({ id, key: credential }: Session) {
    const resource = { ...card };
    const question = { credential, permission: 'token:read', resource, explain: true };
    const decision = (await server.call('POST', '/decisions', { key, body: question })).body;
    const subject = { type: 'session', id };
    const evaluation = { subject, action: { name: 'read' }, resource: { type: 'token', id: card.id } };
    const evaluated = (await server.call('POST', '/access/v1/evaluation', { key, body: evaluation })).body;
    const { data } = (await server.call('GET', '/access/who?token=card-42', { key })).body;
    const entry = data.find((one: { subject: { id: string } }) => one.subject.id === id);
    return {
      decided: [decision.transform, decision.reason, decision.trace[0].transform],
      evaluated: [evaluated.context.transform, evaluated.context.reason],
      reviewed: [entry.transform, entry.quarantine, entry.limited_by?.name],
    };
  }

  test.each([
    ['with a ceiling', [], 'desk'],
    ['without a ceiling, by session:authorize', ['session:authorize'], undefined],
    ['without a ceiling, by application:create', ['application:create'], undefined],
  ])(
    'a session %s is redacted with its authorizer on every node, and everything reports it',
    async (_, held, limitedBy) => {
      const desk = await server.application(key, { name: 'desk', permissions: held, rules: [rule] });
      const [suspect, neighbour] = [await session(desk.key), await session(key)];
      expect(await access(suspect)).toEqual(free);
      expect((await reports(suspect)).reviewed).toEqual(['reveal', undefined, limitedBy]);
      await set('POST', desk.id);
      expect(await access(suspect)).toEqual(redacted);
      expect(await access(neighbour)).toEqual(free);
      const reason = 'the authorizer is in quarantine: token:read has the transform redact';
      expect(await reports(suspect)).toEqual({
        decided: ['redact', reason, 'redact'],
        evaluated: ['redact', reason],
        reviewed: ['redact', { type: 'application', id: desk.id, name: 'desk' }, limitedBy],
      });
      await other.flush();
      const logged = (await server.call('GET', `/logs?actor=${suspect.id}&result=denied`, { key })).body.data;
      expect(logged[0].decision.reason).toBe('the authorizer is in quarantine');
      await set('DELETE', desk.id);
      expect(await access(suspect)).toEqual(free);
      expect((await reports(suspect)).reviewed).toEqual(['reveal', undefined, limitedBy]);
    },
  );

  test('a session is redacted with the public application that created it', async () => {
    const own = await session(key);
    await set('POST', web.id);
    expect(await access(own)).toEqual(redacted);
    expect((await reports(own)).reviewed[1]).toEqual({ type: 'application', id: web.id, name: 'web' });
    await set('DELETE', web.id);
    expect(await access(own)).toEqual(free);
  });

  test.each(['deleted', 'expired'])('a session stays redacted after its authorizer is %s', async (how) => {
    const expires_at = new Date(server.clock.now() + 60_000).toISOString();
    const desk = await server.application(key, { permissions: ['session:authorize'], expires_at });
    const [suspect, neighbour] = [await session(desk.key), await session(key)];
    await set('POST', desk.id);
    if (how === 'deleted') await server.call('DELETE', `/applications/${desk.id}`, { key });
    else for (const node of [server, other]) node.clock.advance(60_000);
    expect(await access(suspect)).toEqual(redacted);
    await server.flush();
    const { body } = await server.call('GET', `/sessions?id=${suspect.id}`, { key });
    expect(body.data[0].quarantined_at).toBeString();
    expect(await access(suspect)).toEqual(redacted);
    expect(await access(neighbour)).toEqual(free);
    await server.call('DELETE', `/sessions/${suspect.id}/quarantine`, { key });
    expect(await access(suspect)).toEqual(free);
  });
});
