import { describe, expect, test } from 'bun:test';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import { parse } from 'yaml';
import { setUpApply } from '../../support/apply.ts';
import { noOpenssl } from '../../support/certificates.ts';
import { chargeRequest, openReceiver, tokenUseRule } from '../../support/destination-receiver.ts';
import { keyPattern } from '../../support/program.ts';
import { root } from '../../support/service.ts';
import { apiShell } from '../../support/shell.ts';

const fixture = setUpApply();
const schema = JSON.parse(readFileSync(join(root, 'docs/reference/access-file.schema.json'), 'utf8'));
const isValid = new Ajv({ strict: true, allowUnionTypes: true, formats: { uuid: true } }).compile(schema);

const shell = () => apiShell(fixture.server.url, fixture.key);
const path = (name = 'access.yaml') => join(fixture.folder, name);

/** Applications of every type with every field, in the fixture's tenant. */
async function fill(): Promise<void> {
  const create = (body: Record<string, unknown>) => fixture.server.application(fixture.key, body);
  const rule = {
    priority: 2,
    container: '/Cards/',
    transform: 'reveal',
    permissions: ['token:read', 'invoice:read'],
  };
  await create({
    name: 'backend: "yes" # 1',
    rules: [rule, { ...rule, priority: 1, description: 'a\nb: c' }],
  });
  await create({
    name: 'page',
    type: 'public',
    permissions: ['token:create'],
    allowed_origins: ['https://shop.example'],
    require_bound_sessions: true,
    expires_at: '2030-01-01T00:00:00Z',
  });
  const allowed_networks = ['10.0.0.0/8', '2001:db8::/32'];
  const labels = { team: 'platform', env: 'prod' };
  await create({
    name: 'ci',
    type: 'management',
    permissions: ['application:read'],
    allowed_networks,
    labels,
  });
}

test.each(['access.yaml', 'access.json'])('%s: what pull writes, apply finds unchanged', async (name) => {
  await fill();
  const { code, out, err } = await shell().call(['pull', path(name)]);
  expect([code, out, err]).toEqual([0, `wrote 4 applications to ${path(name)}\n`, '']);
  const plan = await shell().call(['apply', path(name), '--plan']);
  expect([plan.code, plan.out]).toEqual([0, 'no changes: 4 applications match the file\n']);
  expect(readFileSync(path(name), 'utf8')).not.toMatch(keyPattern);
});

describe('destinations', () => {
  const requests = [chargeRequest, { method: 'GET', path: '/v1/charges/:id', query: ['expand'] }];
  const destination = (name: string, more = {}) =>
    fixture.server.call('POST', '/destinations', {
      key: fixture.key,
      body: { name, origin: `https://${name}.example`, requests, ...more },
    });
  const application = (name: string, destinations: string[], labels = {}) =>
    fixture.server.application(fixture.key, {
      name,
      labels,
      permissions: [],
      rules: [tokenUseRule('/', destinations)],
    });

  test.skipIf(noOpenssl)(
    'are written without secrets, with their names in rules; apply finds them unchanged',
    async () => {
      const receiver = await openReceiver();
      await receiver.close();
      const headers = { authorization: 'Bearer sk_live_51HhTbqF', 'x-version': '7' };
      const { clientCertificate: client_certificate, ca } = receiver;
      const secrets = { headers, client_certificate, ca, timeout: 9 };
      const { id } = (await destination('payments', secrets)).body;
      await destination('3ds');
      await application('shop', [id]);
      const { out } = await shell().call(['pull', path()]);
      expect(out).toBe(`wrote 2 applications and 2 destinations to ${path()}\n`);
      const text = readFileSync(path(), 'utf8');
      for (const secret of ['sk_live', 'PRIVATE KEY', id]) expect(text).not.toContain(secret);
      const file = parse(text);
      isValid(file);
      expect(isValid.errors).toBeNull();
      expect(file.destinations[1]).toMatchObject({
        name: 'payments',
        headers: { authorization: { env: 'DESTINATION_PAYMENTS_AUTHORIZATION' } },
        client_certificate: { env: 'DESTINATION_PAYMENTS_CLIENT_CERTIFICATE' },
        timeout: 9,
      });
      const plan = await shell().call(['apply', path(), '--plan']);
      expect([plan.code, plan.out]).toEqual([0, 'no changes: 2 applications match the file\n']);

      const other = apiShell(fixture.server.url, (await fixture.server.tenant()).key);
      const options = ['apply', path(), '--yes', '--keys-dir', path('keys')];
      expect((await other.call(options)).err).toContain('DESTINATION_PAYMENTS_AUTHORIZATION is not set');
      const env = {
        DESTINATION_PAYMENTS_AUTHORIZATION: headers.authorization,
        DESTINATION_PAYMENTS_X_VERSION: headers['x-version'],
        DESTINATION_PAYMENTS_CLIENT_CERTIFICATE: client_certificate,
      };
      expect((await other.call(options, { env })).code).toBe(0);
      await other.call(['pull', path('other.yaml')]);
      expect(parse(readFileSync(path('other.yaml'), 'utf8')).destinations).toEqual(file.destinations);
    },
  );

  test('secrets of two destinations have different variables, also if their names differ only in punctuation', async () => {
    await destination('pay', { headers: { 'api-key': '1' } });
    await destination('pay-api', { headers: { key: '2' } });
    await shell().call(['pull', path()]);
    const { destinations } = parse(readFileSync(path(), 'utf8'));
    const variables = destinations.flatMap((each: { headers: object }) => Object.values(each.headers));
    expect(new Set(variables.map(({ env }: { env: string }) => env)).size).toBe(2);
  });

  test('with --label, only those that the rules name are written; without destination:read, ids', async () => {
    const { id } = (await destination('payments')).body;
    await destination('other');
    await application('shop', [id], { team: 'shop' });
    const label = ['pull', '-', '--label', 'team=shop'];
    const own = await shell().json(label);
    expect(own.destinations.map(({ name }: { name: string }) => name)).toEqual(['payments']);
    expect(own.applications[0].rules[0].destinations).toEqual(['payments']);
    const { key } = await fixture.server.application(fixture.key, {
      type: 'management',
      permissions: ['application:read'],
    });
    const { out, err } = await apiShell(fixture.server.url, key).call(label);
    expect(err).toContain('destinations are not in the file');
    const { destinations, applications } = parse(out);
    expect([destinations, applications[0].rules[0].destinations]).toEqual([undefined, [id]]);
  });
});

test('a pulled file creates the same applications in another tenant', async () => {
  await fill();
  await shell().call(['pull', path()]);
  const other = apiShell(fixture.server.url, (await fixture.server.tenant()).key);
  expect((await other.call(['apply', path(), '--yes', '--keys-dir', path('keys')])).code).toBe(0);
  await other.call(['pull', path('other.yaml')]);
  const byName = (file: string) =>
    parse(readFileSync(path(file), 'utf8')).applications.filter(
      ({ name }: { name: string }) => !name.includes('management'),
    );
  expect(byName('other.yaml')).toEqual(byName('access.yaml'));
});

test('- is standard output, as YAML or JSON', async () => {
  await fill();
  const { out } = await shell().call(['pull', '-']);
  const { applications } = parse(out);
  expect(applications.map(({ name }: { name: string }) => name)).toContain('page');
  expect(await shell().json(['pull', '-'])).toEqual({ applications });
});

test('an existing file is replaced only after a confirmation, with the same mode', async () => {
  writeFileSync(path(), '# mine\n', { mode: 0o644 });
  expect((await shell().call(['pull', path()])).code).toBe(2);
  expect((await shell().call(['pull', path()], { answers: ['n'] })).code).toBe(1);
  expect(readFileSync(path(), 'utf8')).toBe('# mine\n');
  expect((await shell().call(['pull', path()], { answers: ['y'] })).code).toBe(0);
  expect(readFileSync(path(), 'utf8')).toStartWith('applications:\n');
  expect(statSync(path()).mode & 0o777).toBe(0o644);
});

test('a name that is not unique is an error with the ids, and no file is written', async () => {
  const ids = [];
  for (let count = 0; count < 2; count++)
    ids.push((await fixture.server.application(fixture.key, { name: 'twin' })).id);
  const { code, out, err } = await shell().call(['pull', path()]);
  expect([code, out]).toEqual([1, '']);
  for (const id of ids) expect(err).toContain(id);
  expect(await Bun.file(path()).exists()).toBe(false);
});

describe('the JSON schema', () => {
  test('accepts pulled files and the file of the guide', async () => {
    await fill();
    const guide = readFileSync(join(root, 'docs/guides/access-as-code.md'), 'utf8');
    const [, example] = /```yaml access\.yaml\n([\s\S]*?)```/.exec(guide) as RegExpExecArray;
    for (const file of [parse(example as string), await shell().json(['pull', '-'])]) {
      isValid(file);
      expect(isValid.errors).toBeNull();
    }
  });

  const good = { name: 'one', type: 'private', permissions: ['token:read', 'invoice:read'] };
  const rule = { priority: 1, container: '/a/', transform: 'mask', permissions: ['token:read'] };
  test.each<[string, object]>([
    ['an unknown field', { ...good, colour: 'red' }],
    ['no type', { name: 'one', permissions: ['token:read'] }],
    ['an unknown type', { ...good, type: 'secret' }],
    ['an unknown permission of a built-in family', { ...good, permissions: ['token:reed'] }],
    ['a container with an empty segment', { ...good, rules: [{ ...rule, container: '/a//b/' }] }],
    ['a rule with conditions', { ...good, rules: [{ ...rule, conditions: [] }] }],
    ['a priority below 1', { ...good, rules: [{ ...rule, priority: 0 }] }],
    ['an expiry that is no time', { ...good, expires_at: 'soon' }],
  ])('rejects %s', async (_, application) => {
    expect(isValid({ applications: [{ ...good, rules: [rule], expires_at: 'never' }] })).toBe(true);
    expect(isValid({ applications: [application] })).toBe(false);
    expect((await fixture.apply(JSON.stringify({ applications: [application] }))).code).toBe(2);
  });
});
