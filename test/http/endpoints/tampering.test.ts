/** Responses about a token whose row was modified in the database. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const data = { number: '4242424242424242', name: 'Ada' };
const mask = { number: '{{ data.number | reveal_last: 4 }}' };
const masked = { number: 'XXXXXXXXXXXX4242' };
const all = ['token:read', 'token:update', 'token:delete'];

describe.each(databases)('a token with modified ciphertext on %s', async (_, database) => {
  const server = await openTestServer(database);
  let management: string;
  let seeing: string;

  beforeEach(async () => {
    const { key, id } = await server.tenant();
    management = key;
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: all }];
    seeing = (await server.application(key, { permissions: [], rules })).key;
    for (const id of ['card-1', 'card-2'])
      await server.call('POST', '/tokens', { key, body: { id, data, mask } });
    const seqOf = (token: string) =>
      `tenant_id = '${id}' and seq = (select seq from tokens where tenant_id = '${id}' and id = '${token}')`;
    await runSql(
      server.config.databaseUrl,
      `update token_contents set data = (select data from token_contents where ${seqOf('card-2')})
       where ${seqOf('card-1')}`,
    );
  });

  /** Uses `fetch`, since the test client throws on a 500. */
  async function failing(method: string, path: string, body?: object) {
    // The log has one line for repeated failures within a second.
    server.clock.advance(1000);
    const before = server.logged.length;
    const response = await fetch(server.url + path, {
      method,
      headers: { 'SVC-API-KEY': seeing, 'Content-Type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, text, lines: server.logged.slice(before) };
  }

  test('can be read masked, since that does not decrypt the data', async () => {
    expect((await server.call('GET', '/tokens/card-1', { key: management })).body.data).toEqual(masked);
    const list = await server.call('GET', '/tokens', { key: management });
    expect(list.body.data.map((token: { data: unknown }) => token.data)).toEqual([masked, masked]);
  });

  test.each([
    ['GET', '/tokens/card-1', undefined],
    ['GET', '/tokens', undefined],
    ['PATCH', '/tokens/card-1', { type: 'card' }],
  ])('is an internal error where it must be decrypted: %s %s', async (method, path, body) => {
    const { status, text, lines } = await failing(method, path, body);
    expect(status).toBe(500);
    expect(JSON.parse(text)).toMatchObject({
      code: 'internal',
      detail: 'The service failed to process the request. Report the `request_id` to its operator.',
    });
    const errors = lines.filter((line) => JSON.parse(line).level === 'error');
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain('the data of token card-1 cannot be decrypted');
    for (const secret of ['4242424242', 'Ada']) expect(text + lines.join('\n')).not.toContain(secret);
  });

  test('can be deleted, and other tokens are unaffected', async () => {
    expect((await server.call('GET', '/tokens/card-2', { key: seeing })).body.data).toEqual(data);
    expect((await server.call('DELETE', '/tokens/card-1', { key: seeing })).status).toBe(204);
    expect((await server.call('GET', '/tokens', { key: seeing })).body.data).toHaveLength(1);
  });
});
