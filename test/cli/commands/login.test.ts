/** `login`, `logout`, and the use of profiles. */

import { beforeEach, expect, test } from 'bun:test';
import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/cleanup.ts';
import { unknownKey } from '../../support/keys.ts';
import { type ShellOptions, shell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
let home: string;
let file: string;
const key = (await server.tenant()).key;
const other = (
  await server.application(key, { name: 'other', permissions: ['application:read'], type: 'management' })
).key;
const weak = (await server.application(key, { name: 'weak', permissions: ['token:create'] })).key;
beforeEach(() => {
  home = temporaryFolder();
  file = join(home, '.config/sallyport/profiles.json');
  return () => rmSync(home, { recursive: true });
});

const call = (argv: string[], { env, ...rest }: ShellOptions = {}) =>
  shell(argv, { env: { HOME: home, ...env }, ...rest });
const login = (...argv: string[]) => call(['login', '--url', server.url, ...argv], { stdin: `${key}\n` });

test('login checks the key and stores it in a file that only its owner can read', async () => {
  const { code, out, err } = await login();
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toBe(`stored profile default for ${server.url}\n`);
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ default: { url: server.url, key } });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect((await call(['whoami'])).out).toContain('management');
});

test('login stores nothing if the service refuses the key or cannot be reached', async () => {
  const unknown = unknownKey('pvt').secret.reveal();
  const refused = await call(['login', '--url', server.url], { stdin: unknown });
  expect(refused).toMatchObject({ code: 4, out: '' });
  expect(refused.err).toStartWith(`sallyport: error: ${server.url}: `);
  const closed = await call(['login', '--url', 'http://127.0.0.1:1'], { stdin: key });
  expect(closed.code).toBe(3);
  expect(closed.err).toStartWith('sallyport: error: http://127.0.0.1:1: the service could not be reached');
  expect(statSync(file, { throwIfNoEntry: false })).toBeUndefined();
});

test('login asks on a terminal, and does not change the URL of a profile', async () => {
  const first = await call(['login', '--url', server.url, '--profile', 'eu'], { answers: [key] });
  expect(first.err).toBe(`Key for ${server.url} (not shown): `);
  expect((await call(['login', '--profile', 'eu'], { answers: [weak] })).code).toBe(0);
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ eu: { url: server.url, key: weak } });
  expect((await call(['login', '--profile', 'eu'], { answers: [] })).err).toContain('Cancelled.');
});

test('options come before the environment, the environment before SALLYPORT_PROFILE and the default', async () => {
  await login();
  await call(['login', '--url', server.url, '--profile', 'other'], { stdin: other });
  const nowhere = { SALLYPORT_URL: 'http://127.0.0.1:1', SALLYPORT_KEY: key };
  const isOther = async (argv: string[], env = {}) =>
    (await call(['whoami', ...argv], { env })).out.includes('other');
  expect(await isOther([])).toBe(false);
  expect(await isOther([], { SALLYPORT_PROFILE: 'other' })).toBe(true);
  expect(await isOther(['--profile', 'other'], nowhere)).toBe(true);
  const environment = await call(['whoami'], { env: { ...nowhere, SALLYPORT_PROFILE: 'other' } });
  expect(environment.err).toContain('http://127.0.0.1:1: the service could not be reached');
  const missing = await call(['whoami', '--profile', 'x']);
  expect([missing.code, missing.err]).toEqual([
    2,
    'sallyport: error: there is no profile "x"\nsallyport: hint: run `sallyport login --profile x`\n',
  ]);
});

test('the key of a profile is never sent to another URL', async () => {
  await login();
  const url = 'http://127.0.0.1:1';
  for (const [argv, env] of [
    [['--url', url], {}],
    [[], { SALLYPORT_URL: url }],
  ] as const)
    expect((await call(['whoami', ...argv], { env })).err).toContain('no key was given');
  const both = await call(['whoami', '--profile', 'default', '--url', url]);
  expect(both.err).toContain('--profile cannot be combined with --url');
});

test('a file of profiles that others can read, or that is damaged, is not used', async () => {
  await login();
  chmodSync(file, 0o640);
  expect((await call(['whoami'])).err).toContain('is readable by other users');
  writeFileSync(file, '{"default": 1}');
  chmodSync(file, 0o600);
  expect((await call(['whoami'])).err).toContain('is not a file of profiles');
});

test('logout removes a profile', async () => {
  await login();
  expect((await call(['logout'])).out).toBe('removed profile default; its key is still valid\n');
  expect(readFileSync(file, 'utf8')).toBe('{}\n');
  expect((await call(['logout'])).err).toContain('there is no profile "default"');
  expect((await call(['whoami'])).err).toContain('no key was given');
});
