import { describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setUpApply } from '../../support/apply.ts';
import { keyPattern } from '../../support/program.ts';
import { shell } from '../../support/shell.ts';

const fixture = setUpApply();
const { apply, applications } = fixture;

const works = async (candidate: string) =>
  (await fixture.server.call('GET', '/applications/key', { key: candidate })).status !== 401;

const shop = `
applications:
  - name: shop backend
    type: private
    permissions: [application:read, token:create]
    rules:
      - description: the cards
        priority: 1
        container: /shop/
        transform: reveal
        permissions: [token:read, token:delete]
  - name: shop browser
    type: public
    permissions: [token:create]
`;

test('--plan prints the changes, makes none, and exits with 5', async () => {
  const [first] = Object.values(await applications());
  const { code, out, err } = await apply(shop, ['--plan']);
  expect([code, err]).toEqual([5, '']);
  expect(out).toBe(
    [
      '+ private shop backend',
      '    + permission application:read',
      '    + permission token:create',
      '    + rule priority 1: token:delete, token:read in /shop/ as reveal (the cards)',
      '+ public shop browser',
      '    + permission token:create',
      'not in the file, unchanged:',
      `  ${first?.name} (${first?.id})`,
      '2 to create, 0 to update, 0 to delete, 0 unchanged',
      '',
    ].join('\n'),
  );
  expect(Object.keys(await applications())).toHaveLength(1);
});

test('applying creates the applications; a second run changes nothing', async () => {
  const first = await apply(shop, ['--yes']);
  expect([first.code, first.err]).toEqual([0, '']);
  const keys = first.out.match(new RegExp(keyPattern, 'g')) as string[];
  expect(keys).toHaveLength(2);
  for (const one of keys) expect(await works(one)).toBe(true);
  const before = await applications();
  expect(before['shop backend']).toMatchObject({ type: 'private', rules: [{ description: 'the cards' }] });
  const second = await apply(shop, ['--yes']);
  expect(second.code).toBe(0);
  expect(second.out).toEndWith('no changes: 2 applications match the file\n');
  expect((await apply(shop, ['--plan'])).code).toBe(0);
  expect(await applications()).toEqual(before);
});

test('origins are part of the plan; a file without the field preserves them, an empty list removes them', async () => {
  const from = (origins: string) => shop.replace(/$/, `    allowed_origins: ${origins}\n`);
  const browser = async () => (await applications())['shop browser']?.allowed_origins;
  const [one, two] = ['https://one.example', 'https://two.example'];
  expect((await apply(from(`[${one}]`), ['--yes'])).out).toContain(`    + origin ${one}\n`);
  expect(await browser()).toEqual([one]);
  expect((await apply(shop, ['--plan'])).out).toContain('no changes');
  const { out } = await apply(from(`[${two}]`), ['--yes']);
  expect(out).toContain(`~ public shop browser\n    - origin ${one}\n    + origin ${two}\n`);
  expect(await browser()).toEqual([two]);
  await apply(from('[]'), ['--yes']);
  expect(await browser()).toBeUndefined();
  const wrong = from(`[${one}]`).replace('type: public', 'type: private');
  expect((await apply(wrong, ['--plan'])).err).toContain('allowed_origins is only for public applications');
});

test('networks are part of the plan; a file without the field preserves them, an empty list removes them', async () => {
  const backend = 'applications:\n  - name: fenced\n    type: private\n    permissions: [token:read]\n';
  const from = (networks: string) => `${backend}    allowed_networks: ${networks}\n`;
  const fenced = async () => (await applications()).fenced?.allowed_networks;
  const created = await apply(from('[10.0.0.0/8, 192.0.2.7]'), ['--yes']);
  expect(created.out).toContain('    + network 192.0.2.7/32\n');
  expect(await fenced()).toEqual(['10.0.0.0/8', '192.0.2.7/32']);
  expect((await apply(backend, ['--plan'])).out).toContain('no changes');
  const { out } = await apply(from('[10.0.0.0/8]'), ['--yes']);
  expect(out).toContain('~ private fenced\n    - network 192.0.2.7/32\n');
  await apply(from('[]'), ['--yes']);
  expect(await fenced()).toBeUndefined();
  const wrong = await apply(from('[10.0.0.1/8]'), ['--plan']);
  expect(wrong.err).toContain('"fenced": allowed_networks.0 must not have bits set after its prefix');
  const isPublic = from('[10.0.0.0/8]').replace('private', 'public').replace('token:read', 'token:create');
  expect((await apply(isPublic, ['--plan'])).err).toContain('allowed_networks is only for private');
});

test('the order of permissions and rules does not matter, and the file can be JSON', async () => {
  await apply(shop, ['--yes']);
  const [backend, browser] = (Bun.YAML.parse(shop) as { applications: { permissions: string[] }[] })
    .applications;
  const reordered = {
    applications: [browser, { ...backend, permissions: backend?.permissions.toReversed() }],
  };
  expect((await apply(JSON.stringify(reordered), ['--plan'])).out).toContain('no changes');
});

test('an update prints added and removed grants, and the key stays valid', async () => {
  const created = await apply(shop, ['--yes']);
  const changed = shop
    .replace('[token:create]\n', '[token:create, token:read]\n')
    .replace('as reveal', 'as mask');
  const narrowed = changed.replace('priority: 1', 'priority: 2');
  const { code, out } = await apply(narrowed, ['--yes']);
  expect(code).toBe(0);
  expect(out).toContain(
    [
      '~ private shop backend',
      '    - rule priority 1: token:delete, token:read in /shop/ as reveal (the cards)',
      '    + rule priority 2: token:delete, token:read in /shop/ as reveal (the cards)',
      '~ public shop browser',
      '    + permission token:read',
    ].join('\n'),
  );
  expect(out).not.toMatch(keyPattern);
  for (const one of created.out.match(new RegExp(keyPattern, 'g')) as string[])
    expect(await works(one)).toBe(true);
  expect((await applications())['shop browser']).toMatchObject({
    permissions: ['token:create', 'token:read'],
  });
  expect((await apply(narrowed, ['--plan'])).code).toBe(0);
});

test('the application whose key is used is updated last', async () => {
  const [name] = Object.keys(await applications());
  const own = `
  - name: ${JSON.stringify(name)}
    type: management
    permissions: [application:read]
`;
  const { code } = await apply(`applications:${own}${shop.replace('\napplications:\n', '')}`, ['--yes']);
  expect(code).toBe(0);
  await apply(shop, ['--yes']);
  expect(Object.keys(await applications())).toContain('shop browser');
  expect((await applications())[name as string]).toMatchObject({ permissions: ['application:read'] });
});

describe('new keys', () => {
  test('are not printed to a pipe or file without --print-keys; no change is made', async () => {
    const file = join(fixture.folder, 'shop.yaml');
    writeFileSync(file, shop);
    const env = { SALLYPORT_URL: fixture.server.url, SALLYPORT_KEY: fixture.key };
    for (const options of [['--yes'], ['--yes', '--json']]) {
      const { code, out, err } = await shell(['apply', file, ...options], { env });
      expect(code).toBe(2);
      expect(err).toContain('2 new keys would be printed, but standard output is not a terminal');
      expect(err).toContain('pass --keys-dir DIR to write them to files, or --print-keys');
      expect(out).not.toMatch(keyPattern);
    }
    expect(Object.keys(await applications())).toHaveLength(1);
    const onTerminal = await shell(['apply', file, '--yes'], { env, answers: [] });
    expect([onTerminal.code, onTerminal.out.match(new RegExp(keyPattern, 'g'))?.length]).toEqual([0, 2]);
    writeFileSync(file, shop.replace('priority: 1', 'priority: 2'));
    expect((await shell(['apply', file, '--yes'], { env })).code).toBe(0);
  });

  test('are written to files with mode 0600 and not printed', async () => {
    const keys = join(fixture.folder, 'keys');
    expect((await apply(shop, ['--plan', '--keys-dir', keys])).code).toBe(5);
    expect(existsSync(keys)).toBe(false);
    const { code, out, err } = await apply(shop, ['--yes', '--keys-dir', keys]);
    expect(code).toBe(0);
    expect(out + err).not.toMatch(keyPattern);
    expect(readdirSync(keys).toSorted()).toEqual(['shop-backend.key', 'shop-browser.key']);
    for (const name of readdirSync(keys)) {
      expect(statSync(join(keys, name)).mode & 0o777).toBe(0o600);
      expect(await works(readFileSync(join(keys, name), 'utf8').trim())).toBe(true);
    }
  });

  test('that would share a file, or replace one, are rejected before any change', async () => {
    const sameFile = shop.replace('shop browser', 'shop  backend');
    const { code, err } = await apply(sameFile, ['--yes', '--keys-dir', join(fixture.folder, 'keys')]);
    expect([code, err]).toEqual([2, expect.stringContaining('shop-backend.key')]);
    writeFileSync(join(fixture.folder, 'shop-browser.key'), 'mine');
    expect((await apply(shop, ['--yes', '--keys-dir', fixture.folder])).err).toContain('already exists');
    expect(Object.keys(await applications())).toHaveLength(1);
    expect(readFileSync(join(fixture.folder, 'shop-browser.key'), 'utf8')).toBe('mine');
  });

  test('created before a failure are not lost', async () => {
    const weak = await fixture.server.application(fixture.key, {
      name: 'weak',
      type: 'management',
      permissions: ['application:create', 'application:read', 'application:update'],
    });
    const tooMuch = shop
      .replace('[token:create]\n', '[token:create, log:read]\n')
      .replace('public', 'private');
    const file = join(fixture.folder, 'too-much.yaml');
    writeFileSync(file, tooMuch);
    for (const options of [
      ['--yes', '--keys-dir', fixture.folder],
      ['--yes', '--json', '--print-keys'],
    ]) {
      const env = { SALLYPORT_URL: fixture.server.url, SALLYPORT_KEY: weak.key };
      const { code, out, err } = await shell(['apply', file, ...options], { env });
      expect([code, err]).toEqual([4, expect.stringContaining('grant_not_held')]);
      const json = options.includes('--json') && JSON.parse(out);
      const issued = json
        ? json.keys[0].key
        : readFileSync(join(fixture.folder, 'shop-backend.key'), 'utf8').trim();
      expect(await works(issued)).toBe(true);
      if (json) expect(json.applied).toBe(false);
      await shell(['apps', 'delete', 'shop backend', '--yes'], {
        env: { SALLYPORT_URL: fixture.server.url, SALLYPORT_KEY: fixture.key },
      });
    }
    expect(existsSync(join(fixture.folder, 'shop-browser.key'))).toBe(false);
  });
});

describe('confirmation', () => {
  test('has to be given on a terminal; no change is made without it', async () => {
    const no = await apply(shop, [], { answers: ['n'] });
    expect([no.code, no.err]).toEqual([1, 'Apply these changes? [y/N] Cancelled.\n']);
    expect(Object.keys(await applications())).toHaveLength(1);
    expect((await apply(shop, [], { answers: ['y'] })).code).toBe(0);
    expect(Object.keys(await applications())).toHaveLength(3);
  });

  test('is void if the applications changed after the plan was printed', async () => {
    const meanwhile = async () => {
      await fixture.server.application(fixture.key, {
        name: 'shop browser',
        type: 'public',
        permissions: ['token:create'],
      });
      return 'y';
    };
    const { code, err } = await apply(shop, [], { answers: [meanwhile] });
    expect([code, err]).toEqual([2, expect.stringContaining('changed after the plan was printed')]);
    expect(Object.keys(await applications())).not.toContain('shop backend');
  });

  test('without a terminal needs --yes; the plan is still printed', async () => {
    const { code, out, err } = await apply(shop);
    expect([code, err]).toEqual([2, expect.stringContaining('--yes')]);
    expect(out).toContain('2 to create');
  });
});

test('--json prints the plan and the keys', async () => {
  const planned = JSON.parse((await apply(shop, ['--plan', '--json'])).out);
  expect(planned).toMatchObject({ create: [{ name: 'shop backend' }, {}], applied: false, keys: [] });
  const applied = JSON.parse((await apply(shop, ['--yes', '--json'])).out);
  expect(applied).toMatchObject({
    applied: true,
    keys: [{ name: 'shop backend', key: expect.any(String) }, {}],
  });
});

test('defaults of a rule are in the plan, and apply to new tokens of its container', async () => {
  const yaml = `applications:
  - name: card form
    type: public
    rules:
      - priority: 1
        container: /cards/
        transform: redact
        permissions: [token:create]
        defaults: { mask: '{{ data | reveal_last: 4 }}', search: { pan: '{{ data }}' } }
`;
  const applied = await apply(yaml, ['--yes']);
  expect(applied.out).toContain('in /cards/ with defaults {"mask":"{{ data | reveal_last: 4 }}"');
  expect((await apply(yaml, ['--plan'])).out).toContain('no changes');
  const key = /slp_pub_\w+/.exec(applied.out)?.[0] as string;
  const body = { container: '/cards/', data: '4242424242424242' };
  const created = await fixture.server.call('POST', '/tokens', { key, body });
  expect(created.body).toMatchObject({ mask: '{{ data | reveal_last: 4 }}', search: { pan: '{{ data }}' } });
  const wrong = await apply(yaml.replace('{ pan:', '{ PAN:'), ['--plan']);
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('access.yaml:9: ')]);
});
