/** Calls the guarded handler as Next.js does: with the request and the parameters of the route. */
import { expect, test } from 'bun:test';
import { guardNext } from '../../sdk/src/guard.ts';
import { Sallyport } from '../../sdk/src/sallyport.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

const server = await openTestServer(sqlite);
const { key } = await server.tenant();
const rules = [{ priority: 1, container: '/files/42/', transform: 'mask', permissions: ['file:read'] }];
const reader = (await server.application(key, { permissions: undefined, rules })).key;
const client = new Sallyport({ url: server.url, key });
const guarded = guardNext(
  {
    client,
    permission: 'file:read',
    fields: ['iban'],
    resource: ({ params }) => ({ container: `/files/${params.path}/` }),
  },
  (_, __, decision) => Response.json({ iban: 'DE02120300000000202051', transform: decision.transform }),
);
const get: (
  path: string,
  params: Parameters<ReturnType<typeof guardNext>>[1]['params'],
) => Promise<Response> = (path, params) =>
  guarded(new Request(`http://localhost${path}`, { headers: { 'SVC-API-KEY': reader } }), { params });

test.each([
  ['an object', { path: ['42', 'invoices'] }],
  ['a promise', Promise.resolve({ path: '42' })],
])('parameters as %s decide about the resource, and the response is filtered', async (_, params) => {
  const response = await get('/api/files/42', params);
  expect(response.status).toBe(200);
  const body = await response.json();
  expect(body.transform).toBe('mask');
  expect(body.iban).not.toBe('DE02120300000000202051');
});

test('other parameters are denied', async () => {
  expect((await get('/api/files/43', { path: '43' })).status).toBe(403);
  expect((await get('/api/files', undefined)).status).toBe(403);
});
