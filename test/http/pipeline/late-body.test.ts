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

  const of = ({ id }: { id: string }, path = '') => `/applications/${id}${path}`;
  const less = { name: 'x', permissions: ['application:read'] };

  test.each<[what: string, status: number, refuse: (made: { id: string }) => unknown]>([
    ['the application was deleted', 401, (made) => server.call('DELETE', of(made), { key })],
    ['the key was regenerated', 401, (made) => server.call('POST', of(made, '/regenerate'), { key })],
    ['the permission was removed', 403, (made) => server.call('PUT', of(made), { key, body: less })],
    ['the key has expired', 401, () => server.clock.advance(61_000)],
  ])('is denied if %s, and changes nothing', async (_, status, refuse) => {
    const expires_at = new Date(server.clock.now() + 60_000).toISOString();
    const made = await server.application(key, { type: 'management', permissions: all, expires_at });
    const meanwhile = async () => refuse(made);
    expect(await interrupted(made.key, 'POST', '/applications', another, meanwhile)).toBe(status);
    const { body } = await server.call('GET', '/applications?name=another', { key });
    expect(body.data).toEqual([]);
  });

  test('is allowed without a revocation', async () => {
    const created = await server.application(key, { type: 'management', permissions: all });
    const body = { ...another, name: 'welcome' };
    expect(await interrupted(created.key, 'POST', '/applications', body, async () => {})).toBe(201);
  });
});
