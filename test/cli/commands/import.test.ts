import { beforeEach, describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { progressBar } from '../../../src/cli/terminal/print.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { type HostedVault, hostedHeader, hostedKey, openHostedVault } from '../../support/hosted-vault.ts';
import { keyPattern } from '../../support/program.ts';
import { type ApiShell, apiShell, type ShellOptions } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
let vault: HostedVault;
let folder: string;
let key: string;
let importer: ApiShell;
beforeEach(async () => {
  vault = openHostedVault();
  folder = temporaryFolder();
  ({ key } = await server.tenant());
  const tokens = ['token:create', 'token:read', 'token:delete'];
  const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: tokens }];
  const permissions = ['application:create', 'application:read'];
  importer = apiShell(server.url, (await server.application(key, { permissions, rules })).key);
});

function runImport(options: string[], shellOptions: ShellOptions = {}) {
  const source = ['--from-url', vault.url, '--from-key-header', hostedHeader];
  const env = { SALLYPORT_SOURCE_KEY: hostedKey };
  return importer.call(['import', ...source, '--keys-dir', join(folder, 'keys'), ...options], {
    env,
    ...shellOptions,
  });
}
const json = async (options: string[]) => JSON.parse((await runImport([...options, '--json'])).out);
const stored = async (path: string) => (await server.call('GET', path, { key })).body;

const card = (number: number, fields: object = {}) => ({
  id: `card-${number}`,
  tenant_id: 'theirs',
  type: 'card_number',
  containers: ['/pci/high/'],
  data: `424242424242${1000 + number}`,
  mask: '{{ data | reveal_last: 4 }}',
  metadata: { customer: String(number) },
  fingerprint: 'f9',
  search_indexes: [],
  created_at: '2020-01-01T00:00:00Z',
  ...fields,
});

describe('150 tokens of a vault with `containers` and without a cursor', () => {
  beforeEach(() => {
    for (let number = 1; number <= 150; number++) vault.tokens.push(card(number));
  });

  test('are all copied with ids, containers, masks and metadata, and read back', async () => {
    const { code, out, err } = await runImport(['--yes']);
    expect([code, err]).toEqual([0, '']);
    expect(out).toBe(
      [
        'applications  0 of 0 read: none',
        'tokens        150 of 150 read: 150 copied',
        'verified      150 tokens are equal in source and target',
        'not copied    fingerprint (150)',
        'result        complete',
        '',
      ].join('\n'),
    );
    const { pagination, data } = await stored('/tokens?container=/pci/high/&size=1');
    expect(pagination.total_items).toBe(150);
    expect(data[0]).toMatchObject({ type: 'card_number', mask: card(1).mask, container: '/pci/high/' });
    const { body } = await server.call('GET', '/tokens/card-7', { key });
    expect(body).toMatchObject({ data: 'XXXXXXXXXXXX1007', metadata: { customer: '7' } });
  });

  test('a dry run changes nothing and prints what the import would do', async () => {
    const report = await json(['--dry-run']);
    expect(report).toMatchObject({
      complete: true,
      dry_run: true,
      tokens: { read: 150, copied: 150, verified: 0 },
    });
    expect((await stored('/tokens')).pagination.total_items).toBe(0);
  });

  test('an interrupted import continues: only missing tokens are copied', async () => {
    const paths = ['/applications/key', '/applications', '/tokens?size=1', '/tokens?page=1&size=100'];
    const headers = { [hostedHeader]: hostedKey };
    const responses = await Promise.all(paths.map((path) => fetch(vault.url + path, { headers })));
    vault.responses.push(...responses, new Response('', { status: 403 }));
    const interrupted = await runImport(['--yes']);
    expect([interrupted.code, interrupted.out]).toEqual([4, '']);
    expect(interrupted.err).toContain('GET /tokens of the source failed: status 403');
    const copied = (await stored('/tokens')).pagination.total_items;
    expect([copied > 0, copied < 150]).toEqual([true, true]);
    const { tokens } = await json(['--yes']);
    expect(tokens).toMatchObject({ copied: 150 - copied, unchanged: copied, verified: 150, in_source: 150 });
  });

  test('a temporary failure of the source is retried', async () => {
    const busy = () => new Response('', { status: 429, headers: { 'Retry-After': '0' } });
    vault.responses.push(busy(), busy());
    expect((await runImport(['--yes'])).code).toBe(0);
  });

  test('a changed token is reported, and replaced with --replace', async () => {
    await runImport(['--yes']);
    vault.tokens[0] = card(1, { data: '5555555555554444' });
    vault.tokens[1] = card(2, { metadata: {} });
    const { code, out, err } = await runImport(['--yes']);
    expect(code).toBe(1);
    expect(out).toContain('150 of 150 read: 148 unchanged, 2 different');
    expect(err).toBe(
      'sallyport: warning: token card-1 is in the target with another data\n' +
        'sallyport: warning: token card-2 is in the target with another metadata\n',
    );
    const replaced = await json(['--yes', '--replace']);
    expect(replaced).toMatchObject({
      complete: true,
      tokens: { replaced: 2, unchanged: 148, verified: 150 },
    });
    expect((await stored('/tokens/card-1')).data).toBe('XXXXXXXXXXXX4444');
  });

  test('a source that lists fewer tokens than it counts is reported', async () => {
    const page = { pagination: { total_items: 150, total_pages: 1 }, data: vault.tokens.slice(0, 100) };
    const own = { rules: [{ priority: 1, transform: 'reveal', permissions: ['token:read'] }] };
    vault.responses.push(...[own, { data: [] }, page, page].map((body) => Response.json(body)));
    const { code, err } = await runImport(['--yes']);
    expect([code, err]).toEqual([
      1,
      'sallyport: warning: only 100 of 150 tokens of the source could be read\n',
    ]);
  });
});

test('containers and permissions are mapped, in tokens and in rules', async () => {
  const rule = {
    priority: 1,
    transform: 'reveal',
    container: '/PCI/',
    require_purpose: true,
    permissions: ['token:read', 'token:use'],
  };
  vault.applications.push({
    id: 'a',
    name: 'till',
    type: 'private',
    permissions: ['proxy:invoke'],
    rules: [rule],
  });
  vault.applications.push({ id: 'm', name: 'boss', type: 'management', permissions: ['application:read'] });
  vault.tokens.push(card(1), card(2, { containers: ['/other/'] }), card(3, { containers: ['PCI'] }));
  const unknown = await runImport(['--yes']);
  expect([unknown.code, unknown.out]).toEqual([2, '']);
  expect(unknown.err).toContain(
    'application "till" rules.0.destinations is required in a rule that grants token:use',
  );
  expect((await stored('/tokens')).pagination.total_items).toBe(0);
  const mapping = [
    '--map-permission',
    'token:use=',
    '--map-container',
    '/pci/=/cards/eu',
    '--map-container',
    '/=/old/',
  ];
  const report = await json(['--yes', ...mapping]);
  expect(report).toMatchObject({
    complete: true,
    applications: { read: 2, created: 1, skipped: 1 },
    not_copied: { 'permission token:use': 1, fingerprint: 3 },
  });
  const [till] = (await stored('/applications?name=till')).data;
  expect(till).toMatchObject({
    permissions: ['proxy:invoke'],
    rules: [{ container: '/cards/eu/', require_purpose: true, permissions: ['token:read'] }],
  });
  const containers = (await stored('/tokens')).data.map(({ id, container }: Record<string, string>) => [
    id,
    container,
  ]);
  expect(Object.fromEntries(containers)).toEqual({
    'card-1': '/cards/eu/high/',
    'card-2': '/old/other/',
    'card-3': '/cards/eu/',
  });
});

describe('applications', () => {
  const till = { id: 'a', name: 'till', type: 'private', permissions: ['token:read'] };

  test('get new keys in files, and are not created twice', async () => {
    vault.applications.push(till);
    const first = await runImport(['--yes']);
    expect(first.out).not.toMatch(keyPattern);
    expect(readdirSync(join(folder, 'keys'))).toEqual(['till.key']);
    expect(statSync(join(folder, 'keys/till.key')).mode & 0o777).toBe(0o600);
    const issued = readFileSync(join(folder, 'keys/till.key'), 'utf8').trim();
    expect((await server.call('GET', '/tokens', { key: issued })).status).toBe(200);
    expect(await json(['--yes'])).toMatchObject({
      complete: true,
      applications: { created: 0, unchanged: 1 },
    });
  });

  test('that exist with other grants are reported and not changed', async () => {
    const { id } = await server.application(key, { name: 'till', permissions: ['token:create'] });
    vault.applications.push(till);
    const { code, err } = await runImport(['--yes']);
    expect([code, err]).toEqual([
      1,
      'sallyport: warning: application "till" exists with other grants: permission token:create; permission token:read\n',
    ]);
    expect((await stored(`/applications/${id}`)).permissions).toEqual(['token:create']);
  });

  test('that expired are counted, and fewer than the source counts are reported', async () => {
    vault.applications.push(till, { ...till, id: 'b', name: 'old', expires_at: '2020-01-01T00:00:00Z' });
    const report = await json(['--yes']);
    expect(report).toMatchObject({
      complete: true,
      applications: { read: 2, created: 1, expired: 1, in_source: 2 },
    });
    const own = { rules: [{ priority: 1, transform: 'reveal', permissions: ['token:read'] }] };
    const page = { pagination: { total_pages: 1 }, data: [till] };
    vault.responses.push(...[own, page].map((body) => Response.json(body)));
    const { code, err } = await runImport(['--yes']);
    expect([code, err]).toEqual([
      1,
      'sallyport: warning: only 1 of 2 applications of the source could be read\n',
    ]);
  });

  test('are left out with --only tokens, and tokens with --only applications', async () => {
    vault.applications.push(till);
    vault.tokens.push(card(1));
    await runImport(['--yes', '--only', 'tokens']);
    expect([(await stored('/applications?name=till')).data, (await stored('/tokens')).data.length]).toEqual([
      [],
      1,
    ]);
    const report = await json(['--yes', '--only', 'applications']);
    expect(report).toMatchObject({ complete: true, applications: { created: 1 }, tokens: { read: 0 } });
  });
});

test('tokens with max_uses are copied with it, and compared by what can be read', async () => {
  vault.tokens.push(card(1, { max_uses: 2 }));
  expect(await json(['--yes'])).toMatchObject({ complete: true, tokens: { copied: 1, verified: 1 } });
  expect(await stored('/tokens/card-1')).toMatchObject({ max_uses: 2, uses: 0, data: 'XXXXXXXXXXXX1001' });
  expect(await json(['--yes'])).toMatchObject({ complete: true, tokens: { copied: 0, unchanged: 1 } });
  vault.tokens.push(card(2, { max_uses: 2, uses: 0, data: 'XXXX' }));
  const { complete, failures } = await json(['--yes']);
  expect([complete, failures]).toMatchObject([false, [{ id: 'card-2', code: 'data_missing' }]]);
});

test('the import asks first, and needs --yes without a terminal', async () => {
  vault.tokens.push(card(1));
  expect((await runImport([])).code).toBe(2);
  const no = await runImport([], { answers: ['n'] });
  expect([no.code, no.err]).toEqual([1, expect.stringContaining('Create 0 applications and copy 1 tokens?')]);
  expect((await stored('/tokens')).data).toEqual([]);
});

test('a source key that does not reveal all tokens is rejected', async () => {
  const other = await server.tenant();
  const weak = await server.application(other.key, { permissions: ['token:read', 'application:read'] });
  writeFileSync(join(folder, 'weak.key'), weak.key);
  const argv = ['import', '--from-url', server.url, '--from-key-file', join(folder, 'weak.key'), '--yes'];
  const { code, err } = await importer.call(argv);
  expect([code, err]).toEqual([1, expect.stringContaining('the source key does not reveal all tokens')]);
});

test('the progress bar shows count and share', () => {
  expect(progressBar('tokens', 600, 1200)).toBe('tokens [##########          ] 600 of 1200 (50 %)');
  expect(progressBar('tokens', 1200, 1200)).toBe('tokens [####################] 1200 of 1200 (100 %)');
  expect(progressBar('tokens', 7, undefined)).toBe('tokens: 7');
});
