import { describe, expect, test } from 'bun:test';
import { openBound } from '../../support/bound-client.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('require_bound_sessions on %s', async (_, database) => {
  const server = await openTestServer(database);
  const key = (await server.tenant()).key;

  const web = (fields: object = {}) => server.application(key, { type: 'public', ...fields });
  const update = (id: string, fields: object) =>
    server.call('PUT', `/applications/${id}`, {
      key,
      body: { name: 'web', permissions: ['token:read'], ...fields },
    });

  test('a session without a proof is rejected, and one with a proof is created', async () => {
    const application = await web({ require_bound_sessions: true });
    expect(application.require_bound_sessions).toBe(true);
    const { status, body } = await server.call('POST', '/sessions', { key: application.key });
    expect([status, body.errors.dpop]).toEqual([400, [expect.stringContaining('is required')]]);
    expect((await openBound(server, application.key)).nonce).toBeString();
  });

  test('an update turns it on and off, and leaves it unchanged if it is absent', async () => {
    const { id, key: publicKey } = await web();
    const states = [];
    for (const fields of [
      {},
      { require_bound_sessions: true },
      {},
      { require_bound_sessions: null },
      { require_bound_sessions: false },
    ]) {
      const { body } = await update(id, fields);
      const { status } = await server.call('POST', '/sessions', { key: publicKey });
      states.push([body.require_bound_sessions, status]);
    }
    expect(states).toEqual([
      [undefined, 201],
      [true, 400],
      [true, 400],
      [true, 400],
      [undefined, 201],
    ]);
    const { body } = await server.call('GET', `/logs?entity=${id}&operation=application.update`, { key });
    const changes = body.data.map(({ difference }: { difference: object }) => difference);
    expect(changes).toContainEqual({ require_bound_sessions: { to: true } });
    expect(changes).toContainEqual({ require_bound_sessions: { from: true } });
  });

  test('existing sessions are not affected', async () => {
    const { id, key: publicKey } = await web();
    const { body: session } = await server.call('POST', '/sessions', { key: publicKey });
    await update(id, { require_bound_sessions: true });
    const grant = { nonce: session.nonce, permissions: ['application:read'] };
    expect((await server.call('POST', '/sessions/authorize', { key, body: grant })).status).toBe(204);
    expect((await server.call('GET', '/applications/key', { key: session.session_key })).status).toBe(200);
  });

  test.each(['private', 'management'])('%s applications cannot have it', async (type) => {
    const body = { name: 'x', type, permissions: ['token:read'], require_bound_sessions: true };
    const { status, body: problem } = await server.call('POST', '/applications', { key, body });
    expect([status, Object.keys(problem.errors)]).toEqual([400, ['require_bound_sessions']]);
    const allowed = await server.application(key, { type, require_bound_sessions: false });
    const changed = await update(allowed.id, { require_bound_sessions: true });
    expect([changed.status, Object.keys(changed.body.errors)]).toEqual([400, ['require_bound_sessions']]);
  });
});
