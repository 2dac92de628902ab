/** Renames, expiries and failures of `sallyport apply`. */
import { describe, expect, test } from 'bun:test';
import { ApplicationCreate } from '../../../src/domain/application.ts';
import { setUpApply } from '../../support/apply.ts';
import { changeBefore } from '../../support/meanwhile.ts';
import { keyPattern } from '../../support/program.ts';
import { apiShell } from '../../support/shell.ts';

const fixture = setUpApply();
const { apply, applications } = fixture;

const fileOf = (...fields: string[]) =>
  `applications:\n  - type: private\n    permissions: [token:read]\n${fields.map((line) => `    ${line}\n`).join('')}`;

describe('a rename', () => {
  test('preserves id, keys and sessions, is part of the plan, and happens once', async () => {
    const shop = await fixture.server.application(fixture.key, { name: 'shop' });
    const file = fileOf('name: store', 'previous_name: shop');
    const { code, out } = await apply(file, ['--yes']);
    expect(code).toBe(0);
    expect(out).toContain('~ private shop\n    - name shop\n    + name store\n');
    expect(out).not.toMatch(keyPattern);
    const { body } = await fixture.server.call('GET', `/applications/${shop.id}`, { key: fixture.key });
    expect(body.name).toBe('store');
    expect((await fixture.server.call('GET', '/tokens', { key: shop.key })).status).toBe(200);
    expect((await apply(file, ['--plan'])).out).toContain('no changes: 1 applications match the file');
  });

  test('is not a reason for --prune to delete the application', async () => {
    const shop = await fixture.server.application(fixture.key, { name: 'shop', labels: { team: 'shop' } });
    const prune = ['--yes', '--prune', '--label', 'team=shop'];
    const { out } = await apply(fileOf('name: store', 'previous_name: shop'), prune);
    expect(out).toContain('0 to create, 1 to update, 0 to delete');
    expect((await applications()).store?.id).toBe(shop.id);
  });

  test('of an application that does not exist creates it', async () => {
    const { out } = await apply(fileOf('name: store', 'previous_name: shop'), ['--yes']);
    expect(out).toContain('1 to create');
    expect(Object.keys(await applications())).toContain('store');
  });
});

describe('the expiry', () => {
  const [first, second] = ['2030-01-01T00:00:00.000Z', '2031-01-01T00:00:00.000Z'];
  const expiry = async () => (await applications()).shop?.expires_at;

  test('is shown and changed; a file without it leaves it unchanged, and never removes it', async () => {
    const created = await apply(fileOf('name: shop', `expires_at: ${first}`), ['--yes']);
    expect(created.out).toContain(`+ private shop\n    + permission token:read\n    + expiry ${first}\n`);
    expect(await expiry()).toBe(first);
    const changed = await apply(fileOf('name: shop', 'expires_at: 2031-01-01T01:00:00+01:00'), ['--yes']);
    expect(changed.out).toContain(`~ private shop\n    - expiry ${first}\n    + expiry ${second}\n`);
    expect(await expiry()).toBe(second);
    expect((await apply(fileOf('name: shop'), ['--plan'])).code).toBe(0);
    const removed = await apply(fileOf('name: shop', 'expires_at: never'), ['--yes']);
    expect(removed.out).toContain(`~ private shop\n    - expiry ${second}\nnot in the file`);
    expect(await expiry()).toBeUndefined();
    expect((await apply(fileOf('name: shop', 'expires_at: never'), ['--plan'])).code).toBe(0);
  });

  test('can be changed with apps update', async () => {
    await fixture.server.application(fixture.key, { name: 'shop' });
    const { json } = apiShell(fixture.server.url, fixture.key);
    const update = (time: string) => json(['apps', 'update', 'shop', '--expires-at', time]);
    expect(await update(first)).toMatchObject({ expires_at: first, permissions: ['token:read'] });
    expect(await update('never')).not.toHaveProperty('expires_at');
  });
});

describe('the end of a rule', () => {
  const end = new Date(Date.now() + 183_600_000 + 1_800_000).toISOString();
  const rule = (container: string, expires_at: string) =>
    `{ priority: 1, container: ${container}, transform: reveal, permissions: [token:read], expires_at: ${expires_at} }`;
  const rules = (...some: string[]) => `rules: [${some.join(', ')}]`;
  const line = (container: string) => `rule priority 1: token:read in ${container} as reveal until ${end}`;

  test('is in the plan with the time that is left, is written, and is pulled', async () => {
    const file = fileOf('name: shop', rules(rule('/a/', end)));
    const plan = await apply(file, ['--plan']);
    expect(plan.out).toContain(`    + ${line('/a/')} (ends in 2d 3h)\n`);
    const written = await apply(file, ['--yes']);
    expect(written.code).toBe(0);
    expect((await applications()).shop?.rules).toEqual([expect.objectContaining({ expires_at: end })]);
    expect((await apply(file, ['--plan'])).code).toBe(0);
    const { call, json } = apiShell(fixture.server.url, fixture.key);
    expect((await call(['apps', 'get', 'shop'])).out).toContain(`until ${end} (ends in 2d 3h)`);
    expect((await call(['pull', '-'])).out).toContain(`expires_at: ${end}`);
    const { update } = await json(['apply', `${fixture.folder}/access.yaml`, '--plan']);
    expect(update).toEqual([]);
    const changed = await apply(fileOf('name: shop', rules(rule('/b/', end))), ['--plan']);
    expect(changed.out).toContain(
      `    - ${line('/a/')} (ends in 2d 3h)\n    + ${line('/b/')} (ends in 2d 3h)\n`,
    );
  });

  test('that has passed is ignored, and is an error if no grant is left', async () => {
    const past = '2020-01-01T00:00:00Z';
    const file = fileOf('name: shop', rules(rule('/a/', past)));
    expect((await apply(file, ['--yes'])).code).toBe(0);
    expect((await applications()).shop).toMatchObject({ permissions: ['token:read'], rules: [] });
    expect((await apply(file, ['--plan'])).code).toBe(0);
    const none = file.replace('permissions: [token:read]\n', 'permissions: []\n');
    const refused = await apply(none, ['--yes']);
    expect([refused.code, refused.err]).toEqual([
      2,
      expect.stringContaining('access.yaml:2: "shop" has only rules that have ended'),
    ]);
  });
});

test.each([
  ['an update', 'after the plan', 'GET', fileOf('name: shop', 'allowed_networks: [10.0.0.0/8]'), []],
  ['an update', 'just before it', 'PUT', fileOf('name: shop', 'allowed_networks: [10.0.0.0/8]'), []],
  ['a deletion', 'after the plan', 'GET', fileOf('name: other'), ['--prune', '--label', 'team=shop']],
  ['a deletion', 'just before it', 'DELETE', fileOf('name: other'), ['--prune', '--label', 'team=shop']],
])('%s does not overwrite a change that was made %s', async (_what, _when, method, yaml, options) => {
  const { id } = await fixture.server.application(fixture.key, { name: 'shop', labels: { team: 'shop' } });
  const theirs = { name: 'shop', permissions: ['token:read', 'token:create'] };
  const proxy = changeBefore(fixture.server, method, /^\/applications\/[0-9a-f-]{36}$/, () =>
    fixture.server.call('PUT', `/applications/${id}`, { key: fixture.key, body: theirs }),
  );
  const { code, err } = await apply(yaml, ['--yes', ...options], {
    env: { SALLYPORT_URL: proxy.url, SALLYPORT_KEY: fixture.key },
  });
  await proxy.close();
  expect([code, err]).toEqual([4, expect.stringMatching(/"shop": .*changed_meanwhile/)]);
  expect((await applications()).shop).toMatchObject({ id, ...theirs });
  expect((await applications()).shop).not.toHaveProperty('allowed_networks');
});

test('bound sessions are required by the file, and unchanged by a file that does not mention them', async () => {
  const file = (...fields: string[]) => fileOf('name: web', ...fields).replace('private', 'public');
  const isRequired = async () => (await applications()).web?.require_bound_sessions;
  const created = await apply(file('require_bound_sessions: true'), ['--yes']);
  expect(created.out).toContain('+ public web\n    + permission token:read\n    + bound sessions required\n');
  expect(await isRequired()).toBe(true);
  expect((await apply(file(), ['--plan'])).code).toBe(0);
  const changed = await apply(file('require_bound_sessions: false'), ['--yes']);
  expect(changed.out).toContain('~ public web\n    - bound sessions required\n');
  expect(await isRequired()).toBeUndefined();
});

test('labels are part of the plan; a file without the field preserves them, an empty map removes them', async () => {
  const labels = async () => (await applications()).shop?.labels;
  const created = await apply(fileOf('name: shop', 'labels: { team: shop, env: prod }'), ['--yes']);
  expect(created.out).toContain('    + label team=shop\n    + label env=prod\n');
  expect(await labels()).toEqual({ team: 'shop', env: 'prod' });
  expect((await apply(fileOf('name: shop'), ['--plan'])).code).toBe(0);
  const { out } = await apply(fileOf('name: shop', 'labels: { team: toys, env: prod }'), ['--yes']);
  expect(out).toContain('~ private shop\n    - label team=shop\n    + label team=toys\n');
  await apply(fileOf('name: shop', 'labels: {}'), ['--yes']);
  expect(await labels()).toBeUndefined();
});

describe('a failure names the application:', () => {
  /** A key that may not grant log:read. */
  async function weak(permissions: string[]) {
    const { key } = await fixture.server.application(fixture.key, { type: 'management', permissions });
    return { env: { SALLYPORT_KEY: key } };
  }
  const all = ['application:create', 'application:read', 'application:update'];

  test('create', async () => {
    const file = fileOf('name: shop').replace('token:read', 'log:read');
    const { code, err } = await apply(file, ['--yes'], await weak(all));
    expect([code, err]).toEqual([
      4,
      expect.stringMatching(
        /^sallyport: error: "shop": You cannot grant or change `log:read`.*grant_not_held/,
      ),
    ]);
  });

  test('update', async () => {
    await fixture.server.application(fixture.key, { name: 'shop' });
    const file = fileOf('name: shop').replace('token:read', 'log:read');
    expect((await apply(file, ['--yes'], await weak(all))).err).toStartWith('sallyport: error: "shop": ');
  });

  test('delete', async () => {
    await fixture.server.application(fixture.key, { name: 'shop', labels: { team: 'shop' } });
    const file = 'labels: { team: shop }\napplications: []';
    const { err } = await apply(file, ['--yes', '--prune'], await weak(all));
    expect(err).toMatch(/^sallyport: error: "[^"]+": You need the permission `application:delete`/);
  });
});

test('the plan compares every field that an application can be created with', () => {
  const networks = ['allowed_origins', 'require_bound_sessions', 'allowed_networks', 'trusted_issuers'];
  const compared = ['name', 'type', 'permissions', 'rules', ...networks, 'labels', 'expires_at'];
  expect(Object.keys(ApplicationCreate.shape)).toEqual(compared);
});
