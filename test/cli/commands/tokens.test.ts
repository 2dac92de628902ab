import { beforeEach, describe, expect, test } from 'bun:test';
import { type ApiShell, apiShell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
let key: string;
let call: ApiShell['call'];
let json: ApiShell['json'];
beforeEach(async () => {
  ({ key } = await server.tenant());
  ({ call, json } = apiShell(server.url, key));
});

describe('a token', () => {
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

  test('is created from standard input, printed as the key may see it, updated and deleted', async () => {
    const created = await json([...card, '--container', '/a/', '--metadata', 'customer=42'], {
      stdin: '4242424242424242\n',
    });
    expect(created).toMatchObject({
      container: '/a/',
      data: 'XXXXXXXXXXXX4242',
      metadata: { customer: '42' },
    });
    expect(await json(['tokens', 'get', 'card-1'])).toEqual(created);
    const moved = await json(['tokens', 'update', 'card-1', '--container', '/b/']);
    expect(moved).toMatchObject({ container: '/b/', data: 'XXXXXXXXXXXX4242' });
    expect((await call(['tokens', 'update', 'card-1'])).code).toBe(2);
    expect((await call(['tokens', 'delete', 'card-1'], { answers: ['n'] })).code).toBe(1);
    expect(await json(['tokens', 'delete', 'card-1', '--yes'])).toEqual({ deleted: 'card-1' });
    expect((await call(['tokens', 'get', 'card-1'])).code).toBe(4);
  });

  test('stores JSON with --data-file and text with --text-file', async () => {
    const reveal = await server.application(key, {
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

  test('is found by a value from standard input', async () => {
    const search = { pan: '{{ data.number }}' };
    for (const [id, container] of [
      ['one', '/a/'],
      ['two', '/b/'],
    ])
      await server.call('POST', '/tokens', {
        key,
        body: { id, container, data: { number: '4242' }, search },
      });
    const found = async (...argv: string[]) =>
      (await json(['tokens', 'search', 'pan', ...argv], { stdin: '4242\n' })).map(
        ({ id }: { id: string }) => id,
      );
    expect([await found(), await found('--container', '/a/'), await found('--type', 'card')]).toEqual([
      ['two', 'one'],
      ['one'],
      [],
    ]);
    expect((await call(['tokens', 'search', 'pan', '4242'])).code).toBe(2);
  });

  test('is listed by container and metadata', async () => {
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
    const limit = ['--id', 'code', '--text-file', '-', '--max-uses', '3'];
    expect(await json(['tokens', 'create', ...limit], { stdin: '123' })).toMatchObject({
      max_uses: 3,
      uses: 0,
    });
    expect((await call(['tokens', 'get', 'code'])).out).toMatch(/^uses +0 of 3$/m);
    const limited = ['--id', 'limited', '--text-file', '-', '--expires-at', '2027-01-01T00:00:00Z'];
    await json(['tokens', 'create', ...limited], { stdin: '1' });
    expect(await ids('--expires-before', '2027-01-01T00:00:01Z')).toEqual(['limited']);
    const { created_by } = await json(['tokens', 'get', 'limited']);
    expect(await ids('--created-by', created_by, '--metadata', 'who=1')).toEqual(['one']);
    expect(await ids('--created-by', '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d')).toEqual([]);
    const { out } = await call(['tokens', 'list']);
    expect(out).toMatch(/^two +token +\/a\/b\/ +who=2 +unlimited /m);
    expect(out).toMatch(/^code +token +\/general\/ +0 of 3 /m);
  });
});
