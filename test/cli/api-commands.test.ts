/** Behaviour that all API commands share, and help. */

import { describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { nameOf } from '../../src/cli/command.ts';
import { allCommands } from '../../src/cli/commands.ts';
import { parseAndRun } from '../../src/cli/program.ts';
import { newId } from '../../src/domain/key.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { unknownKey } from '../support/keys.ts';
import { apiShell, type ShellOptions, shell } from '../support/shell.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

const commands = await allCommands();
const server = await openTestServer(sqlite);
const folder = temporaryFolder();
const { key } = await server.tenant();
const { call } = apiShell(server.url, key);
writeFileSync(join(folder, 'key'), `${key}\n`);

describe('the key', () => {
  const none = { SALLYPORT_KEY: '' };
  const sources: [string, () => [string[], ShellOptions]][] = [
    ['the environment', () => [['whoami'], {}]],
    ['a file', () => [['whoami', '--key-file', join(folder, 'key')], { env: none }]],
    ['standard input', () => [['whoami', '--key-stdin'], { env: none, stdin: `${key}\n` }]],
    [
      'a file, which overrides the environment',
      () => [['whoami', '--key-file', join(folder, 'key')], { env: { SALLYPORT_KEY: 'nonsense' } }],
    ],
  ];
  test.each(sources)('comes from %s', async (_, source) => {
    const { code, out } = await call(...source());
    expect(code).toBe(0);
    expect(out).toContain('management');
    expect(out).not.toContain(key);
  });

  const secret = unknownKey('pvt').secret.reveal();
  test.each([
    [['whoami', '--key', secret]],
    [['whoami', `--key=${secret}`]],
    [['apps', 'get', secret]],
    [['tokens', 'create', '--metadata', `key=${secret}`]],
    [[secret]],
    [['can', 'token:read', '--credential', 'x']],
    [['sessions', 'authorize', '--nonce', 'x']],
  ])('is rejected as an argument', async (argv) => {
    const { code, out, err } = await call(argv);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain('cannot be arguments');
    expect(err).not.toContain(secret);
  });

  test('is required, and the error says how to pass it', async () => {
    const { code, err } = await call(['apps', 'list'], { env: none });
    expect(code).toBe(2);
    expect(err).toBe(
      'sallyport: error: no key was given\nsallyport: hint: run `sallyport login`, pass --key-file FILE or --key-stdin, or set SALLYPORT_KEY\n',
    );
  });

  test.each([
    ['SALLYPORT_KEY', { SALLYPORT_KEY: 'one two' }],
    ['SALLYPORT_KEY', { SALLYPORT_KEY: 'bad\u00e9key' }],
    ['SALLYPORT_KEY', { SALLYPORT_KEY: 'a\r\nX-Injected: 1' }],
  ])('with invalid characters is rejected without being repeated', async (named, env) => {
    const { code, err } = await call(['whoami'], { env });
    expect(code).toBe(2);
    expect(err).toContain(named);
    expect(err).not.toContain(env.SALLYPORT_KEY);
  });
});

test.each([['nonsense'], ['ftp://127.0.0.1'], ['http://user:pass@127.0.0.1'], ['http://127.0.0.1/?a=b']])(
  '%p is rejected as the URL of the service',
  async (url) => {
    const { code, err } = await call(['whoami'], { env: { SALLYPORT_URL: url } });
    expect(code).toBe(2);
    expect(err).toStartWith('sallyport: error: SALLYPORT_URL must be');
    expect((await call(['whoami', '--url', url])).err).toStartWith('sallyport: error: --url must be');
  },
);

test('an empty --url is rejected by its name', async () => {
  expect((await call(['whoami', '--url', ''])).err).toStartWith('sallyport: error: --url must be');
});

describe('exit codes:', () => {
  test('3 if the service is unreachable', async () => {
    const closed = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => {} } });
    const url = `http://127.0.0.1:${closed.port}`;
    closed.stop(true);
    const { code, out, err } = await call(['whoami', '--url', url]);
    expect([code, out]).toEqual([3, '']);
    expect(err).toStartWith(`sallyport: error: ${url}: the service could not be reached (ECONNREFUSED: `);
    expect(err).toContain('\nsallyport: hint: check that the service runs');
    const encrypted = await call(['whoami', '--url', server.url.replace('http:', 'https:')]);
    expect(encrypted.code).toBe(3);
    expect(encrypted.err).toContain('TLS handshake');
  });

  test('4 if the service rejects the request; the error has its code and request id', async () => {
    const { code, err } = await call(['tokens', 'get', 'nothing']);
    expect(code).toBe(4);
    expect(err).toMatch(
      /^sallyport: error: No resource has this id\. It may have been deleted or have expired\. \(not_found, request \S+\)\n$/,
    );
    const key = unknownKey('pvt').secret.reveal();
    const refused = await call(['whoami'], { env: { SALLYPORT_KEY: key } });
    expect(refused.code).toBe(4);
    expect(refused.err).toContain('unauthenticated');
    expect(refused.err).toContain('sallyport: hint: the key is unknown');
  });

  test.each([
    ['a token', ['tokens', 'get', 'nothing']],
    ['an application by id', ['apps', 'get', newId(0)]],
    ['an application by name', ['apps', 'delete', 'nothing', '--yes']],
    ['an application in a filter', ['sessions', 'list', '--app', 'nothing']],
  ])('4 if %s does not exist', async (_, argv) => {
    const { code, out, err } = await call(argv);
    expect([code, out]).toEqual([4, '']);
    expect(err).toMatch(
      /^sallyport: error: (No resource has this id|[Tt]here is no|no application named).* \(not_found.*\)$/m,
    );
  });

  test('4 if the input is invalid; one error line per field', async () => {
    const { code, err } = await call([
      'apps',
      'create',
      '--name',
      'a\nb',
      '--type',
      'public',
      '--permission',
      'token',
    ]);
    expect(code).toBe(4);
    const lines = err.trimEnd().split('\n');
    expect(lines.length).toBeGreaterThan(1);
    for (const line of lines)
      expect(line).toMatch(/^sallyport: error: (--name|--permission \(permissions\.0\)) must /);
  });

  test('with --json, errors are one JSON object on standard error', async () => {
    const errorOf = async (...argv: string[]) => {
      const { code, out, err } = await call([...argv, '--json']);
      const { exit_code, ...error } = JSON.parse(err);
      expect([code, out]).toEqual([exit_code, '']);
      return error;
    };
    expect(await errorOf('tokens', 'get', 'nothing')).toMatchObject({
      errors: [expect.stringContaining('No resource has this id')],
      problem: { code: 'not_found', status: 404 },
    });
    expect(await errorOf('apps', 'list', '--nothing\u009b')).toEqual({
      errors: ["apps list: unknown option '--nothing\u009b'"],
      hint: 'run `sallyport apps list --help`',
    });
  });
});

describe('2 and one error line, without a stack trace, if the SDK refuses', () => {
  const refused: [string, string[], Record<string, string>, string][] = [
    ['an empty id', ['tokens', 'get', ''], {}, '`id` must be a non-empty string'],
    ['the id .', ['sessions', 'end', '.', '--yes'], {}, '`id` must be a non-empty string'],
    [
      'more filters than fit into a URL',
      ['tokens', 'list', ...Array.from({ length: 600 }, () => ['--id', newId(0)]).flat()],
      {},
      'the URL and headers are too long',
    ],
    [
      'a very long key',
      ['whoami'],
      { SALLYPORT_KEY: 'x'.repeat(200_000) },
      'the URL and headers are too long',
    ],
    [
      'a job of GitHub Actions without its permission',
      ['whoami'],
      { SALLYPORT_KEY: '', SALLYPORT_CLIENT_ID: 'x.y', ACTIONS_ID_TOKEN_REQUEST_URL: 'http://127.0.0.1:1/' },
      'this is not a job of GitHub Actions',
    ],
  ];
  test.each(refused)('%s', async (_, argv, env, message) => {
    const { code, out, err } = await call(argv, { env });
    expect([code, out]).toEqual([2, '']);
    expect(err).toStartWith(`sallyport: error: ${message}`);
    expect(err.trimEnd().split('\n')).toHaveLength(1);
  });
});

describe('colors', () => {
  const colored = async (options: ShellOptions) =>
    (await call(['apps', 'list'], options)).out.includes('\x1b[');
  test('are printed on a terminal only', async () => {
    expect(await colored({ answers: [] })).toBe(true);
    expect(await colored({})).toBe(false);
  });
  test('are turned off by NO_COLOR and TERM=dumb', async () => {
    expect(await colored({ answers: [], env: { NO_COLOR: '1' } })).toBe(false);
    expect(await colored({ answers: [], env: { NO_COLOR: '' } })).toBe(true);
    expect(await colored({ answers: [], env: { TERM: 'dumb' } })).toBe(false);
  });
});

test('control characters in token data are escaped', async () => {
  const everything = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }];
  const reader = await server.application(key, { permissions: [], rules: everything });
  const controls = ['\x1b', '\x9b', '\u202e'];
  await server.call('POST', '/tokens', { key, body: { id: 'trick', data: `${controls.join('[2J')}hidden` } });
  const { out } = await call(['tokens', 'get', 'trick'], { env: { SALLYPORT_KEY: reader.key } });
  expect(out).toContain('hidden');
  expect(controls.filter((control) => out.includes(control))).toEqual([]);
});

test('--json prints nothing if a later page of a list fails', async () => {
  const { key } = await server.tenant();
  for (let count = 0; count < 101; count++) await server.application(key, { name: `app ${count}` });
  let pages = 0;
  const failing = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      const { pathname, search } = new URL(request.url);
      const headers = { 'SVC-API-KEY': pages++ === 0 ? key : 'revoked meanwhile' };
      return fetch(server.url + pathname + search, { headers });
    },
  });
  const env = { SALLYPORT_URL: failing.url.href, SALLYPORT_KEY: key };
  for (const argv of [
    ['apps', 'list', '--limit', 'all', '--json'],
    ['apps', 'list', '--limit', 'all'],
  ]) {
    pages = 0;
    const { code, out, err } = await call(argv, { env });
    expect([code, out, pages]).toEqual([4, '', 2]);
    expect(err).toContain('unauthenticated');
  }
  await failing.stop(true);
});

test.each([
  ['key', ['whoami', '--key-stdin']],
  ['value', ['tokens', 'search', 'pan']],
])('a %s is not read from a terminal, which would show it', async (noun, argv) => {
  expect(await call(argv, { answers: [], stdin: key })).toEqual({
    code: 2,
    out: '',
    err: `sallyport: error: no ${noun} was given\nsallyport: hint: pipe the ${noun} to standard input\n`,
  });
});

test('JSON files can start with a byte order mark', async () => {
  const [body, data] = [join(folder, 'body.json'), join(folder, 'data.json')];
  writeFileSync(body, '\ufeff{"id": "marked"}');
  writeFileSync(data, '\ufeff"x"');
  expect(await call(['tokens', 'create', '--file', body, '--data-file', data])).toMatchObject({
    code: 0,
    err: '',
    out: expect.stringMatching(/^id +marked$/m),
  });
});

test('two options cannot both read standard input', async () => {
  const { code, err } = await call(['tokens', 'create', '--key-stdin', '--text-file', '-'], { stdin: key });
  expect(code).toBe(2);
  expect(err).toContain('--key-stdin and --text-file - cannot both read standard input');
});

describe('options', () => {
  test.each([
    [['apps', 'list', '--port', '80'], "unknown option '--port'"],
    [['apps', 'list', '--container', '/a/'], "unknown option '--container'"],
    [['apps', 'list', '--type', 'public', '--type', 'private'], '--type can be given only once'],
    [['tenants', 'list', '--url', 'http://127.0.0.1'], "unknown option '--url'"],
    [['apps', 'list', '--limit', '0'], '--limit must be'],
    [['apps', 'list', '--limit', 'many'], '--limit must be'],
    [['tokens', 'create', '--max-uses', '1x'], '--max-uses must be a whole number, not "1x"'],
    [['delegations', 'create', '--max-uses', '1O'], '--max-uses must be a whole number, not "1O"'],
    [['delegations', 'create', '--max-uses', ''], '--max-uses must be a whole number, not ""'],
    [['delegations', 'create', '--max-uses', '9'.repeat(400)], '--max-uses must be a whole number'],
    [['whoami', '--key-file', 'a', '--key-stdin'], 'cannot both be given'],
    [['whoami', '--key-file', '/nowhere/key'], '/nowhere/key: no such file'],
  ])('%p is rejected', async (argv, message) => {
    const { code, out, err } = await call(argv);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(message);
  });
});

test('a typo or a repeated option gets a pointer to the help of the command, and a typo a suggestion', async () => {
  const typos = [
    [['app', 'list'], "unknown command 'app' (Did you mean apps?)", 'sallyport --help'],
    [['apps', 'crate'], "apps: unknown command 'crate' (Did you mean create?)", 'sallyport apps --help'],
    [
      ['apps', 'list', '--nmae', 'x'],
      "apps list: unknown option '--nmae' (Did you mean --name?)",
      'sallyport apps list --help',
    ],
    [
      ['apps', 'list', '--type', 'public', '--type', 'private'],
      'apps list: --type can be given only once',
      'sallyport apps list --help',
    ],
  ] as const;
  for (const [argv, error, help] of typos) {
    expect(await call([...argv])).toEqual({
      code: 2,
      out: '',
      err: `sallyport: error: ${error}\nsallyport: hint: run \`${help}\`\n`,
    });
  }
});

test('a field of the API gets the option for it', async () => {
  const body = join(folder, 'fields.json');
  writeFileSync(body, '{"name": "x", "permissions": ["x"], "unknown": 1}');
  const cases: [string[], string][] = [
    [['tokens', 'create', '--data', '4242'], "unknown option '--data' (Did you mean --data-file?)"],
    [
      ['apps', 'create', '--permissions=token:read'],
      "unknown option '--permissions=token:read' (Did you mean --permission?)",
    ],
    [['apps', 'list', '--size', '1'], "unknown option '--size' (Did you mean --limit?)"],
    [['whoami', '--size', '1'], "unknown option '--size'\n"],
    [['--url', 'x', 'whoami'], '--url must follow the command'],
    [['tokens', 'create', '--type', 'x'], 'error: no data was given\nsallyport: hint: pass --text-file'],
    [['apps', 'create', '--name', 'x'], 'error: --type is required'],
    [
      ['apps', 'create', '--name', 'x', '--type', 'public', '--origin', 'x'],
      'error: --origin (allowed_origins.0) must be an origin',
    ],
    [['apps', 'create', '--type', 'private', '--file', body], 'error: permissions.0 must be'],
    [['apps', 'create', '--type', 'private', '--file', body], 'error: unknown (in --file) '],
  ];
  for (const [argv, message] of cases) expect((await call(argv)).err).toContain(message);
});

test('applications is the same as apps, also after a global option', async () => {
  const listed = await call(['--json', 'applications', 'list', '--name', 'applications']);
  expect(listed).toEqual({ code: 0, out: '[]\n', err: '' });
  expect((await call(['help', 'applications'])).out).toBe((await call(['apps', '--help'])).out);
});

test('a group without a command lists its commands', async () => {
  const { code, out, err } = await call(['apps']);
  expect([code, err]).toEqual([0, '']);
  const names = commands.map(nameOf).filter((name) => name.startsWith('apps '));
  for (const name of names) expect(out).toContain(name.slice('apps '.length));
  expect(out).not.toContain('tokens');
  expect((await call(['apps', '--help'])).out).toBe(out);
});

test('every command has an example, and every example parses', async () => {
  for (const { usage, examples = [] } of commands) {
    expect([usage, examples.length > 0]).toEqual([usage, true]);
    for (const example of examples) {
      const typed = /(?:^|\$\(| )sallyport (.*?)(?:\)"?| [<>] .*)?$/.exec(example)![1]!;
      const argv = typed.match(/"[^"]*"|\S+/g)!.map((word) => word.replaceAll('"', ''));
      const parsed: string[] = [];
      await parseAndRun(
        argv,
        () => {},
        async (command) => parsed.push(command.usage),
      );
      expect([example, parsed]).toEqual([example, [usage]]);
    }
  }
});

test('help shows only the options of the command; only `serve` lists the settings', async () => {
  for (const command of commands) {
    const { usage, options = [] } = command;
    const { code, out } = await shell([...nameOf(command).split(' '), '--help']);
    expect(code).toBe(0);
    const args = usage.match(/<\w+>/g) ?? [];
    for (const part of [...args, ...options.map(({ name }) => `--${name}`)]) expect(out).toContain(part);
    expect(out.includes('--key-stdin')).toBe('call' in command && !command.withoutKey);
    expect(out.includes('[env: DATABASE_URL')).toBe(usage === 'serve');
  }
});

test('health reports whether the service is ready', async () => {
  const { port } = new URL(server.url);
  const env = { HOST: '0.0.0.0', PORT: port };
  expect(await shell(['health'], { env })).toEqual({ code: 0, out: `${server.url} is ready\n`, err: '' });
  const unready = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => new Response('', { status: 503 }),
  });
  const result = await shell(['health', '--json'], { env: { PORT: String(unready.port) } });
  await unready.stop(true);
  expect(result.code).toBe(1);
  expect(JSON.parse(result.out)).toMatchObject({ ready: false });
});
