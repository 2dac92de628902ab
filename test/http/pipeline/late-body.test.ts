/** Access is checked after the body has arrived, so a revocation before that applies to the request. */
import { describe, expect, test } from 'bun:test';
import { connect } from 'node:net';
import { databases, openTestServer } from '../../support/test-server.ts';

describe.each(databases)('a request whose body arrives after a revocation, on %s', async (_, database) => {
  const server = await openTestServer(database);
  const key = (await server.tenant()).key;

  /** Sends the headers, runs `meanwhile`, then sends the body. */
  async function interrupted(
    as: string,
    method: string,
    path: string,
    body: object,
    meanwhile: () => Promise<unknown>,
  ) {
    const text = JSON.stringify(body);
    const { hostname, port } = new URL(server.url);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    const answer = new Promise<number>((resolve, reject) => {
      socket.once('data', (data) => resolve(Number(data.toString().split(' ')[1])));
      socket.once('error', reject);
    });
    const head = [
      `${method} ${path} HTTP/1.1`,
      'Host: test',
      `SVC-API-KEY: ${as}`,
      'Content-Type: application/json',
    ];
    socket.write(`${head.join('\r\n')}\r\nContent-Length: ${text.length}\r\n\r\n`);
    for (let i = 0; i < 3; i++) await server.call('GET', '/applications/key', { key: as });
    await meanwhile();
    socket.write(text);
    const status = await answer;
    socket.destroy();
    return status;
  }

  const all = ['application:create', 'application:read', 'application:update'];
  const another = { name: 'another', type: 'management', permissions: ['application:read'] };

  test('is denied if the application was deleted', async () => {
    const created = await server.application(key, { type: 'management', permissions: all });
    const gone = () => server.call('DELETE', `/applications/${created.id}`, { key });
    expect(await interrupted(created.key, 'POST', '/applications', another, gone)).toBe(401);
    const { body } = await server.call('GET', '/applications?name=another', { key });
    expect(body.data).toEqual([]);
  });

  test('is denied if the key was regenerated', async () => {
    const created = await server.application(key, { type: 'management', permissions: all });
    const anew = () => server.call('POST', `/applications/${created.id}/regenerate`, { key });
    expect(await interrupted(created.key, 'POST', '/applications', another, anew)).toBe(401);
  });

  test('is denied if the permission was removed', async () => {
    const created = await server.application(key, { type: 'management', permissions: all });
    const less = () =>
      server.call('PUT', `/applications/${created.id}`, {
        key,
        body: { name: 'x', permissions: ['application:read'] },
      });
    expect(await interrupted(created.key, 'POST', '/applications', another, less)).toBe(403);
  });

  test('is denied if the key has expired', async () => {
    const expires_at = new Date(server.clock.now() + 60_000).toISOString();
    const created = await server.application(key, { permissions: ['decision:create'], expires_at });
    const later = async () => server.clock.advance(61_000);
    expect(await interrupted(created.key, 'POST', '/decisions', { permission: 'token:read' }, later)).toBe(
      401,
    );
  });

  test('is allowed without a revocation', async () => {
    const created = await server.application(key, { type: 'management', permissions: all });
    const body = { ...another, name: 'welcome' };
    expect(await interrupted(created.key, 'POST', '/applications', body, async () => {})).toBe(201);
  });
});
