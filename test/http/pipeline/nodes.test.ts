import { describe, expect, test } from 'bun:test';
import {
  type ApiResponse,
  databases,
  openTestServer,
  type TestServer,
  testMasterKey,
} from '../../support/test-server.ts';

const reading = { permissions: ['application:read'] };
const times = <T>(count: number, make: (at: number) => T) =>
  Array.from({ length: count }, (_, at) => make(at));
const countOf = (answers: { status: number }[], status: number) =>
  answers.filter((answer) => answer.status === status).length;

/** Expects one 204, and the status `other` for the rest. Returns the index of the 204. */
function expectOnce(answers: { readonly status: number }[], other: number): number {
  expect([countOf(answers, 204), countOf(answers, other)]).toEqual([1, answers.length - 1]);
  return answers.findIndex(({ status }) => status === 204);
}

describe.each(databases)('three nodes on one %s', async (_, database) => {
  const first = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  const { databaseUrl } = first.config;
  const nodes = [first, await openTestServer(databaseUrl), await openTestServer(databaseUrl)];
  const { key } = await first.tenant();

  const at = (index: number) => nodes[index % nodes.length] as TestServer;
  const ask = (node: TestServer, ...request: Parameters<TestServer['call']>) => node.call(...request);
  const me = async (node: TestServer, as: string) =>
    (await ask(node, 'GET', '/applications/key', { key: as })).status;
  const everywhere = (as: string) => Promise.all(nodes.map((node) => me(node, as)));
  const begin = async (web: ApiResponse['body']) =>
    (await ask(at(0), 'POST', '/sessions', { key: web.key })).body;

  test('exactly one of fifty concurrent authorizations of a nonce succeeds', async () => {
    const web = await at(0).application(key, { type: 'public' });
    for (let round = 0; round < 4; round++) {
      const { nonce, session_key } = await begin(web);
      const grants = [['application:read'], ['token:read']];
      const answers = await Promise.all(
        times(50, (index) =>
          ask(at(index), 'POST', '/sessions/authorize', {
            key,
            body: { nonce, permissions: grants[index % 2] },
          }),
        ),
      );
      const may = expectOnce(answers, 409) % 2 === 0 ? 200 : 403;
      expect(await everywhere(session_key)).toEqual([may, may, may]);
    }
  });

  test('fifty nonces, each authorized on all nodes concurrently, work once each', async () => {
    const web = await at(0).application(key, { type: 'public' });
    const sessions = await Promise.all(times(17, () => begin(web)));
    const authorize = (node: TestServer, nonce: string) =>
      ask(node, 'POST', '/sessions/authorize', { key, body: { nonce, ...reading } });
    const answers = await Promise.all(
      sessions.map(({ nonce }) => Promise.all(nodes.map((node) => authorize(node, nonce)))),
    );
    expect(answers).toHaveLength(17);
    for (const ofOne of answers) expectOnce(ofOne, 409);
  });

  test('a change on one node applies on every node to requests sent after its response', async () => {
    for (let round = 0; round < 6; round++) {
      const [here, there] = [at(round), at(round + 1)];
      const created = await here.application(key, reading);
      expect(await everywhere(created.key)).toEqual([200, 200, 200]);
      const path = `/applications/${created.id}`;
      await ask(there, 'PUT', path, { key, body: { name: 'x', permissions: ['token:read'] } });
      expect(await everywhere(created.key)).toEqual([403, 403, 403]);
      await ask(here, 'PUT', path, { key, body: { name: 'x', ...reading } });
      expect(await everywhere(created.key)).toEqual([200, 200, 200]);
      const { body } = await ask(there, 'POST', `${path}/regenerate`, { key });
      expect(await everywhere(created.key)).toEqual([401, 401, 401]);
      expect(await everywhere(body.key)).toEqual([200, 200, 200]);
      await ask(here, 'DELETE', path, { key });
      expect(await everywhere(body.key)).toEqual([401, 401, 401]);
    }
  });

  test('authorizing and ending a session applies on every node immediately', async () => {
    const backend = await at(1).application(key, reading);
    const web = await at(2).application(key, { type: 'public' });
    const { nonce, session_key } = await begin(web);
    expect(await everywhere(session_key)).toEqual([403, 403, 403]);
    await ask(at(1), 'POST', '/sessions/authorize', { key: backend.key, body: { nonce, ...reading } });
    expect(await everywhere(session_key)).toEqual([200, 200, 200]);
    await ask(at(2), 'DELETE', `/applications/${backend.id}`, { key });
    expect(await everywhere(session_key)).toEqual([401, 401, 401]);
  });

  test('concurrent updates on all nodes are serialized', async () => {
    const created = await at(0).application(key);
    const answers = await Promise.all(
      times(30, (index) =>
        ask(at(index), 'PUT', `/applications/${created.id}`, {
          key,
          body: { name: `n${index}`, permissions: [`mine:n${index}`] },
        }),
      ),
    );
    expect(countOf(answers, 200)).toBe(30);
    for (const { body } of answers) expect(body.permissions).toEqual([`mine:${body.name}`]);
    const seen = await Promise.all(
      nodes.map((node) => ask(node, 'GET', `/applications/${created.id}`, { key })),
    );
    expect(new Set(seen.map(({ body }) => body.name)).size).toBe(1);
    expect(seen[0]?.body.permissions).toEqual([`mine:${seen[0]?.body.name}`]);
  });

  test('exactly one of thirty concurrent changes with the same If-Match succeeds', async () => {
    const { id } = await at(0).application(key);
    const { id: token } = (await ask(at(0), 'POST', '/tokens', { key, body: { data: 'x' } })).body;
    for (let round = 0; round < 4; round++) {
      for (const [method, path, bodyOf] of [
        ['PUT', `/applications/${id}`, (name: string) => ({ name, permissions: ['mine:x'] })],
        ['PATCH', `/tokens/${token}`, (type: string) => ({ type })],
      ] as const) {
        const headers = {
          'If-Match': (await ask(at(round), 'GET', path, { key })).headers.get('etag') ?? '',
        };
        const answers = await Promise.all(
          times(30, (index) => ask(at(index), method, path, { key, body: bodyOf(`n${index}`), headers })),
        );
        expect([countOf(answers, 200), countOf(answers, 412)]).toEqual([1, 29]);
        const stored = await ask(at(round + 1), 'GET', path, { key });
        expect(stored.body).toEqual(answers.find(({ status }) => status === 200)?.body);
      }
    }
  });

  test('exactly one of several concurrent deletions succeeds', async () => {
    const created = await at(0).application(key);
    const answers = await Promise.all(
      times(30, (index) => ask(at(index), 'DELETE', `/applications/${created.id}`, { key })),
    );
    expectOnce(answers, 404);
  });

  test('a session created while its application is deleted never works afterwards', async () => {
    const web = await at(0).application(key, { type: 'public' });
    const [waiting] = [await begin(web)];
    const [deleted, authorized, ...started] = await Promise.all([
      ask(at(0), 'DELETE', `/applications/${web.id}`, { key }),
      ask(at(1), 'POST', '/sessions/authorize', { key, body: { nonce: waiting.nonce, ...reading } }),
      ...times(20, (index) => ask(at(index), 'POST', '/sessions', { key: web.key })),
    ]);
    expect(deleted?.status).toBe(204);
    expect([204, 404]).toContain(authorized?.status as number);
    for (const { status, body } of started) {
      expect([201, 401]).toContain(status);
      if (status === 201) expect(await everywhere(body.session_key)).toEqual([401, 401, 401]);
    }
    expect(await everywhere(waiting.session_key)).toEqual([401, 401, 401]);
  });

  test('no request failed because of a deadlock', () => {
    const deadlock = /deadlock|serialize|locked/i;
    const failures = nodes.flatMap(({ logged }) => logged).filter((line) => deadlock.test(line));
    expect(failures).toEqual([]);
  });
});
