/** Serves Prometheus metrics on a separate port, so that access to them can be restricted separately. */
import type { Observed } from '../../observe.ts';
import type { Server } from './server.ts';

export function listenForScrapes(host: string, port: number, observed: Observed): Server {
  const server = Bun.serve({
    hostname: host,
    port,
    reusePort: false,
    development: false,
    idleTimeout: 10,
    maxRequestBodySize: 0,
    routes: {
      '/metrics': {
        GET: async () =>
          new Response(await observed.text(), {
            headers: {
              'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
              'Cache-Control': 'no-store',
            },
          }),
      },
    },
    fetch: () => new Response('GET /metrics\n', { status: 404 }),
  });
  return { port: server.port as number, close: () => server.stop(true) };
}
