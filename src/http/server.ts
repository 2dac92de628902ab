/** Listening: hands each request to its route, and closes without losing any. */
import { fail } from '../domain/error.ts';
import { preflightResponse, requestIdOf } from './headers.ts';
import { problemResponse, type Where } from './problem.ts';
import { type Route, run, type World } from './route.ts';

export interface Server {
  readonly port: number;
  /** Resolves when every request that was accepted has been answered. */
  close(): Promise<void>;
}

export interface Listen {
  readonly host: string;
  readonly port: number;
  /** Whether other processes listen on the same port. */
  readonly shared: boolean;
}

type Incoming = Request & { params?: Record<string, string> };
type Handler = (request: Incoming) => Promise<Response> | Response;

export function listen(routes: readonly Route[], world: World, { host, port, shared }: Listen): Server {
  const server = Bun.serve({
    hostname: host,
    port,
    reusePort: shared,
    development: false,
    idleTimeout: 10,
    maxRequestBodySize: 1024 * 1024 * 1024,
    routes: table(routes, world),
    fetch: (request) => problemResponse(fail('path_unknown'), whereIs(request), world.log),
    error: (error) => {
      const where = { method: '?', path: '?', requestId: crypto.randomUUID() };
      return problemResponse(error, where, world.log);
    },
  });
  return { port: server.port as number, close: () => server.stop() };
}

/** Bun's router finds the path; the method is found here, so that a wrong one is answered properly. */
function table(routes: readonly Route[], world: World): Record<string, Handler> {
  const byPath = Map.groupBy(routes, (route) => route.path);
  const entries = [...byPath].flatMap(([path, at]): [string, Handler][] => {
    const handler = onPath(at, world);
    return path === '/'
      ? [[path, handler]]
      : [
          [path, handler],
          [`${path}/`, handler],
        ];
  });
  return Object.fromEntries(entries);
}

function onPath(routes: readonly Route[], world: World): Handler {
  const byMethod = new Map<string, Route>(routes.map((route) => [route.method, route]));
  const get = byMethod.get('GET');
  if (get) byMethod.set('HEAD', get);
  const allow = [...byMethod.keys(), 'OPTIONS'].join(', ');
  return (request) => {
    const where = whereIs(request);
    const route = byMethod.get(request.method);
    if (route) return run(route, request, request.params ?? {}, where, world);
    if (request.method === 'OPTIONS') return preflightResponse(where.requestId, allow);
    return problemResponse(fail('method_not_allowed'), where, world.log, { Allow: allow });
  };
}

/** The URL is the path alone when the Host header makes no sense. */
function whereIs(request: Request): Where {
  const { url } = request;
  const path = url.startsWith('/') ? url : url.slice(url.indexOf('/', 8));
  const mark = path.indexOf('?');
  return {
    method: request.method,
    path: mark < 0 ? path : path.slice(0, mark),
    requestId: requestIdOf(request.headers),
  };
}
