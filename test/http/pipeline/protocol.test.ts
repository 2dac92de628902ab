import { describe, expect, test } from 'bun:test';
import { builtIn } from '../../../src/domain/permission.ts';
import { routes } from '../../../src/http/routes.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const someId = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
const paths = [...Map.groupBy(routes, (route) => route.path)].map(([path, at]): [string, string[]] => {
  // A token may have the id `search`.
  const byId = ['/tokens/search', '/tokens/batch'].includes(path)
    ? routes.filter((route) => route.path === '/tokens/:id')
    : [];
  return [path.replace(':id', someId), [...at, ...byId].map(({ method }) => method)];
});

interface OperationHeaders {
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
}

function namesIn(headers: Headers, name: string): string[] | undefined {
  return headers.get(name)?.split(', ').sort();
}

describe('the protocol', async () => {
  const server = await openTestServer(sqlite);
  const key = (await server.tenant()).key;

  test.each(['x', 'a.b_c:d-9', 'f'.repeat(128), crypto.randomUUID()])(
    'the request id %s is returned',
    async (id) => {
      const good = await server.call('GET', '/livez', { headers: { 'SVC-REQUEST-ID': id } });
      expect(good.headers.get('svc-request-id')).toBe(id);
      const bad = await server.call('GET', '/applications', { headers: { 'SVC-REQUEST-ID': id } });
      expect(bad.body.request_id).toBe(id);
    },
  );

  test.each(['', 'a b', 'a,b', '<script>', 'é', 'f'.repeat(129), '"', '{}'])(
    'the invalid request id %j is replaced by a new one',
    async (id) => {
      const call = () => server.call('GET', '/livez', { headers: { 'SVC-REQUEST-ID': id } });
      const [first, second] = [await call(), await call()];
      expect(first.headers.get('svc-request-id')).not.toBe(id);
      expect(first.headers.get('svc-request-id')).not.toBe(second.headers.get('svc-request-id'));
    },
  );

  test('a problem contains the path without the query', async () => {
    const { body } = await server.call('GET', '/applications?name=secret');
    expect(body.instance).toBe('/applications');
    expect(JSON.stringify(body)).not.toContain('secret');
  });

  test('a successful response is JSON', async () => {
    const { headers } = await server.call('GET', '/applications', { key });
    expect(headers.get('content-type')).toBe('application/json');
  });

  test('the built-in permissions are listed without a key', async () => {
    const { status, body } = await server.call('GET', '/permissions');
    expect(status).toBe(200);
    expect(body.data.map(({ name }: { name: string }) => name)).toEqual(builtIn);
    for (const { description } of body.data) expect(description).toMatch(/^[A-Z].*\.$/);
  });

  test.each(['/permissions', '/permissions/', '/openapi.json'])(
    '%s rejects an unknown parameter',
    async (path) => {
      const { status, body } = await server.call('GET', `${path}?colour=red`);
      expect([status, body.errors]).toEqual([400, { colour: ['is not a known parameter'] }]);
    },
  );

  test.each(['/livez', '/readyz', '/docs'])('%s ignores unknown parameters', async (path) => {
    expect((await server.call('GET', `${path}?t=1`)).status).toBe(200);
  });

  test('HEAD returns the headers of GET', async () => {
    for (const [path, as] of [
      ['/applications', key],
      ['/applications', undefined],
      [`/applications/${someId}`, key],
      ['/livez', undefined],
    ]) {
      const get = await server.call('GET', path as string, { key: as });
      const head = await server.call('HEAD', path as string, { key: as });
      expect(head.status).toBe(get.status);
      expect(head.body).toBe('');
      for (const name of ['content-type', 'content-length', 'www-authenticate']) {
        if (name !== 'content-length' || get.status === 200)
          expect(head.headers.get(name)).toBe(get.headers.get(name));
      }
    }
  });

  test.each(paths)('a CORS preflight of %s needs no key', async (path, own) => {
    const { status, headers } = await server.call('OPTIONS', path, {
      headers: {
        Origin: 'https://shop.example',
        'Access-Control-Request-Method': own[0] as string,
        'Access-Control-Request-Headers': 'svc-api-key, content-type',
      },
    });
    expect(status).toBe(204);
    const allowed = headers.get('access-control-allow-methods')?.split(', ');
    expect(allowed).toEqual(expect.arrayContaining(own));
  });

  test('browsers may send and read every header in the API reference', async () => {
    const { body } = await server.call('GET', '/openapi.json');
    const operations = Object.values<Record<string, OperationHeaders>>(body.paths).flatMap(Object.values);
    const sent = operations
      .flatMap(({ parameters = [] }) => parameters)
      .filter(({ in: place }) => place === 'header')
      .map(({ name }) => name);
    const keys = ['SVC-API-KEY', 'Authorization'];
    const traceHeaders = ['traceparent', 'tracestate', 'baggage'];
    expect(Object.keys(body.components.securitySchemes)).toHaveLength(keys.length);
    const preflight = await server.call('OPTIONS', '/applications');
    expect(namesIn(preflight.headers, 'access-control-allow-headers')).toEqual(
      [...new Set([...sent, ...keys, 'Content-Type', ...traceHeaders])].sort(),
    );
    expect(namesIn(preflight.headers, 'access-control-expose-headers')).toEqual(
      // The paths of destinations are not in the reference.
      [...Object.keys(body.components.headers), 'SVC-DESTINATION'].sort(),
    );
  });

  test.each(paths)('%s returns 405 with Allow for other methods', async (path, own) => {
    const allow = [...own, ...(own.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].sort();
    for (const method of methods.filter((name) => !own.includes(name))) {
      const { status, body, headers } = await server.call(method, path, { key });
      expect([status, body.code]).toEqual([405, 'method_not_allowed']);
      expect(headers.get('allow')?.split(', ').sort()).toEqual(allow);
    }
    if (own.includes('GET')) return;
    expect((await server.call('HEAD', path, { key })).status).toBe(405);
  });

  test.each(paths)('%s accepts a trailing slash', async (path, own) => {
    for (const method of own) {
      for (const as of [key, undefined]) {
        const body = ['POST', 'PUT'].includes(method) ? { colour: 1 } : undefined;
        const without = await server.call(method, path, { key: as, body });
        const behind = await server.call(method, `${path}/`, { key: as, body });
        expect([behind.status, behind.body.code]).toEqual([without.status, without.body.code]);
      }
    }
  });

  test.each([
    ...['/nothing', '/Applications', '/applications//', '/application'],
    ...[`/applications/${someId}/locks`, `/applications/${someId}//`, '/applications/key/regenerate/x'],
    ...['/sessions/authorize/x', '/%61pplications', '/applications%2Fkey', '/.env', '/permissions.json'],
  ])('%s returns 404', async (path) => {
    const { status, body } = await server.call('GET', path, { key });
    expect([status, body.code]).toEqual([404, 'path_unknown']);
  });

  test('an unknown path returns 404 without a key and for every method', async () => {
    for (const method of [...methods, 'OPTIONS'])
      expect((await server.call(method, '/nothing')).status).toBe(404);
  });

  describe('bodies', () => {
    const fields = { name: 'x', type: 'private', permissions: ['token:read'] };
    const post = (body: string | Uint8Array, type?: string) =>
      server.call('POST', '/applications', {
        key,
        body,
        headers: type === undefined ? {} : { 'Content-Type': type },
      });
    const padded = (length: number) => JSON.stringify(fields).padEnd(length, ' ');

    test('of 64 KiB are accepted, and of one byte more rejected', async () => {
      expect((await post(padded(65_536))).status).toBe(201);
      const { status, body } = await post(padded(65_537));
      expect([status, body.code]).toEqual([413, 'too_large']);
      expect(body.detail).toContain('65536');
    });

    test('that are too large are rejected before their type is checked', async () => {
      expect((await post('x'.repeat(70_000), 'text/plain')).status).toBe(413);
    });

    test.each([
      'application/json',
      'Application/JSON',
      'application/json;charset=utf-8',
      'application/json; charset="UTF-8"',
      'application/json ; charset=utf-8',
    ])('of type %s are taken', async (type) => {
      expect((await post(JSON.stringify(fields), type)).status).toBe(201);
    });

    test.each([
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonp',
      'application/json, application/json',
      'application/json; charset=latin1',
      'application/json; charset=utf-8; charset=latin1',
      'text/json',
      `application/json${' '.repeat(10_000)}x`,
    ])('of type %s are rejected', async (type) => {
      const { status, body } = await post(JSON.stringify(fields), type);
      expect([status, body.code]).toEqual([415, 'unsupported_media_type']);
    });

    test('without a content type are rejected', async () => {
      const answer = await fetch(`${server.url}/applications`, {
        method: 'POST',
        headers: { 'SVC-API-KEY': key },
        body: new TextEncoder().encode(JSON.stringify(fields)),
      });
      expect(answer.status).toBe(415);
    });

    test('may start with a byte order mark', async () => {
      expect((await post(`\ufeff${JSON.stringify(fields)}`)).status).toBe(201);
    });

    test('of GET and DELETE are ignored', async () => {
      const created = await server.application(key);
      const headers = { 'Content-Type': 'text/plain' };
      expect(
        (await server.call('DELETE', `/applications/${created.id}`, { key, body: 'x', headers })).status,
      ).toBe(204);
    });
  });
});
