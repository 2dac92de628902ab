/** A shop with frames: a page and a backend on one origin, and the service's frames on another. */
import { authorizeSession, Sallyport, type SessionAuthorize } from '../../sdk/src/sallyport.ts';
import { openTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { openTestServer, sqlite, type TestServer } from './test-server.ts';

export interface FramesSite {
  readonly server: TestServer;
  /** The origin of the frames. */
  readonly frames: string;
  /** The origin of the page. */
  readonly shop: string;
  /** An origin that is not in `allowed_origins`, with the same page. */
  readonly otherSite: string;
  readonly publicKey: string;
  readonly admin: Sallyport;
  /** Reads the plaintext of tokens below /cards/. */
  readonly reader: Sallyport;
  /** Between the browser and the frames. */
  readonly proxy: TcpProxy;
  /** The grants of the next sessions. If undefined, the backend refuses them. */
  grant: Omit<SessionAuthorize, 'nonce'> | undefined;
  readonly nonces: string[];
  /** The script of the page `/with/NAME`, by name. */
  readonly scripts: Map<string, string>;
  close(): Promise<void>;
}

const inCards = { attribute: 'container', operator: 'starts_with', value: '/cards/' } as const;

/** May create tokens below /cards/ and read them masked. */
export const collectingGrant: Omit<SessionAuthorize, 'nonce'> = {
  rules: [
    { priority: 1, transform: 'mask', permissions: ['token:create', 'token:read'], conditions: [inCards] },
  ],
};

/** May reveal tokens below /cards/, with a purpose. */
export const revealingGrant: Omit<SessionAuthorize, 'nonce'> = {
  rules: [
    {
      priority: 1,
      transform: 'reveal',
      require_purpose: true,
      permissions: ['token:read'],
      conditions: [inCards],
    },
  ],
};

export async function openFramesSite(): Promise<FramesSite> {
  // The service must know the origin of the frames before it listens.
  const proxy = await openTcpProxy(1);
  const frames = `http://localhost:${proxy.port}`;
  const server = await openTestServer(sqlite, { SALLYPORT_FRAMES_URL: frames });
  // The browser's clock is the real one.
  server.clock.jump(Date.now() - server.clock.now());
  proxy.setTarget(Number(new URL(server.url).port));
  const admin = new Sallyport({ url: server.url, key: (await server.tenant()).key });

  const serve = (): Bun.Server<undefined> =>
    Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const { pathname } = new URL(request.url);
        const [, name = '', extension] = /^\/with\/(\w+)(\.js)?$/.exec(pathname) ?? [];
        if (extension)
          return new Response(site.scripts.get(name) ?? '', {
            headers: { 'Content-Type': 'text/javascript' },
          });
        if (pathname === '/' || name !== '')
          return new Response(pageWith(name === '' ? '/page.js' : `${pathname}.js`), {
            headers: pageHeaders(frames),
          });
        if (pathname === '/outer')
          return new Response(
            `<!doctype html><title>Outer</title><iframe src="${shop.url.origin}/"></iframe>`,
            {
              headers: { 'Content-Type': 'text/html' },
            },
          );
        if (pathname === '/page.js')
          return new Response(
            `import * as sallyport from '${frames}/frames/v1/sdk.js'; Object.assign(window, { sallyport });`,
            {
              headers: { 'Content-Type': 'text/javascript' },
            },
          );
        if (pathname === '/page.css')
          return new Response(styles, { headers: { 'Content-Type': 'text/css' } });
        if (pathname !== '/authorize') return new Response(null, { status: 404 });
        const nonce = await request.text();
        site.nonces.push(nonce);
        if (!site.grant) return new Response(null, { status: 403 });
        const { expiresAt } = await authorizeSession(admin, nonce, site.grant);
        return new Response(null, { status: 204, headers: { 'SVC-SESSION-EXPIRES-AT': expiresAt } });
      },
    });
  const [shop, other] = [serve(), serve()];
  const { key: publicKey } = await admin.applications.create({
    name: 'shop',
    type: 'public',
    permissions: ['token:create'],
    allowed_origins: [shop.url.origin],
    require_bound_sessions: true,
  });
  const reader = await admin.applications.create({
    name: 'reader',
    type: 'private',
    rules: [{ priority: 1, container: '/cards/', transform: 'reveal', permissions: ['token:read'] }],
  });
  const site: FramesSite = {
    server,
    frames,
    shop: shop.url.origin,
    otherSite: other.url.origin,
    publicKey,
    admin,
    reader: new Sallyport({ url: server.url, key: reader.key }),
    proxy,
    grant: collectingGrant,
    nonces: [],
    scripts: new Map(),
    close: async () => {
      await Promise.all([shop.stop(true), other.stop(true)]);
      await server.close();
      await proxy.close();
    },
  };
  return site;
}

function pageHeaders(frames: string): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `script-src 'self' ${frames}`,
    "style-src 'self'",
    'img-src data:',
    `connect-src 'self' ${frames}`,
    `frame-src ${frames}`,
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
  return { 'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': policy };
}

const pageWith = (script: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Shop</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/page.css">
<script type="module" src="${script}"></script>
</head>
<body>
<main>
<h1>Pay</h1>
<form>
<div class="row"><span id="number-label">Card number</span><div id="number"></div></div>
<div class="row"><span id="expiry-label">Expiry</span><div id="expiry"></div></div>
<div class="row"><span id="code-label">Security code</span><div id="code"></div></div>
<div class="row"><label for="name">Name</label><input id="name" autocomplete="name"></div>
<button type="button" id="pay">Pay</button>
</form>
<div id="second"></div>
<div id="shown"></div>
</main>
</body>
</html>
`;

const styles = `
:root { color-scheme: light dark; font-family: system-ui, sans-serif }
main { max-width: 420px; margin: 24px auto; padding: 0 16px }
.row { margin-bottom: 12px }
.row > div, input { border: 1px solid GrayText; border-radius: 6px; width: 100%; box-sizing: border-box }
`;
