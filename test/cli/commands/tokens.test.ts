import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { type Surroundings, shell } from '../../support/shell.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

let world: TestServer;
let key: string;
beforeAll(async () => {
  world = await openTestServer(sqlite);
});
afterAll(() => world.close());
beforeEach(async () => {
  ({ key } = await world.tenant());
});

function call(argv: string[], { env, ...rest }: Surroundings = {}) {
  return shell(argv, { env: { SALLYPORT_URL: world.url, SALLYPORT_KEY: key, ...env }, ...rest });
}

async function json(argv: string[], surroundings?: Surroundings) {
  const { code, out, err } = await call([...argv, '--json'], surroundings);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return JSON.parse(out);
}

describe('a Token', () => {
  const card = [
    'tokens',
    'create',
    '--id',
    'card-1',
    '--text-file',
    '-',
    '--mask',
    '{{ data | reveal_last: 4 }}',
  ];

  test('is kept from standard input, shown as the key may see it, changed and deleted', async () => {
    const made = await json([...card, '--container', '/a/', '--metadata', 'customer=42'], {
      stdin: '4242424242424242\n',
    });
    expect(made).toMatchObject({ container: '/a/', data: 'XXXXXXXXXXXX4242', metadata: { customer: '42' } });
    expect(await json(['tokens', 'get', 'card-1'])).toEqual(made);
    const moved = await json(['tokens', 'update', 'card-1', '--container', '/b/']);
    expect(moved).toMatchObject({ container: '/b/', data: 'XXXXXXXXXXXX4242' });
    expect((await call(['tokens', 'update', 'card-1'])).code).toBe(2);
    expect((await call(['tokens', 'delete', 'card-1'], { person: ['n'] })).code).toBe(1);
    expect(await json(['tokens', 'delete', 'card-1', '--yes'])).toEqual({ deleted: 'card-1' });
    expect((await call(['tokens', 'get', 'card-1'])).code).toBe(4);
  });

  test('keeps JSON as JSON and text as text', async () => {
    const reveal = await world.application(key, {
      permissions: [],
      rules: [
        { priority: 1, container: '/', transform: 'reveal', permissions: ['token:create', 'token:read'] },
      ],
    });
    const env = { SALLYPORT_KEY: reveal.key };
    const number = await json(['tokens', 'create', '--data-file', '-'], { stdin: '{"a": [1, null]}', env });
    expect(number.data).toEqual({ a: [1, null] });
    const text = await json(['tokens', 'create', '--text-file', '-'], { stdin: '0042\n\n', env });
    expect(text.data).toBe('0042\n');
    const both = await call(['tokens', 'create', '--text-file', '-', '--data-file', '-'], { env });
    expect([both.code, both.err]).toEqual([2, expect.stringContaining('cannot both be given')]);
  });

  test('is found by its container and its metadata', async () => {
    for (const [id, container, who] of [
      ['one', '/a/', '1'],
      ['two', '/a/b/', '2'],
      ['three', '/c/', '2'],
    ] as const)
      await json([
        'tokens',
        'create',
        '--id',
        id,
        '--text-file',
        '-',
        '--container',
        container,
        '--metadata',
        `who=${who}`,
      ]);
    const ids = async (...argv: string[]) =>
      (await json(['tokens', 'list', ...argv])).map(({ id }: { id: string }) => id);
    expect(await ids('--container', '/a/')).toEqual(['two', 'one']);
    expect(await ids('--metadata', 'who=2')).toEqual(['three', 'two']);
    expect(await ids('--metadata', 'who=2', '--container', '/c/')).toEqual(['three']);
    expect((await call(['tokens', 'list', '--metadata', 'who'])).err).toContain('must be NAME=VALUE');
    expect((await call(['tokens', 'list'])).out).toMatch(/^two +token +\/a\/b\/ +who=2 /m);
  });
});

describe('a Session', () => {
  async function opened() {
    const web = await world.application(key, { type: 'public', permissions: ['token:create'] });
    return json(['sessions', 'create'], { env: { SALLYPORT_KEY: web.key } });
  }

  test('is created with a public key, and authorized with the nonce from the environment', async () => {
    const session = await opened();
    expect(Object.keys(session)).toEqual(['session_key', 'nonce', 'expires_at']);
    const env = { SALLYPORT_NONCE: session.nonce };
    const done = await call(['sessions', 'authorize', '--permission', 'token:read'], { env });
    expect(done).toEqual({ code: 0, out: 'authorized\n', err: '' });
    expect((await world.call('GET', '/tokens', { key: session.session_key })).status).toBe(200);
    const again = await call(['sessions', 'authorize', '--permission', 'token:read'], { env });
    expect([again.code, again.err]).toEqual([4, expect.stringContaining('nonce_used')]);
  });

  test('takes the nonce from standard input, or from the file with its rules', async () => {
    const [first, second] = [await opened(), await opened()];
    const piped = await json(['sessions', 'authorize', '--permission', 'token:read'], { stdin: first.nonce });
    expect(piped).toEqual({ authorized: true });
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/a/' }];
    const rule = { priority: 1, transform: 'mask', permissions: ['token:read'], conditions };
    const stdin = JSON.stringify({ nonce: second.nonce, rules: [rule] });
    expect((await call(['sessions', 'authorize', '--file', '-'], { stdin })).code).toBe(0);
    expect((await world.call('GET', '/tokens', { key: second.session_key })).status).toBe(200);
  });

  test('is asked for its nonce when there is none', async () => {
    const { code, err } = await call(['sessions', 'authorize', '--permission', 'token:read'], { person: [] });
    expect([code, err]).toEqual([2, expect.stringContaining('no nonce: set SALLYPORT_NONCE, or pipe it in')]);
    expect((await call(['sessions', 'authorize'])).err).toContain('the nonce on standard input is empty');
  });
});
