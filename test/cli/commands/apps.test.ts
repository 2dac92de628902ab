import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keyPattern } from '../../support/program.ts';
import { type Surroundings, shell } from '../../support/shell.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

let world: TestServer;
let folder: string;
let key: string;
beforeAll(async () => {
  world = await openTestServer(sqlite);
  folder = mkdtempSync(join(tmpdir(), 'sallyport-apps-'));
});
afterAll(async () => {
  await world.close();
  rmSync(folder, { recursive: true });
});
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

const works = async (candidate: string) =>
  (await world.call('GET', '/applications/key', { key: candidate })).status !== 401;

const shop = ['apps', 'create', '--name', 'shop', '--type', 'private', '--permission', 'token:read'];

test('an Application is created, found by id and by name, changed and deleted', async () => {
  const made = await json([...shop, '--permission', 'token:create']);
  expect(made).toMatchObject({ name: 'shop', type: 'private', permissions: ['token:read', 'token:create'] });
  expect(await works(made.key)).toBe(true);
  expect(await json(['apps', 'get', made.id])).toMatchObject({ id: made.id });
  expect(await json(['apps', 'get', 'shop'])).toMatchObject({ id: made.id });
  const changed = await json(['apps', 'update', 'shop', '--name', 'store']);
  expect(changed).toMatchObject({ name: 'store', permissions: ['token:read', 'token:create'] });
  expect(await json(['apps', 'delete', 'store', '--yes'])).toEqual({ deleted: made.id });
  expect(await works(made.key)).toBe(false);
});

test('rules come from a file or from standard input, and options beat what is in it', async () => {
  const rules = [{ priority: 1, container: '/shop/', transform: 'reveal', permissions: ['token:read'] }];
  const body = JSON.stringify({ name: 'in the file', type: 'private', rules });
  const path = join(folder, 'body.json');
  writeFileSync(path, body);
  expect(await json(['apps', 'create', '--file', path])).toMatchObject({ name: 'in the file', rules });
  const made = await json(['apps', 'create', '--file', '-', '--name', 'other'], { stdin: body });
  expect(made).toMatchObject({ name: 'other', rules });
  const more = await json(['apps', 'update', 'other', '--permission', 'token:create']);
  expect(more).toMatchObject({ rules, permissions: ['token:create'] });
  const { out } = await call(['apps', 'get', 'other']);
  expect(out).toContain('rule 1       priority 1: token:read in /shop/ as reveal');
});

test.each([
  ['{"name": }', 'is not valid JSON'],
  ['[]', 'must hold a JSON object'],
  ['{"data": {"number": 12345678901234567890}}', 'data.number is a number of more digits than can be kept'],
])('%p is no body', async (stdin, why) => {
  const { code, err } = await call(['tokens', 'create', '--file', '-'], { stdin });
  expect(code).toBe(2);
  expect(err).toContain(`--file -: ${why}`);
});

describe('a new key', () => {
  test('is shown once, by the command that made it', async () => {
    const made = await call(shop);
    expect(made.out).toMatch(new RegExp(`^key +${keyPattern.source} \\(shown this once\\)$`, 'm'));
    for (const argv of [
      ['apps', 'list'],
      ['apps', 'get', 'shop'],
      ['apps', 'update', 'shop', '--name', 'b'],
    ])
      expect((await call(argv)).out).not.toMatch(keyPattern);
  });

  test('goes to a file for its owner alone, and not to the screen', async () => {
    const path = join(folder, 'new.key');
    const made = await call([...shop, '--key-to', path]);
    expect(made.out + made.err).not.toMatch(keyPattern);
    expect(made.out).toContain(`written to ${path}`);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(await works(readFileSync(path, 'utf8').trim())).toBe(true);
    const again = await call(['apps', 'regenerate', 'shop', '--yes', '--key-to', path]);
    expect([again.code, again.err]).toEqual([2, expect.stringContaining('is there already')]);
    expect(await works(readFileSync(path, 'utf8').trim())).toBe(true);
  });

  test('that could not be made leaves no file', async () => {
    const path = join(folder, 'none.key');
    expect((await call(['apps', 'create', '--key-to', path])).code).toBe(4);
    expect(existsSync(path)).toBe(false);
  });
});

describe('what cannot be undone', () => {
  test('is asked of a person first', async () => {
    const made = await json(shop);
    const no = await call(['apps', 'delete', 'shop'], { person: ['no'] });
    expect(no.err).toStartWith(`Delete the private Application "shop" (${made.id})?`);
    expect(no.code).toBe(1);
    expect((await call(['apps', 'regenerate', 'shop'], { person: [] })).code).toBe(1);
    expect(await works(made.key)).toBe(true);
    expect((await call(['apps', 'regenerate', 'shop'], { person: ['y'] })).code).toBe(0);
    expect(await works(made.key)).toBe(false);
    expect((await call(['apps', 'delete', 'shop'], { person: ['YES'] })).code).toBe(0);
  });

  test('is not done without a person or --yes', async () => {
    const made = await json(shop);
    for (const argv of [
      ['apps', 'delete', 'shop'],
      ['apps', 'regenerate', 'shop'],
    ]) {
      const { code, err } = await call(argv);
      expect([code, err]).toEqual([2, expect.stringContaining('--yes')]);
    }
    expect(await works(made.key)).toBe(true);
  });
});

test('a name that several have is not enough to tell which', async () => {
  const ids = [(await json(shop)).id, (await json(shop)).id];
  const { code, err } = await call(['apps', 'delete', 'shop', '--yes']);
  expect(code).toBe(2);
  for (const id of ids) expect(err).toContain(id);
  expect((await call(['apps', 'get', 'sho'])).err).toContain('no application named "sho"');
});

test('the origins of a public Application are named, kept by other changes, and shown', async () => {
  const web = ['apps', 'create', '--name', 'web', '--type', 'public', '--permission', 'token:create'];
  const made = await json([...web, '--origin', 'https://a.example', '--origin', 'https://b.example']);
  expect(made.allowed_origins).toEqual(['https://a.example', 'https://b.example']);
  expect(await json(['apps', 'update', 'web', '--name', 'page'])).toMatchObject({
    allowed_origins: made.allowed_origins,
  });
  await json(['apps', 'update', 'page', '--origin', 'https://c.example']);
  expect((await call(['apps', 'get', 'page'])).out).toMatch(/^origins +https:\/\/c\.example$/m);
});

test('an update that names nothing is refused', async () => {
  await json(shop);
  expect((await call(['apps', 'update', 'shop'])).err).toContain('nothing to update');
});

test('a list is filtered, cut at its limit with a word about it, and whole when all is asked for', async () => {
  for (const name of ['a1', 'a2', 'b1'])
    await json(['apps', 'create', '--name', name, '--type', 'public', '--permission', 'token:create']);
  const names = async (...argv: string[]) =>
    (await json(['apps', 'list', ...argv])).map(({ name }: { name: string }) => name);
  expect(await names('--type', 'public')).toEqual(['b1', 'a2', 'a1']);
  expect(await names('--name', 'A')).toContain('a2');
  expect(await names('--type', 'public', '--limit', 'all')).toHaveLength(3);
  const cut = await call(['apps', 'list', '--type', 'public', '--limit', '2', '--json']);
  expect(JSON.parse(cut.out)).toHaveLength(2);
  expect(cut.err).toBe('sallyport: hint: there are more than these 2: --limit all shows them\n');
  const [head, ...rows] = (await call(['apps', 'list', '--type', 'public'])).out.trimEnd().split('\n');
  expect(head).toMatch(/^ID +TYPE +NAME +GRANTS +EXPIRES$/);
  expect(rows.map((row) => row.indexOf('token:create'))).toEqual(Array(3).fill(head?.indexOf('GRANTS')));
  expect((await call(['apps', 'list', '--name', 'zzz'])).out).toBe('none\n');
  expect(await names('--name', 'zzz')).toEqual([]);
});

test('those that expire before a moment are listed by themselves', async () => {
  await json([...shop, '--expires-at', '2027-01-01T00:00:00Z']);
  await json(['apps', 'create', '--name', 'other', '--type', 'private', '--permission', 'token:read']);
  const listed = await json(['apps', 'list', '--expires-before', '2027-01-02T00:00:00Z']);
  expect(listed.map(({ name }: { name: string }) => name)).toEqual(['shop']);
  expect(await json(['apps', 'list', '--expires-before', '2027-01-01T00:00:00Z'])).toEqual([]);
});

test('what an Application uses is shown, and what it was granted in vain', async () => {
  const made = await json([...shop, '--permission', 'application:read']);
  await world.call('GET', '/applications/key', { key: made.key });
  await world.flush();
  const { out } = await call(['apps', 'usage', 'shop']);
  const at = new Date(world.clock.now()).toISOString();
  expect(out.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
    ['PERMISSION', 'CONTAINER', 'LAST USED', 'GRANTED BY'],
    ['application:read', '/', at],
    ['token:read', '/', 'never', 'permissions'],
    [''],
  ]);
  expect(await json(['apps', 'usage', made.id])).toMatchObject({ last_used_at: at });
  expect((await call(['apps', 'get', 'shop'])).out).toContain(`last used    ${at}`);
});
