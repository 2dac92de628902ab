import { beforeEach, expect, test } from 'bun:test';
import { unknownKey } from '../../support/keys.ts';
import { type ApiShell, apiShell, shell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
let key: string;
let call: ApiShell['call'];
let json: ApiShell['json'];
let shop: { id: string; key: string };
beforeEach(async () => {
  ({ key } = await server.tenant());
  ({ call, json } = apiShell(server.url, key));
  shop = await server.application(key, { name: 'shop', permissions: ['application:read'] });
});

const works = async (candidate: string) =>
  (await server.call('GET', '/applications/key', { key: candidate })).status === 200;

test('a key is created, listed by its ending, and an older one deleted', async () => {
  const created = await json(['keys', 'create', 'shop']);
  const listed = await call(['keys', 'list', shop.id]);
  expect(listed.out).not.toContain(created.key);
  const [head, first, second] = listed.out.split('\n');
  expect(head).toMatch(/^ID +ENDS WITH +CREATED +LAST USED +EXPIRES +BY$/);
  expect(first).toContain(`${created.id}  ${created.ending}`);
  expect(second).toContain(shop.key.slice(-4));
  expect(second).toContain('never');
  expect((await call(['keys', 'delete', 'shop', shop.key.slice(-4), '--yes'])).code).toBe(0);
  expect([await works(shop.key), await works(created.key)]).toEqual([false, true]);
});

test('a key can be created with an expiry and an overlap, given as times or durations', async () => {
  const expires_at = '2030-01-31T12:00:00.000Z';
  const created = await json(['keys', 'create', 'shop', '--expires-at', expires_at]);
  expect(created.expires_at).toBe(expires_at);
  const listed = await call(['keys', 'list', 'shop']);
  expect(listed.out).toContain(expires_at);
  const before = Date.now();
  const { code, err } = await call(['apps', 'regenerate', 'shop', '--old-keys-expire-at', '24h'], {
    answers: ['y'],
  });
  expect(code).toBe(0);
  const asked = /All older keys expire at (.*Z)\./.exec(err)?.[1] ?? '';
  expect(Date.parse(asked)).toBeGreaterThanOrEqual(before + 86_400_000);
  const keys = await json(['keys', 'list', 'shop']);
  expect(keys.map((each: { expires_at?: string }) => each.expires_at)).toEqual([undefined, asked, asked]);
  expect(await works(shop.key)).toBe(true);
});

test('a leaked key is revoked from standard input, without another key', async () => {
  const env = { SALLYPORT_URL: server.url };
  const revoke = (stdin: string) => shell(['keys', 'revoke'], { env, stdin });
  expect(await revoke(`${shop.key}\n`)).toMatchObject({
    code: 0,
    out: 'the key is no longer accepted\n',
    err: '',
  });
  expect(await works(shop.key)).toBe(false);
  expect((await revoke(shop.key)).code).toBe(0);
  for (const text of [key.slice(0, -1), unknownKey('non').secret.reveal()]) {
    const { code, err } = await revoke(text);
    expect([code, err]).toEqual([2, expect.stringContaining('not a complete key')]);
    expect(err).not.toContain(text);
  }
  expect(await works(key)).toBe(true);
  expect(await shell(['keys', 'revoke', shop.key], { env })).toMatchObject({ code: 2 });
});

test('deleting a key asks for confirmation and warns if it is the only one', async () => {
  const { code, err } = await call(['keys', 'delete', 'shop', shop.key.slice(-4)], { answers: ['n'] });
  expect(code).toBe(1);
  expect(err).toContain(`Revoke the key …${shop.key.slice(-4)} of "shop"? It is the only key. [y/N]`);
  expect(await works(shop.key)).toBe(true);
});

test('deleting an unknown key exits with 4', async () => {
  const { code, err } = await call(['keys', 'delete', 'shop', 'none', '--yes']);
  expect([code, err]).toEqual([4, expect.stringContaining('"shop" has no key "none" (not_found)')]);
});
