import { beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/cleanup.ts';
import { changeBefore } from '../../support/meanwhile.ts';
import { keyPattern } from '../../support/program.ts';
import { type ApiShell, apiShell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

let key: string;
let call: ApiShell['call'];
let json: ApiShell['json'];
const server = await openTestServer(sqlite);
const folder = temporaryFolder();
beforeEach(async () => {
  ({ key } = await server.tenant());
  ({ call, json } = apiShell(server.url, key));
});

const works = async (candidate: string) =>
  (await server.call('GET', '/applications/key', { key: candidate })).status !== 401;

const shop = ['apps', 'create', '--name', 'shop', '--type', 'private', '--permission', 'token:read'];

test('an application is created, found by id and name, updated and deleted', async () => {
  const created = await json([...shop, '--permission', 'token:create']);
  expect(created).toMatchObject({
    name: 'shop',
    type: 'private',
    permissions: ['token:read', 'token:create'],
  });
  expect(await works(created.key)).toBe(true);
  expect(await json(['apps', 'get', created.id])).toMatchObject({ id: created.id });
  expect(await json(['apps', 'get', 'shop'])).toMatchObject({ id: created.id });
  const changed = await json(['apps', 'update', 'shop', '--name', 'store']);
  expect(changed).toMatchObject({ name: 'store', permissions: ['token:read', 'token:create'] });
  expect(await json(['apps', 'delete', 'store', '--yes'])).toEqual({ deleted: created.id });
  expect(await works(created.key)).toBe(false);
});

test('an update with the etag of an earlier version changes nothing, whether it is an option or in the file', async () => {
  const { id } = await json(shop);
  const read = await json(['apps', 'get', 'shop']);
  expect((await call(['apps', 'get', id])).out).toContain(`etag         ${read.etag}\n`);
  const file = join(folder, 'shop.json');
  writeFileSync(file, JSON.stringify({ permissions: ['token:delete'], etag: read.etag }));
  const changed = await json(['apps', 'update', 'shop', '--name', 'shop', '--if-match', read.etag]);
  expect(changed.etag).not.toBe(read.etag);
  for (const options of [
    ['--file', file],
    ['--name', 'x', '--if-match', `"${read.etag}"`],
  ]) {
    const { code, err } = await call(['apps', 'update', 'shop', ...options]);
    expect([code, err]).toEqual([4, expect.stringContaining('changed_meanwhile')]);
  }
  expect(await json(['apps', 'get', 'shop'])).toEqual(changed);
  const options = ['--file', file, '--if-match', changed.etag];
  expect(await json(['apps', 'update', 'shop', ...options])).toMatchObject({ permissions: ['token:delete'] });
});

test('an update does not overwrite a change that was made after the application was read', async () => {
  const { id } = await json(shop);
  const theirs = { name: 'shop', permissions: ['token:create'] };
  const proxy = changeBefore(server, 'PUT', /^/, () =>
    server.call('PUT', `/applications/${id}`, { key, body: theirs }),
  );
  const { code, err } = await apiShell(proxy.url, key).call(['apps', 'update', 'shop', '--name', 'store']);
  await proxy.close();
  expect([code, err]).toEqual([4, expect.stringContaining('changed_meanwhile')]);
  expect(await json(['apps', 'get', id])).toMatchObject(theirs);
});

test('quarantine and release change what the key can do', async () => {
  const { id, key: shopKey } = await json(shop);
  const token = { key: shopKey, body: { data: 'x' } };
  const { out } = await call(['apps', 'quarantine', 'shop', '--yes']);
  expect(out).toMatch(/^quarantine +since 2026-\S+Z$/m);
  expect((await server.call('POST', '/tokens', token)).body.code).toBe('quarantined');
  expect((await call(['can', 'token:read', '--app', 'shop'])).out).toStartWith('allowed, as redact: ');
  expect(await json(['apps', 'release', 'shop'])).toEqual({ released: id });
  expect((await server.call('POST', '/tokens', token)).body.code).toBe('permission_missing');
});

test('the body comes from a file or standard input, and options override its fields', async () => {
  const rules = [{ priority: 1, container: '/shop/', transform: 'reveal', permissions: ['token:read'] }];
  const body = JSON.stringify({ name: 'in the file', type: 'private', rules });
  const path = join(folder, 'body.json');
  writeFileSync(path, body);
  expect(await json(['apps', 'create', '--file', path])).toMatchObject({ name: 'in the file', rules });
  const created = await json(['apps', 'create', '--file', '-', '--name', 'other'], { stdin: body });
  expect(created).toMatchObject({ name: 'other', rules });
  const more = await json(['apps', 'update', 'other', '--permission', 'token:create']);
  expect(more).toMatchObject({ rules, permissions: ['token:create'] });
  const { out } = await call(['apps', 'get', 'other']);
  expect(out).toContain('rule 1       priority 1: token:read in /shop/ as reveal');
});

test.each([
  ['{"name": }', 'not valid JSON'],
  ['[]', 'not a JSON object'],
  ['{"data": {"number": 12345678901234567890}}', 'data.number is a number with too many digits'],
])('%p is rejected as a body', async (stdin, message) => {
  const { code, err } = await call(['tokens', 'create', '--file', '-'], { stdin });
  expect(code).toBe(2);
  expect(err).toContain(`--file -: ${message}`);
});

describe('a new key', () => {
  test('is printed once, by the command that created it', async () => {
    const created = await call(shop);
    expect(created.out).toMatch(new RegExp(`^key +${keyPattern.source} \\(shown only once\\)$`, 'm'));
    for (const argv of [
      ['apps', 'list'],
      ['apps', 'get', 'shop'],
      ['apps', 'update', 'shop', '--name', 'b'],
    ])
      expect((await call(argv)).out).not.toMatch(keyPattern);
  });

  test('is written to a file with mode 0600 and not printed, with --key-to', async () => {
    const path = join(folder, 'new.key');
    const created = await call([...shop, '--key-to', path]);
    expect(created.out + created.err).not.toMatch(keyPattern);
    expect(created.out).toContain(`written to ${path}`);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(await works(readFileSync(path, 'utf8').trim())).toBe(true);
    const again = await call(['apps', 'regenerate', 'shop', '--yes', '--key-to', path]);
    expect([again.code, again.err]).toEqual([2, expect.stringContaining('already exists')]);
    expect(await works(readFileSync(path, 'utf8').trim())).toBe(true);
  });

  test('leaves no file if the application cannot be created', async () => {
    const path = join(folder, 'none.key');
    expect((await call(['apps', 'create', '--key-to', path])).code).toBe(4);
    expect(existsSync(path)).toBe(false);
  });
});

describe('deleting and regenerating', () => {
  test('ask for confirmation on a terminal', async () => {
    const created = await json(shop);
    const no = await call(['apps', 'delete', 'shop'], { answers: ['no'] });
    expect(no.err).toStartWith(`Delete private application "shop" (${created.id})?`);
    expect(no.code).toBe(1);
    expect((await call(['apps', 'regenerate', 'shop'], { answers: [] })).code).toBe(1);
    expect(await works(created.key)).toBe(true);
    expect((await call(['apps', 'regenerate', 'shop'], { answers: ['y'] })).code).toBe(0);
    expect(await works(created.key)).toBe(false);
    expect((await call(['apps', 'delete', 'shop'], { answers: ['YES'] })).code).toBe(0);
  });

  test('need --yes without a terminal', async () => {
    const created = await json(shop);
    for (const argv of [
      ['apps', 'delete', 'shop'],
      ['apps', 'regenerate', 'shop'],
    ]) {
      const { code, err } = await call(argv);
      expect([code, err]).toEqual([2, expect.stringContaining('--yes')]);
    }
    expect(await works(created.key)).toBe(true);
  });
});

test('a name that several applications have is rejected with their ids', async () => {
  const ids = [(await json(shop)).id, (await json(shop)).id];
  const { code, err } = await call(['apps', 'delete', 'shop', '--yes']);
  expect(code).toBe(2);
  for (const id of ids) expect(err).toContain(id);
  expect((await call(['apps', 'get', 'sho'])).err).toContain('no application named "sho"');
});

test('bound sessions are required, printed, and unchanged by other updates', async () => {
  const web = ['apps', 'create', '--name', 'kiosk', '--type', 'public', '--permission', 'token:create'];
  const created = await json([...web, '--bound-sessions', 'required']);
  expect(created.require_bound_sessions).toBe(true);
  await json(['apps', 'update', 'kiosk', '--name', 'kiosk 2']);
  expect((await call(['apps', 'get', 'kiosk 2'])).out).toMatch(/^bound sessions +required$/m);
  const updated = await json(['apps', 'update', 'kiosk 2', '--bound-sessions', 'optional']);
  expect(updated).not.toHaveProperty('require_bound_sessions');
});

test('networks are set, printed, and unchanged by other updates', async () => {
  const backend = ['apps', 'create', '--name', 'fenced', '--type', 'private', '--permission', 'token:read'];
  const created = await json([...backend, '--network', '10.0.0.0/8', '--network', '2001:db8::/32']);
  expect(created.allowed_networks).toEqual(['10.0.0.0/8', '2001:db8::/32']);
  await json(['apps', 'update', 'fenced', '--expires-at', '2030-01-01T00:00:00Z']);
  expect((await call(['apps', 'get', 'fenced'])).out).toMatch(/^networks +10\.0\.0\.0\/8, 2001:db8::\/32$/m);
});

test('labels are set, printed, replaced, and filter the list', async () => {
  await json([...shop, '--label', 'team=shop', '--label', 'env=prod']);
  await json(['apps', 'update', 'shop', '--expires-at', '2030-01-01T00:00:00Z']);
  expect((await call(['apps', 'get', 'shop'])).out).toMatch(/^labels +env=prod, team=shop$/m);
  const found = (...labels: string[]) => json(['apps', 'list', ...labels.flatMap((one) => ['--label', one])]);
  expect(await found('team=shop', 'env=prod')).toMatchObject([{ name: 'shop' }]);
  expect(await found('team=toys')).toEqual([]);
  expect((await json(['apps', 'update', 'shop', '--label', 'team=toys'])).labels).toEqual({ team: 'toys' });
  expect((await call(['apps', 'list', '--label', 'team'])).err).toContain('--label must be NAME=VALUE');
  const twice = await call(['apps', 'list', '--label', 'team=a', '--label', 'team=b']);
  expect([twice.code, twice.err]).toEqual([2, expect.stringContaining('--label has two values for team')]);
});

test('origins are set, printed, and unchanged by other updates', async () => {
  const web = ['apps', 'create', '--name', 'web', '--type', 'public', '--permission', 'token:create'];
  const created = await json([...web, '--origin', 'https://a.example', '--origin', 'https://b.example']);
  expect(created.allowed_origins).toEqual(['https://a.example', 'https://b.example']);
  expect(await json(['apps', 'update', 'web', '--name', 'page'])).toMatchObject({
    allowed_origins: created.allowed_origins,
  });
  await json(['apps', 'update', 'page', '--origin', 'https://c.example']);
  expect((await call(['apps', 'get', 'page'])).out).toMatch(/^origins +https:\/\/c\.example$/m);
});

test('an update without fields is rejected', async () => {
  await json(shop);
  expect((await call(['apps', 'update', 'shop'])).err).toContain('nothing to update');
});

test('lists are filtered and limited, with a hint about --limit', async () => {
  for (const name of ['a1', 'a2', 'b1'])
    await json(['apps', 'create', '--name', name, '--type', 'public', '--permission', 'token:create']);
  const names = async (...argv: string[]) =>
    (await json(['apps', 'list', ...argv])).map(({ name }: { name: string }) => name);
  expect(await names('--type', 'public')).toEqual(['b1', 'a2', 'a1']);
  expect(await names('--name', 'A')).toContain('a2');
  expect(await names('--type', 'public', '--limit', 'all')).toHaveLength(3);
  const cut = await call(['apps', 'list', '--type', 'public', '--limit', '2', '--json']);
  expect(JSON.parse(cut.out)).toHaveLength(2);
  expect(cut.err).toBe('sallyport: hint: only the first 2 are listed; pass --limit all to list all\n');
  const [head, ...rows] = (await call(['apps', 'list', '--type', 'public'])).out.trimEnd().split('\n');
  expect(head).toMatch(/^ID +TYPE +NAME +GRANTS +LAST USED +EXPIRES$/);
  expect(rows.map((row) => row.indexOf('token:create'))).toEqual(Array(3).fill(head?.indexOf('GRANTS')));
  expect(await call(['apps', 'list', '--name', 'zzz'])).toEqual({
    code: 0,
    out: '',
    err: 'No applications found.\n',
  });
  expect(await names('--name', 'zzz')).toEqual([]);
});

test('--expires-before filters by expiry', async () => {
  await json([...shop, '--expires-at', '2027-01-01T00:00:00Z']);
  await json(['apps', 'create', '--name', 'other', '--type', 'private', '--permission', 'token:read']);
  const listed = await json(['apps', 'list', '--expires-before', '2027-01-02T00:00:00Z']);
  expect(listed.map(({ name }: { name: string }) => name)).toEqual(['shop']);
  expect(await json(['apps', 'list', '--expires-before', '2027-01-01T00:00:00Z'])).toEqual([]);
});

test('--used-before lists applications that were not used since', async () => {
  const used = await json([...shop, '--permission', 'application:read']);
  await json(['apps', 'create', '--name', 'unused', '--type', 'private', '--permission', 'token:read']);
  server.clock.advance(1000);
  await server.call('GET', '/applications/key', { key: used.key });
  await server.flush();
  const now = new Date(server.clock.now()).toISOString();
  const listed = await json(['apps', 'list', '--type', 'private', '--used-before', now]);
  expect(listed.map(({ name }: { name: string }) => name)).toEqual(['unused']);
});

test('usage lists used and unused grants', async () => {
  const created = await json([...shop, '--permission', 'application:read']);
  await server.call('GET', '/applications/key', { key: created.key });
  await server.flush();
  const { out } = await call(['apps', 'usage', 'shop']);
  const at = new Date(server.clock.now()).toISOString();
  expect(out.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
    ['PERMISSION', 'CONTAINER', 'LAST USED', 'GRANTED BY'],
    ['application:read', '/', at],
    ['token:read', '/', 'never', 'permissions'],
    [''],
  ]);
  expect(await json(['apps', 'usage', created.id])).toMatchObject({ last_used_at: at });
  expect((await call(['apps', 'get', 'shop'])).out).toContain(`last used    ${at}`);
  const [, row] = (await call(['apps', 'list', '--name', 'shop'])).out.split('\n');
  expect(row?.split(/ {2,}/).slice(-2)).toEqual([at, 'never']);
});

describe('tables', () => {
  const name = `${'語'.repeat(30)}, a long name`;
  beforeEach(() => server.application(key, { name }));

  test('fit the terminal, without cutting ids', async () => {
    const { out } = await call(['apps', 'list'], { answers: [], columns: 100 });
    const lines = Bun.stripANSI(out).trimEnd().split('\n');
    for (const line of lines) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(100);
    expect(out).toMatch(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/);
    expect(out).toMatch(/語…/);
  });

  test.each([
    [['--wide'], 100],
    [[], undefined],
  ])('are whole with %p on %p columns', async (words, columns) => {
    const { out } = await call(['applications', 'list', ...words], columns ? { answers: [], columns } : {});
    expect(out).toContain(name);
  });
});

test('applications is the same as apps, also for help', async () => {
  expect(await call(['applications', 'list'])).toEqual(await call(['apps', 'list']));
  expect(await call(['help', 'applications', 'get'])).toEqual(await call(['help', 'apps', 'get']));
  expect((await call(['tokens', 'get', 'applications'])).err).not.toContain('apps');
});

test('logs tail colors denials on a terminal only', async () => {
  const { key: denied } = await server.application(key, { permissions: ['invoice:read'] });
  await server.call('GET', '/applications', { key: denied });
  await server.flush();
  const tail = ['logs', 'tail', '--result', 'denied'];
  expect((await call(tail, { answers: [] })).out).toContain('\x1b[31mdenied\x1b[39m');
  expect((await call(tail)).out).not.toContain('\x1b');
});

test('access advise lists as many rows as --limit says, and how many are left', async () => {
  const { out, err } = await call(['access', 'advise', '--limit', '2']);
  expect(out.trimEnd().split('\n')).toHaveLength(3);
  expect(err).toMatch(/hint: \d+ more rows are not listed/);
});
