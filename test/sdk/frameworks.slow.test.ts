/** Runs the guards in Node, in every supported framework. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { authorizeSession, Sallyport, startSession } from '../../sdk/src/sallyport.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { installSdk } from '../support/install-sdk.ts';
import { installPackages, offline } from '../support/packages.ts';
import { rawRequest } from '../support/raw-http.ts';
import { root } from '../support/service.ts';
import { openTestServer, sqlite, type TestServer } from '../support/test-server.ts';

const home = join(import.meta.dirname, 'frameworks');

const iban = 'DE02120300000000202051';
const nestVersions = offline ? [] : ['NestJS 10', 'NestJS 11'];
const frameworks = ['fetch', 'Hono', 'Express 5', 'Express 4', 'Fastify', ...nestVersions];
const nodeStyle = ['Express 5', 'Express 4', ...nestVersions];

/** Returns the folder. */
function installNest(name: string): Promise<string> {
  const version = name.split(' ')[1];
  const packages = ['core', 'common', 'platform-express'].map((part) => `@nestjs/${part}@${version}`);
  return installPackages(...packages, 'reflect-metadata@0.2', 'rxjs@7');
}

/** Customer ids by the transform that applies to them. */
const customers = { redact: 1, mask: 2, reveal: 3, nothing: 4 } as const;
const whole = { id: 1, iban, issued: '2026-11-15T12:00:00.000Z', lines: [{ iban, big: 1e21 }] };
const expected = {
  redact: { id: 1, issued: whole.issued, lines: [{ big: 1e21 }] },
  mask: { id: 1, iban: '…2051', issued: whole.issued, lines: [{ iban: '…2051', big: 1e21 }] },
  reveal: whole,
};
/** Appended to the real host and port. */
const invalidHosts = [
  '/harmless?',
  '/harmless#',
  '/harmless;',
  '\\harmless?',
  '@',
  '?',
  ' x',
  '%2fharmless',
  ':',
  ',',
];
const transforms = ['redact', 'mask', 'reveal'] as const;
const partialTransforms = ['redact', 'mask'] as const;

describe('guards', () => {
  let folder: string;
  let server: TestServer;
  /** The folders in which NestJS and the SDK are installed, by version. */
  let nest: Record<string, string>;
  let apps: Bun.Subprocess<'pipe', 'pipe', 'inherit'>;
  let ports: Record<string, number>;
  let key: string;
  let guardKey: string;
  let publicKey: string;
  let admin: Sallyport;

  beforeAll(async () => {
    folder = temporaryFolder();
    const [opened, installed, ...projects] = await Promise.all([
      openTestServer(sqlite, { SALLYPORT_SESSION_TTL: '100000' }),
      installSdk(folder),
      ...nestVersions.map(installNest),
    ]);
    server = opened;
    nest = Object.fromEntries(projects.map((project, at) => [nestVersions[at] as string, project]));
    for (const project of projects)
      cpSync(installed, join(project, 'node_modules/@sallyport/sdk'), { recursive: true });
    const { key: adminKey } = await server.tenant();
    admin = new Sallyport({ url: server.url, key: adminKey });
    publicKey = (await server.application(adminKey, { type: 'public' })).key;
    ({ key: guardKey } = await server.application(adminKey, { permissions: ['decision:create'] }));
    const rules = transforms.map((transform) => ({
      priority: 1,
      transform,
      permissions: ['invoice:read'],
      container: `/customers/${customers[transform]}/`,
    }));
    ({ key } = await server.application(adminKey, { permissions: [], rules }));
    apps = Bun.spawn(['node', 'apps.js'], {
      cwd: home,
      env: {
        PATH: process.env.PATH,
        SDK: join(installed, 'dist/esm'),
        NEST: JSON.stringify(nest),
        URL: server.url,
        KEY: guardKey,
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const { value } = await apps.stdout.getReader().read();
    ports = JSON.parse(new TextDecoder().decode(value));
  });
  afterAll(async () => {
    apps?.stdin.end();
    await apps?.exited;
    await server?.close();
  });

  test('match the types of the frameworks', async () => {
    const check = Bun.spawn([join(root, 'node_modules/.bin/tsc'), '-p', home], { stdout: 'pipe' });
    expect(await new Response(check.stdout).text()).toBe('');
  });

  test.skipIf(offline).each(nestVersions)(
    'the example of the documentation compiles with %s, and filters its response',
    async (version) => {
      const project = nest[version] as string;
      const page = readFileSync(join(root, 'docs/reference/sdk.md'), 'utf8');
      const [, code = ''] = /```ts\n([^`]*@nestjs\/common.*?)```/s.exec(page) ?? [];
      writeFileSync(join(project, 'customers.ts'), code);
      const compilerOptions = {
        ...{
          target: 'ES2022',
          module: 'nodenext',
          strict: true,
          experimentalDecorators: true,
          skipLibCheck: true,
        },
        ...{ typeRoots: [join(root, 'node_modules/@types')], types: ['node'], outDir: 'compiled' },
      };
      writeFileSync(
        join(project, 'tsconfig.json'),
        JSON.stringify({ compilerOptions, files: ['customers.ts'] }),
      );
      const tsc = Bun.spawn([join(root, 'node_modules/.bin/tsc'), '-p', project], { stdout: 'pipe' });
      expect(await new Response(tsc.stdout).text()).toBe('');
      const main = `require('reflect-metadata');
      const { Module } = require('@nestjs/common');
      const { NestFactory } = require('@nestjs/core');
      class App {}
      Module({ controllers: [require('./compiled/customers.js').Customers] })(App);
      NestFactory.create(App, { logger: false }).then(async (app) => {
        await app.listen(0, '127.0.0.1');
        const url = 'http://127.0.0.1:' + app.getHttpServer().address().port + '/customers/${customers.redact}/invoice';
        const response = await fetch(url, { headers: { 'SVC-API-KEY': process.env.CALLER } });
        console.log(JSON.stringify([response.status, await response.json()]));
        process.exit();
      });`;
      writeFileSync(join(project, 'main.cjs'), main);
      const env = { PATH: process.env.PATH, SALLYPORT_URL: server.url, SALLYPORT_KEY: guardKey, CALLER: key };
      const node = Bun.spawn(['node', 'main.cjs'], { cwd: project, env, stdout: 'pipe' });
      expect(JSON.parse(await new Response(node.stdout).text())).toEqual([200, { number: 1 }]);
    },
  );

  describe.each(frameworks)('for %s', (framework) => {
    interface Received {
      readonly status: number;
      readonly text: string;
      readonly headers: Headers;
    }
    async function get(
      as: keyof typeof customers,
      route: string,
      { method = 'GET', headers = { 'SVC-API-KEY': key } as Record<string, string> } = {},
    ): Promise<Received> {
      const url = `http://127.0.0.1:${ports[framework]}/${customers[as]}/${route}`;
      const response = await fetch(url, { method, headers, redirect: 'manual' });
      return { status: response.status, text: await response.text(), headers: response.headers };
    }
    function expectProblem(
      { status, text, headers }: Received,
      expectedStatus: number,
      detail: string | RegExp,
    ): void {
      expect(status).toBe(expectedStatus);
      expect(headers.get('content-type')).toStartWith('application/problem+json');
      expect(headers.get('cache-control')).toBe('no-store');
      expect(JSON.parse(text)).toEqual({
        type: 'about:blank',
        title: expect.any(String),
        status: expectedStatus,
        detail: expect.stringMatching(detail),
        code: expect.stringMatching(/^[a-z_]+$/),
        request_id: expect.any(String),
      });
      expect(text).not.toContain(iban);
    }

    test('an invalid key gets 401, and a denied caller learns neither containers nor rules', async () => {
      expectProblem(await get('mask', 'invoice', { headers: {} }), 401, /valid key/);
      expectProblem(await get('mask', 'invoice', { headers: { 'SVC-API-KEY': 'junk' } }), 401, /valid key/);
      expectProblem(
        await get('nothing', 'invoice'),
        403,
        /^You cannot use `invoice:read` on this resource\.$/,
      );
    });

    test('a bound session is allowed with a proof, and its key and its used proof are not', async () => {
      const sent: Request[] = [];
      const session = await startSession({
        url: server.url,
        publicKey,
        bind: true,
        authorize: (nonce) => authorizeSession(admin, nonce, { permissions: ['invoice:read'] }),
        fetch: ((input: string | Request, init?: RequestInit) => {
          if (typeof input !== 'string') sent.push(input.clone());
          return fetch(input, init);
        }) as typeof globalThis.fetch,
      });
      const url = `http://127.0.0.1:${ports[framework]}/${customers.mask}/invoice?page=1`;
      // The first nonce is too old for the guard, which sends a challenge.
      server.clock.advance(121_000);
      const allowed = await session.fetch(url);
      expect([allowed.status, await allowed.json()]).toEqual([200, expected.mask]);
      expect(sent).toHaveLength(2);
      const replayed = await fetch(sent[1] as Request);
      const challenge = replayed.headers.get('www-authenticate');
      expect([replayed.status, challenge]).toEqual([401, 'DPoP error="invalid_dpop_proof"']);
      expectProblem(
        await get('mask', 'invoice', { headers: { 'SVC-API-KEY': await session.key() } }),
        401,
        '',
      );
      server.clock.advance(61_000);
      expect((await session.fetch(url)).headers.get('dpop-nonce')).toBeString();
    });

    test('a proof for another path is refused, also with a Host header that contains that path', async () => {
      let proven: Request | undefined;
      const session = await startSession({
        url: server.url,
        publicKey,
        bind: true,
        authorize: (nonce) => authorizeSession(admin, nonce, { permissions: ['invoice:read'] }),
        fetch: (async (input: string | Request, init?: RequestInit) => {
          if (typeof input === 'string') return fetch(input, init);
          proven = input;
          return new Response();
        }) as typeof globalThis.fetch,
      });
      const origin = `127.0.0.1:${ports[framework]}`;
      await session.fetch(`http://${origin}/harmless`);
      const send = (target: string, hosts: string[]) =>
        rawRequest(`http://${origin}`, `GET ${target}`, [
          ...hosts.map((host) => `Host: ${host}`),
          `SVC-API-KEY: ${proven?.headers.get('svc-api-key')}`,
          `DPoP: ${proven?.headers.get('dpop')}`,
        ]);
      const target = `/${customers.mask}/invoice`;
      expect((await send(target, [origin])).status).toBe(401);
      for (const hosts of [...invalidHosts.map((host) => [origin + host]), [origin, `${origin}/harmless?`]]) {
        const { status, body } = await send(target, hosts);
        expect([hosts, status, body.includes(iban)]).toEqual([hosts, 400, false]);
      }
    });

    test('requests are denied when no decision can be made', async () => {
      expectProblem(await get('reveal', 'unreachable'), 503, /could not be checked \(unreachable\)/);
      const { status, text } = await get('reveal', 'throwing');
      expect([status, text.includes(iban)]).toEqual([500, false]);
    });

    test('problems have a code, and the request id of the caller or a new one', async () => {
      const codeOf = async (as: keyof typeof customers, route: string, headers: Record<string, string>) => {
        const { text } = await get(as, route, { headers: { ...headers, 'SVC-REQUEST-ID': 'call-7' } });
        const { code, request_id } = JSON.parse(text);
        return [code, request_id];
      };
      const valid = { 'SVC-API-KEY': key };
      expect(await codeOf('mask', 'invoice', {})).toEqual(['unauthenticated', 'call-7']);
      expect(await codeOf('nothing', 'invoice', valid)).toEqual(['permission_missing', 'call-7']);
      expect(await codeOf('mask', 'page', valid)).toEqual(['response_not_filterable', 'call-7']);
      expect(await codeOf('mask', 'unreachable', valid)).toEqual(['unavailable', 'call-7']);
      const headers = { ...valid, 'SVC-REQUEST-ID': 'not valid' };
      const { text } = await get('nothing', 'invoice', { headers });
      expect(JSON.parse(text).request_id).toMatch(/^[0-9a-f]{32}$/);
    });

    test('an async resource can use the request of the framework', async () => {
      for (const transform of transforms) {
        const headers = { 'SVC-API-KEY': key, 'X-User': String(customers[transform]) };
        const { status, text } = await get('nothing', 'user', { headers });
        expect([status, JSON.parse(text)]).toEqual([200, expected[transform]]);
      }
    });

    test('an error in the mask function reaches the error handler and sends no data', async () => {
      for (const route of ['bad-mask', 'bad-mask-stream']) {
        const { status, text } = await get('mask', route);
        expect([status, text.includes(iban)]).toEqual([500, false]);
      }
      expect((await get('reveal', 'bad-mask')).status).toBe(200);
    });

    const bodies = ['invoice', 'text', 'stream'];
    if (nodeStyle.includes(framework)) bodies.push('raw', 'bytes');
    if (framework === 'Fastify') bodies.push('bytes');
    test.each(bodies)('JSON sent as %s is filtered by the transform', async (route) => {
      for (const transform of transforms) {
        const { status, text, headers } = await get(transform, route);
        expect([status, JSON.parse(text)]).toEqual([200, expected[transform]]);
        expect(headers.get('content-type')).toStartWith('application/json');
        expect(headers.get('cache-control')).toBe('no-store');
      }
    });

    const others = ['page', 'file', 'lines', 'broken'];
    if (nodeStyle.includes(framework)) others.push('jsonp?callback=show');
    test.each(others)('a response that is not JSON (%s) is sent whole or denied', async (route) => {
      for (const transform of partialTransforms) {
        const denied = await get(transform, route);
        expectProblem(denied, 403, 'cannot be filtered');
        expect(denied.headers.get('content-disposition')).toBeNull();
      }
      const { status, text } = await get('reveal', route);
      expect([status, text.includes(iban)]).toEqual([200, true]);
    });

    test('a route with notJson: pass sends its pages', async () => {
      const { status, text } = await get('redact', 'open-page');
      expect([status, text]).toEqual([200, `<p>${iban}</p>`]);
    });

    test('errors, redirects and empty responses pass', async () => {
      const problem = await get('mask', 'problem');
      expect([problem.status, JSON.parse(problem.text)]).toEqual([404, expected.mask]);
      expect(await get('mask', 'error')).toMatchObject({ status: 500, text: 'out of order' });
      expect(await get('mask', 'empty')).toMatchObject({ status: 204, text: '' });
      const { status, headers } = await get('mask', 'moved');
      expect([status, headers.get('location')]).toEqual([302, '/elsewhere']);
      expect((await get('mask', 'no-such-response')).status).toBe(500);
    });

    test('a response stream that fails sends none of the buffered data', async () => {
      const seen = await get('mask', 'cut').catch((error: Error) => ({ status: 0, text: error.message }));
      expect(seen.status).not.toBe(200);
      expect(seen.text).not.toContain(iban);
      expect((await get('mask', 'invoice')).status).toBe(200);
    });

    test('the guard still works after a caller disconnects during the decision', async () => {
      const url = `http://127.0.0.1:${ports[framework]}/${customers.mask}/invoice`;
      const leave = new AbortController();
      const gone = fetch(url, { headers: { 'SVC-API-KEY': key }, signal: leave.signal });
      leave.abort();
      expect((await gone.catch((error: Error) => error)) instanceof Error).toBe(true);
      expect((await get('mask', 'invoice')).status).toBe(200);
    });

    if (nodeStyle.includes(framework))
      test('a decision that arrives after the response was sent is ignored', async () => {
        for (const as of ['mask', 'nothing'] as const) {
          expect(await get(as, 'hasty')).toMatchObject({ status: 200, text: 'sent before the guard' });
          for (let i = 0; i < 3; i++) expect((await get('mask', 'invoice')).status).toBe(200);
        }
      });

    test('the headers of a filtered response reveal nothing about the unfiltered one', async () => {
      const all = await get('reveal', 'invoice');
      const headers = { 'SVC-API-KEY': key, 'If-None-Match': all.headers.get('etag') ?? '"whole"' };
      expect((await get('mask', 'invoice', { headers })).status).toBe(200);
      const cached = await get('mask', 'cached');
      expect(cached.headers.get('etag')).not.toBe('"whole"');
      expect(cached.headers.get('cache-control')).toBe('private, max-age=5');
      const head = await get('redact', 'invoice', { method: 'HEAD' });
      expect(head.text).toBe('');
      expect(head.headers.get('content-length')).not.toBe(all.headers.get('content-length') ?? 'none');
    });
  });
});
