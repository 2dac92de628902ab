import { expect, test } from 'bun:test';
import { z } from 'zod';
import { fail } from '../../../src/domain/error.ts';
import { openEndpoint, readEndpoint, reply, route } from '../../../src/http/pipeline/route.ts';
import { openApi } from '../../../src/http/reference/openapi.ts';
import { OpenApi } from '../../support/openapi.ts';
import { parseItem } from '../../support/structured-fields.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const deprecated = { since: '2027-01-31', sunset: '2027-07-31', link: 'https://sallyport.example/changes' };
const docs = { tag: 'Tenants', summary: 'Get the old thing' } as const;
const replies = { 200: reply('The old thing.', z.object({ old: z.boolean() }), { old: true }) };
const handle = async () => ({ status: 200, body: { old: true } });

const routes = [
  route('GET', '/old', 'tenant:read', readEndpoint({ ...docs, name: 'getOld', deprecated, replies, handle })),
  route('GET', '/new', 'tenant:read', readEndpoint({ ...docs, name: 'getNew', replies, handle })),
  route(
    'GET',
    '/broken',
    'no key',
    openEndpoint({
      ...docs,
      name: 'getBroken',
      deprecated,
      replies: {},
      failures: ['not_found'],
      handle: () => Promise.reject(fail('not_found')),
    }),
  ),
];

const server = await openTestServer(sqlite, {}, undefined, { routes });

test('a deprecated endpoint says since when, until when and where to read about it, also in errors', async () => {
  const { key } = await server.tenant();
  for (const [path, status] of [
    ['/old', 200],
    ['/old?x=1', 400],
    ['/broken', 404],
  ] as const) {
    const { status: actual, headers } = await server.call('GET', path, { key });
    expect(actual).toBe(status);
    expect(parseItem(headers.get('deprecation') ?? '')).toBe('@1801353600');
    expect(headers.get('sunset')).toBe('Sat, 31 Jul 2027 00:00:00 GMT');
    expect(headers.get('link')).toBe('<https://sallyport.example/changes>; rel="deprecation"');
    expect(headers.get('access-control-expose-headers')).toEndWith(', Deprecation, Sunset, Link');
  }
  const { headers } = await server.call('GET', '/new', { key });
  for (const name of ['deprecation', 'sunset', 'link']) expect(headers.get(name)).toBeNull();
  expect(headers.get('access-control-expose-headers')).not.toContain('Sunset');
});

test('a deprecated endpoint is marked in the OpenAPI document', () => {
  const document = openApi(routes, '1.2.3');
  expect(OpenApi.safeParse(document).error?.issues).toBeUndefined();
  const { '/old': old, '/new': other } = document.paths;
  expect(old?.get?.deprecated).toBe(true);
  expect(old?.get?.description).toContain('Deprecated since 2027-01-31, and available until 2027-07-31');
  expect(other?.get).not.toHaveProperty('deprecated');
});
