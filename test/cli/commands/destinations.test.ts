/** `sallyport destinations …`, and the options of other commands that name a destination. */

import { beforeEach, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/cleanup.ts';
import { chargeRequest, tokenUseRule } from '../../support/destination-receiver.ts';
import { type ApiShell, apiShell, shell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const secret = 'Bearer sk_live_51HhTbqF';
const requests = [chargeRequest, { method: 'GET', path: '/v1/charges/:id' }];
let key: string;
let call: ApiShell['call'];
let json: ApiShell['json'];
beforeEach(async () => {
  ({ key } = await server.tenant());
  ({ call, json } = apiShell(server.url, key));
});

const path = (name: string) => join(folder, name);

const server = await openTestServer(sqlite);
const folder = temporaryFolder();
writeFileSync(path('payments.json'), JSON.stringify({ name: 'payments', requests }));
writeFileSync(path('secret'), `${secret}\n`);
const origin = 'https://api.payments.example';
const created = (...more: string[]) =>
  json(['destinations', 'create', '--file', path('payments.json'), '--origin', origin, ...more]);

test('a destination is created, shown, listed, updated and deleted by name, and its secrets are never printed', async () => {
  const one = await created('--header-file', `authorization=${path('secret')}`);
  expect(one).toMatchObject({
    name: 'payments',
    origin,
    header_names: ['authorization'],
    etag: expect.any(String),
  });
  expect(await json(['destinations', 'get', 'payments'])).toEqual(one);
  const { out } = await call(['destinations', 'get', one.id]);
  for (const line of [
    'POST /v1/charges/:id: inserts /card/number from /number, header:x-card from /number after "Card "; query expand; headers accept-language; returns the status, /id, header:request-id',
    'GET /v1/charges/:id: returns the status',
    'authorization',
    '25 s',
  ])
    expect(out).toContain(line);
  expect((await call(['destinations', 'list'])).out).toContain('POST /v1/charges/:id, GET /v1/charges/:id');
  const renamed = await json(['destinations', 'update', 'payments', '--name', 'charges']);
  expect(renamed).toMatchObject({ id: one.id, requests: one.requests, header_names: ['authorization'] });
  expect((await call(['destinations', 'update', 'charges'])).code).toBe(2);
  expect((await call(['destinations', 'delete', 'charges'], { answers: ['n'] })).code).toBe(1);
  const printed = [one, renamed, out].map((each) => JSON.stringify(each)).join('');
  expect(printed).not.toContain('sk_live');
  expect(await json(['destinations', 'delete', 'charges', '--yes'])).toEqual({ deleted: one.id });
  const gone = await call(['destinations', 'get', 'charges']);
  expect([gone.code, gone.err]).toEqual([4, expect.stringContaining('no destination named "charges"')]);
});

test('headers come from files or standard input, and replace all headers of the destination', async () => {
  await created('--header-file', `authorization=${path('secret')}`);
  const update = ['destinations', 'update', 'payments'];
  const other = await json([...update, '--header-file', 'x-api-key=-'], { stdin: 'k-1\n' });
  expect(other.header_names).toEqual(['x-api-key']);
  const missing = await call([...update, '--header-file', 'x-api-key=none']);
  expect([missing.code, missing.err]).toEqual([2, expect.stringContaining('no such file')]);
});

const preset = (...more: string[]) => ['destinations', 'create', '--preset', ...more];
const withKey = (...more: string[]) => preset(...more, '--key-file', path('secret'));

test.each([
  ['adyen', 'x-api-key'],
  ['anthropic', 'authorization'],
  ['github', 'authorization'],
  ['openai', 'authorization'],
  ['slack', 'authorization'],
  ['stripe', 'authorization'],
])('the preset %s makes a destination with a key in %s, and is shown before', async (name, header) => {
  const { code, out } = await call(withKey(name, '--json'));
  expect([code, JSON.parse(out)]).toMatchObject([0, { name, header_names: [header] }]);
  expect(out).not.toContain('sk_live');
  const shown = await call(['destinations', 'presets', name, '--json']);
  const { requests, headers, ...allowed } = JSON.parse(shown.out);
  expect(headers).toBeUndefined();
  expect(JSON.parse(out)).toMatchObject(allowed);
  const text = (await call(['destinations', 'presets', name])).out;
  for (const { method, path } of requests) expect(text).toContain(`${method} ${path}: `);
  expect((await call(['destinations', 'presets'])).out).toContain(`${name} `);
});

test('a preset is narrowed to groups, and other options override it', async () => {
  const one = await json(
    withKey('stripe', '--only', 'refunds', '--only', 'cards', '--name', 'cards', '--origin', origin),
  );
  expect(one).toMatchObject({ name: 'cards', origin, header_names: ['authorization'] });
  const names = one.requests.map(({ name }: { name: string }) => name);
  expect(names).toEqual(['create_refund', 'get_refund', 'create_payment_method', 'attach_payment_method']);
  const shown = await json(['destinations', 'presets', 'stripe', '--only', 'refunds']);
  expect(shown.requests.map(({ name }: { name: string }) => name)).toEqual(['create_refund', 'get_refund']);
});

test.each([
  ['an unknown preset', () => withKey('unknown'), 'adyen, anthropic'],
  ['an unknown group', () => withKey('stripe', '--only', 'refund'), 'no such group'],
  ['no key', () => preset('stripe'), '--preset needs the key'],
  [
    '--only without a preset',
    () => ['destinations', 'create', '--file', path('payments.json'), '--only', 'cards'],
    '--only needs',
  ],
  ['a key of Sallyport as the key', () => preset('stripe', '--key-file', path('own')), 'a key of Sallyport'],
])('a preset with %s is an error, and nothing is created', async (_, args, message) => {
  writeFileSync(path('own'), key);
  const { code, err } = await call(args());
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
  expect(err).not.toContain(key);
  expect(await json(['destinations', 'list'])).toEqual([]);
});

test('an update with the etag of an older version changes nothing', async () => {
  const { etag } = await created();
  const update = (...more: string[]) => call(['destinations', 'update', 'payments', ...more]);
  expect((await update('--name', 'payments', '--if-match', etag)).code).toBe(0);
  const stale = await update('--name', 'other', '--if-match', etag);
  expect([stale.code, stale.err]).toEqual([4, expect.stringContaining('changed_meanwhile')]);
  expect((await json(['destinations', 'get', 'payments'])).name).toBe('payments');
});

test('`access who` and `can` name a destination, and a shell completes its name', async () => {
  const { id } = await created();
  const rules = [tokenUseRule('/cards/', [id])];
  const shop = await server.application(key, { name: 'shop', permissions: [], rules });
  const who = ['access', 'who', '--container', '/cards/', '--destination', 'payments'];
  const { out } = await call([...who, '--json']);
  expect(JSON.parse(out)).toMatchObject([
    { subject: { id: shop.id }, permission: 'token:use', transform: 'redact' },
  ]);
  const can = ['can', 'token:use', '--app', 'shop', '--container', '/cards/'];
  expect((await call([...can, '--destination', 'payments'])).code).toBe(0);
  expect((await call(can)).code).toBe(5);
  const credential = { SALLYPORT_CREDENTIAL: shop.key };
  const asked = ['can', 'token:use', '--container', '/cards/', '--destination', 'payments'];
  expect((await call(asked, { env: credential })).code).toBe(0);
  const env = { SALLYPORT_URL: server.url, SALLYPORT_KEY: key };
  const suggested = await shell(['__complete', 'destinations', 'get', 'pay'], { env });
  expect(suggested.out).toBe(`payments\t${origin}\n`);
});
