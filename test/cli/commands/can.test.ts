import { describe, expect, test } from 'bun:test';
import { shell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
const { key } = await server.tenant();
const shop = await server.application(key, {
  name: 'shop',
  permissions: ['token:create'],
  rules: [
    {
      priority: 2,
      container: '/shop/',
      transform: 'mask',
      permissions: ['token:read'],
      description: 'ours',
    },
    { priority: 1, container: '/shop/open/', transform: 'reveal', permissions: ['token:read'] },
  ],
});
const credential = shop.key;

function can(argv: string[], stdin = credential, env: Record<string, string> = {}) {
  return shell(['can', ...argv], { stdin, env: { SALLYPORT_URL: server.url, SALLYPORT_KEY: key, ...env } });
}

test('an allowed request exits with 0 and prints the outcome of every rule', async () => {
  const { code, out, err } = await can(['token:read', '--container', '/shop/cards/']);
  expect([code, err]).toEqual([0, '']);
  expect(out).toBe(
    [
      'allowed, as mask: rule 1 grants token:read with the transform mask: container /shop/cards/ is in /shop/',
      '  ours',
      '',
      '  ✗  rule 2 of the application       priority 1       reveal  container /shop/cards/ is not in /shop/open/',
      '  ✓  rule 1 of the application       priority 2       mask    container /shop/cards/ is in /shop/ (decides)',
      '  ✗  permissions of the application  lowest priority  mask    does not grant token:read',
      '',
    ].join('\n'),
  );
});

test('a token with max_uses is at most masked, for a key and for an application', async () => {
  const container = '/shop/open/';
  const code = { id: 'code-1', container, data: '123', max_uses: 1 };
  expect((await server.call('POST', '/tokens', { key, body: code })).status).toBe(201);
  for (const asked of [[], ['--app', 'shop']])
    for (const [id, transform] of [
      ['code-1', 'mask'],
      ['code-2', 'reveal'],
    ] as const) {
      const { out } = await can(['token:read', '--container', container, '--id', id, ...asked]);
      expect(out).toStartWith(`allowed, as ${transform}: rule 2 grants token:read`);
    }
});

test('a denied request exits with 5 and prints the reason', async () => {
  const { code, out } = await can(['token:delete', '--container', '/shop/']);
  expect(code).toBe(5);
  expect(out).toStartWith('denied: rule 1 matches but grants token:read, not token:delete\n');
  expect(out).not.toContain('✓');
});

test('the credential can come from the environment and is not printed', async () => {
  const { code, out, err } = await can(['token:create'], '', { SALLYPORT_CREDENTIAL: credential });
  expect(code).toBe(0);
  expect(out + err).not.toContain(credential);
});

test('an invalid credential is denied without details', async () => {
  expect(await can(['token:create'], 'nonsense')).toEqual({
    code: 5,
    out: 'denied: the credential is not valid\n',
    err: '',
  });
});

test('--json prints the decision', async () => {
  const { code, out } = await can(['token:read', '--id', 'card-1', '--container', '/shop/open/', '--json']);
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({ allowed: true, transform: 'reveal', rule: { rule: 2 } });
});

test('an API error exits with 4, not with the code of a denial', async () => {
  expect((await can(['token:read'], credential, { SALLYPORT_KEY: credential })).code).toBe(4);
  expect((await can(['Not a permission'])).code).toBe(4);
});

describe('--app', () => {
  const questions = [
    ['token:read', '--container', '/shop/cards/'],
    ['token:read', '--container', 'shop/open'],
    ['token:read', '--container', '/other/'],
    ['token:create', '--container', '/other/', '--id', 'card-1'],
    ['token:read'],
    ['application:read'],
    ['invoice:read', '--id', '7'],
  ];
  test.each(questions)('answers %s %s %s as the service does, without a credential', async (...question) => {
    const words = question.filter((word) => word !== undefined);
    const byName = await can([...words, '--app', 'shop', '--json'], '');
    const byKey = await can([...words, '--json']);
    expect(JSON.parse(byName.out)).toEqual(JSON.parse(byKey.out));
    expect([byName.code, byName.err]).toEqual([byKey.code, '']);
  });

  test('knows about quarantine', async () => {
    const body = { name: 'careful', permissions: ['token:read', 'token:create'] };
    const { id, key: own } = await server.application(key, body);
    await server.call('POST', `/applications/${id}/quarantine`, { key });
    for (const permission of body.permissions) {
      const byName = await can([permission, '--app', 'careful', '--json'], '');
      const byKey = await can([permission, '--json'], own);
      expect([byName.code, JSON.parse(byName.out)]).toEqual([byKey.code, JSON.parse(byKey.out)]);
      expect(byName.out).toContain(permission === 'token:read' ? '"redact"' : 'in quarantine');
    }
  });

  test('needs application:read, but neither decision:create nor a credential', async () => {
    const reader = await server.application(key, { permissions: ['application:read'] });
    const allowed = await can(['token:create', '--app', 'shop'], '', { SALLYPORT_KEY: reader.key });
    expect(allowed.code).toBe(0);
    expect((await can(['token:create', '--app', 'shop'], '', { SALLYPORT_KEY: credential })).code).toBe(4);
  });

  test.each([
    [['Not a permission', '--app', 'shop'], 2, 'PERMISSION must be lower-case words'],
    [['token:copy', '--app', 'shop'], 2, 'PERMISSION is unknown: the token permissions are'],
    [['token:read', '--app', 'shop', '--container', '/a//b/'], 2, '--container must'],
    [['token:read', '--app', 'nothing'], 4, 'no application named "nothing"'],
  ])('%p is rejected', async (argv, code, message) => {
    const result = await can(argv, '');
    expect([result.code, result.out]).toEqual([code, '']);
    expect(result.err).toContain(message);
  });
});
