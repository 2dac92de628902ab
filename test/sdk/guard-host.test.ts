import { expect, test } from 'bun:test';
import { check, guardFetch } from '../../sdk/src/guard.ts';
import { Sallyport } from '../../sdk/src/sallyport.ts';
import { rawRequest } from '../support/raw-http.ts';

const client = new Sallyport({ url: 'http://127.0.0.1:9', key: 'x' });
const options = { client, permission: 'invoice:read', fields: [] };

/** Asks without a key: 401 means that the host was accepted. */
async function statusFor(host: string): Promise<number | undefined> {
  const header = (name: string) => (name === 'host' ? host : undefined);
  const request = { method: 'GET', path: '/secret', header, params: {}, original: undefined };
  const result = await check(options, request);
  return result.allowed ? undefined : result.status;
}

test.each([
  'shop.example',
  'SHOP.example:443',
  'localhost',
  'a_b',
  'a.',
  '127.0.0.1:80',
  '[::1]',
  '[::1]:8080',
])('a guard accepts the host %j', async (host) => {
  expect(await statusFor(host)).toBe(401);
});

test.each([
  '',
  ' ',
  'a b',
  'a,b',
  'a, a',
  'a/',
  'a/harmless?',
  'a?',
  'a#',
  'a\\b',
  'user@a',
  'user:secret@a',
  'a%41',
  'a%2fharmless',
  'a:',
  'a:b',
  'a:1:2',
  'a:99999',
  'a:-1',
  '::1',
  '[::1',
  '[::1]x',
  '[::1%25eth0]',
  '[a]',
  '1.2.3.999',
  '\u00e9',
  'a\n',
])('a guard answers 400 to the host %j', async (host) => {
  expect(await statusFor(host)).toBe(400);
});

test('a guarded fetch handler in Bun answers 400 to an invalid host', async () => {
  const fetch = guardFetch(options, () => new Response());
  await using server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch });
  const { status, body } = await rawRequest(server.url.origin, 'GET /secret', ['Host: a/harmless?']);
  expect([status, JSON.parse(body)]).toMatchObject([400, { code: 'host_invalid', status: 400 }]);
  const repeated = await rawRequest(server.url.origin, 'GET /secret', ['Host: a', 'Host: a']);
  expect(repeated.status).toBe(400);
});
