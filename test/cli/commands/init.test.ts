import { beforeEach, describe, expect, test } from 'bun:test';
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { projectVariables } from '../../../src/cli/commands/init.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { keyPattern } from '../../support/program.ts';
import { type ShellOptions, shell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
let folder: string;
let file: string;
let key: string;
beforeEach(async () => {
  folder = temporaryFolder();
  file = join(folder, 'shop.env');
  ({ key } = await server.tenant());
});

function init(options: string[], { env, ...rest }: ShellOptions = {}) {
  return shell(['init', '--keys-to', file, ...options], {
    ...rest,
    env: { SALLYPORT_URL: server.url, SALLYPORT_KEY: key, ...env },
  });
}

const count = async () => (await server.call('GET', '/applications', { key })).body.pagination.total_items;

test('without a terminal it does not ask, and the keys have exactly the described access', async () => {
  const { code, out, err } = await init(['--name', 'My Shop!']);
  expect([code, err]).toEqual([0, '']);
  expect(out).not.toMatch(keyPattern);
  expect(out).toContain('/my-shop/');
  expect(out).toContain(`set -a; . ${file}; set +a`);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const env = parseEnv(readFileSync(file, 'utf8')) as Record<(typeof projectVariables)[number], string>;
  expect(Object.keys(env)).toEqual([...projectVariables]);
  expect(env.SALLYPORT_URL).toBe(server.url);
  const [backend, page] = [env.SALLYPORT_KEY, env.SALLYPORT_PUBLIC_KEY];

  const card = { id: 'card-1', data: '4242424242424242', mask: '{{ data | reveal_last: 4 }}' };
  const inside = { ...card, container: '/my-shop/42/' };
  expect((await server.call('POST', '/tokens', { key: page, body: inside })).status).toBe(201);
  expect((await server.call('GET', '/tokens/card-1', { key: page })).status).toBe(403);
  const outside = { ...card, id: 'card-2', container: '/other/' };
  for (const one of [page, backend])
    expect((await server.call('POST', '/tokens', { key: one, body: outside })).status).toBe(403);
  expect((await server.call('GET', '/tokens/card-1', { key: backend })).body.data).toBe(card.data);
  expect((await server.call('GET', '/applications', { key: backend })).status).toBe(403);

  const { body: session } = await server.call('POST', '/sessions', { key: page });
  const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/my-shop/42/' }];
  const rules = [{ priority: 1, transform: 'mask', permissions: ['token:read'], conditions }];
  const grant = { nonce: session.nonce, rules };
  expect((await server.call('POST', '/sessions/authorize', { key: backend, body: grant })).status).toBe(204);
  const seen = await server.call('GET', '/tokens/card-1', { key: session.session_key });
  expect(seen.body.data).toBe('XXXXXXXXXXXX4242');
});

test('on a terminal it asks for the name and for confirmation', async () => {
  const no = await init([], { answers: ['toys', 'n'] });
  expect(no.code).toBe(1);
  expect(no.err).toContain('Project name [');
  expect(no.err).toContain('"toys backend" (private) and "toys browser" (public)');
  expect([existsSync(file), await count()]).toEqual([false, 1]);
  expect((await init([], { answers: ['toys', 'y'] })).code).toBe(0);
  expect([existsSync(file), await count()]).toEqual([true, 3]);
});

describe('an existing file', () => {
  const before = '# ours\nPORT=3000\nexport SALLYPORT_KEY = "old" # replaced\nNOTE="two\nlines"';

  test('changes only the variables of the project', async () => {
    writeFileSync(file, before, { mode: 0o644 });
    const { code, err } = await init(['--name', 'shop'], { answers: ['y'] });
    expect(code).toBe(0);
    expect(err).toContain(`${file} exists. The values of SALLYPORT_KEY in it are replaced.`);
    const lines = readFileSync(file, 'utf8').split('\n');
    const secret = lines[2]?.replace('export SALLYPORT_KEY = ', '') as string;
    expect(lines).toEqual([
      '# ours',
      'PORT=3000',
      `export SALLYPORT_KEY = ${secret}`,
      'NOTE="two',
      'lines"',
      `SALLYPORT_URL=${server.url}`,
      '# Public: for the web page.',
      expect.stringMatching(/^SALLYPORT_PUBLIC_KEY=slp_pub_/),
      '',
    ]);
    expect((await server.call('GET', '/tokens', { key: secret })).status).toBe(200);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test('preserves line ends of Windows and the target of a link', async () => {
    const target = join(folder, 'real.env');
    writeFileSync(target, 'PORT=3000\r\n');
    symlinkSync(target, file);
    expect((await init(['--name', 'shop', '--yes'])).code).toBe(0);
    expect(readFileSync(target, 'utf8')).toMatch(/^PORT=3000\r\nSALLYPORT_URL=\S+\r\n# Secret/);
    expect(lstatSync(file).isSymbolicLink()).toBe(true);
    expect(readdirSync(folder).toSorted()).toEqual(['real.env', 'shop.env']);
  });

  test.each([
    ['without confirmation', before, { answers: ['n'] }, 1, 'Cancelled'],
    ['without a terminal and without --yes', before, {}, 2, 'pass --yes'],
    [
      'if a value has a line like a variable',
      'A="\nSALLYPORT_KEY=x\n"\nSALLYPORT_KEY=y',
      {},
      2,
      'cannot add',
    ],
  ])('is not changed %s', async (_, text, options, code, message) => {
    writeFileSync(file, text);
    const result = await init(['--name', 'shop'], options);
    expect([result.code, result.err]).toEqual([code, expect.stringContaining(message)]);
    expect([readFileSync(file, 'utf8'), await count()]).toEqual([text, 1]);
  });

  test('is not changed if an application cannot be created', async () => {
    writeFileSync(file, before);
    expect((await init(['--yes', '--name', 'x'.repeat(193)])).code).toBe(4);
    expect([readFileSync(file, 'utf8'), await count()]).toEqual([before, 1]);
    expect(readdirSync(folder)).toEqual(['shop.env']);
  });
});

describe('no file and no application remains', () => {
  test('if an application of this name exists', async () => {
    await server.application(key, { name: 'shop browser' });
    const { code, err } = await init(['--name', 'shop']);
    expect([code, err]).toEqual([2, expect.stringContaining('"shop browser" already exists')]);
    expect([existsSync(file), await count()]).toEqual([false, 2]);
  });

  test('if the second application cannot be created', async () => {
    const long = 'x'.repeat(192);
    await server.application(key, { name: 'taken' });
    expect((await init(['--name', `${long}y`])).code).toBe(4);
    expect([existsSync(file), await count()]).toEqual([false, 2]);
  });

  test('if the key cannot create applications', async () => {
    const { key: weak } = await server.application(key, { permissions: ['application:read'] });
    const { code, err } = await init(['--name', 'shop'], { env: { SALLYPORT_KEY: weak } });
    expect([code, err]).toEqual([4, expect.stringContaining('application:create')]);
    expect(existsSync(file)).toBe(false);
  });
});

test('a project name without a letter or digit is rejected', async () => {
  const { code, err } = await init(['--name', '!!!']);
  expect([code, err]).toEqual([2, expect.stringContaining('no letter or digit')]);
});
