/**
 * `destination`: an HTTPS server with a fixed reply. `proxy`: a bare `Bun.serve` that reads the key from the request
 * headers, sends the body to the destination with `fetch` and returns its reply. Standard input has the options.
 */
export interface TlsOptions {
  readonly role: 'destination' | 'proxy';
  readonly ca: string;
  readonly certificate: string;
  readonly key: string;
  /** Only for the proxy. */
  readonly origin?: string;
}

if (import.meta.main) {
  const { role, ca, certificate, key, origin } = (await Bun.stdin.json()) as TlsOptions;
  const { port } = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    ...(role === 'destination' && { tls: { cert: certificate, key } }),
    fetch: async (request) => {
      const body = await request.text();
      if (role === 'destination') return Response.json({ id: 'ch_1', status: 'paid', secret: 'hidden' });
      if (!request.headers.has('svc-api-key')) return new Response('', { status: 401 });
      const { pathname } = new URL(request.url);
      const headers = { 'content-type': 'application/json', authorization: 'Bearer sk_live_12345678' };
      const reply = await fetch(origin + pathname, { method: 'POST', headers, body, tls: { ca } });
      return new Response(await reply.text(), {
        status: reply.status,
        headers: { 'content-type': 'application/json' },
      });
    },
  });
  console.log(`listening on http://127.0.0.1:${port}`);
}
