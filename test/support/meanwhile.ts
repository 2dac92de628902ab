import type { TestServer } from './test-server.ts';

/**
 * A proxy for the service that makes a change just before it forwards the first request with this method to a path that
 * matches.
 */
export function changeBefore(
  server: TestServer,
  method: string,
  path: RegExp,
  change: () => Promise<unknown>,
): { url: string; close(): Promise<void> } {
  let changed = false;
  const proxy = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url);
      if (!changed && request.method === method && path.test(pathname)) {
        changed = true;
        await change();
      }
      const { headers } = request;
      const body = ['GET', 'DELETE'].includes(request.method) ? null : await request.text();
      return fetch(server.url + pathname + search, { method: request.method, headers, body });
    },
  });
  return { url: `http://127.0.0.1:${proxy.port}`, close: () => proxy.stop(true) };
}
