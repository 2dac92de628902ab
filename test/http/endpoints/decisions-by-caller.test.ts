/** Decisions reveal only what the caller may know, and responses have at most 4 MiB. */
import { describe, expect, test } from 'bun:test';
import { unknownKey } from '../../support/keys.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const [read, ask] = ['token:read', 'decision:create'];
const limited = 'this key is limited to what its authorizer may do now';

const server = await openTestServer(sqlite);
const management = (await server.tenant()).key;

async function session(authorizer: string, grants: object) {
  const web = await server.application(management, { type: 'public', permissions: [ask] });
  const { body } = await server.call('POST', '/sessions', { key: web.key });
  const given = { nonce: body.nonce, ...grants };
  const { status } = await server.call('POST', '/sessions/authorize', { key: authorizer, body: given });
  expect(status).toBe(204);
  return { key: body.session_key as string, web: web.key as string };
}

const decide = (key: string, body: object) => server.call('POST', '/decisions', { key, body });

describe('a limited session', () => {
  const rule = { priority: 1, transform: 'reveal', permissions: [read, 'token:create'] };
  const authorizers: [what: string, rules: object[]][] = [
    ['narrows it', [{ ...rule, container: '/shop/', transform: 'redact', description: 'hush-1' }]],
    ['sees another container', [{ ...rule, container: '/hush-2/' }]],
    ['sees a container above the one it asks about', [{ ...rule, container: '/' }]],
  ];

  test.each(authorizers)(
    'learns only that its authorizer limits it, if the authorizer %s',
    async (_, rules) => {
      const backend = await server.application(management, { permissions: [ask], rules });
      const { key, web } = await session(backend.key, { permissions: [ask, read, 'token:create'] });
      for (const asker of [key, web])
        for (const container of ['/shop/', '/shop/a/', '/hush-2/', '/other/'])
          for (const permission of [read, 'token:create', 'token:delete']) {
            const question = { credential: key, permission, resource: { container }, explain: true };
            const { status, body } = await decide(asker, question);
            expect(status).toBe(200);
            expect(JSON.stringify(body)).not.toMatch(/hush-1|authorizer(?! may do now)|rule \d/);
            expect(body.trace.map((step: object) => Object.values(step).slice(0, 2))).toEqual([
              ['session', 'permissions'],
            ]);
            if (body.reason !== limited) continue;
            const { principal: __, trace: ___, ...rest } = body;
            expect(Object.keys(rest)).toEqual(
              rest.allowed ? ['allowed', 'transform', 'reason'] : ['allowed', 'reason'],
            );
          }
      const { body } = await decide(backend.key, { credential: key, permission: read, explain: true });
      expect(body.trace.map(({ of }: { of: string }) => of)).toContain('authorizer');
    },
  );

  test('can check only its own key', async () => {
    const { key, web } = await session(management, { permissions: [ask, read] });
    const other = await session(management, { permissions: [ask] });
    expect((await decide(key, { credential: key, permission: read })).body.allowed).toBe(true);
    const answers = new Set<string>();
    for (const credential of [management, web, other.key, unknownKey('ses').secret.reveal(), 'junk', '']) {
      const { status, body } = await decide(key, { credential, permission: read });
      answers.add(`${status} ${body.code} ${body.detail}`);
    }
    expect([...answers]).toEqual([
      '403 permission_missing A session can use `decision:create` only to ask about its own key.',
    ]);
  });
});

test('a pending session is denied everything', async () => {
  const web = await server.application(management, { type: 'public' });
  const { body } = await server.call('POST', '/sessions', { key: web.key });
  const question = { credential: body.session_key, permission: read, resource: { container: '/shop/' } };
  expect((await decide(management, question)).body).toMatchObject({
    allowed: false,
    reason: 'this session has not been authorized yet',
    missing: { permission: read, container: '/shop/' },
  });
});

describe('the size of a response', () => {
  const id = 'é'.repeat(60);
  const conditions = Array.from({ length: 3 }, (_, at) => ({
    attribute: 'id',
    operator: 'equals',
    value: `${id}${at}`,
  }));
  /** 50 rules with three conditions each. No rule matches. */
  const rules = Array.from({ length: 50 }, (_, at) => ({
    priority: at + 1,
    transform: 'mask',
    permissions: [read],
    conditions,
    description: `${at}`,
  }));
  const resources = Array.from({ length: 100 }, () => ({ id: `${'é'.repeat(240)}x` }));

  test('more than 4 MiB of traces are rejected, and each half is accepted', async () => {
    const { key } = await session(management, { rules });
    const question = { credential: key, permission: read, explain: true };
    const { status, body } = await decide(management, { ...question, resources });
    expect([status, body.errors]).toEqual([
      400,
      { resources: ['have traces of more than 4 MiB: send fewer resources'] },
    ]);
    const few = await decide(management, { ...question, resources: resources.slice(0, 10) });
    expect(few.status).toBe(200);
    expect(few.body.decisions.map((one: { trace: object[] }) => one.trace.length)).toEqual(
      Array(10).fill(51),
    );
  });

  test('without traces, it is a small multiple of the request', async () => {
    const { key } = await session(management, { rules });
    const question = { credential: key, permission: read, resources };
    const { status, body } = await decide(management, question);
    expect([status, body.decisions.length]).toEqual([200, 100]);
    const [asked, answered] = [question, body].map((json) => Buffer.byteLength(JSON.stringify(json)));
    expect(answered).toBeLessThan(8 * (asked as number));
  });
});
