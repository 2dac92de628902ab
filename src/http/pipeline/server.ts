/** Listening: hands each request to its route, and closes without losing any. */
import type { Awaitable } from '../../domain/awaitable.ts';
import { fail } from '../../domain/error.ts';
import type { Log } from '../../log.ts';
import { senderOf, type Trust, trustNobody, unwrapped } from './client-address.ts';
import { parting, run } from './handle-request.ts';
import { problemResponse } from './problem.ts';
import { placeOf, Where } from './request-info.ts';
import { preflightResponse } from './response.ts';
import type { Route, World } from './route.ts';

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
  /** Whose word is taken about where a request came from. */
  readonly trusts: Trust;
}

type Incoming = Request & { params?: Record<string, string> };
type Handler = (request: Incoming, server: Peers) => Awaitable<Response>;
/** Knows who is at the other end of a connection. */
type Peers = { requestIP(request: Request): { address: string } | null };
const throughProxy =
  'a request came through a proxy that is not trusted, whose address now stands for everyone behind it: see SALLYPORT_TRUSTED_PROXIES';

type Senders = (server: Peers) => (request: Request) => string | undefined;

function sendersBy(trusts: Trust, log: Log): Senders {
  let silent = trusts !== trustNobody;
  return (server) => (request) => {
    const peer = server.requestIP(request)?.address;
    if (!silent && request.headers.has('x-forwarded-for')) {
      silent = true;
      log.warn(throughProxy, { address: peer });
    }
    return peer === undefined ? undefined : senderOf(unwrapped(peer), request.headers, trusts);
  };
}

export function listen(routes: readonly Route[], world: World, options: Listen): Server {
  const { host, port, shared, trusts } = options;
  const senders = sendersBy(trusts, world.log);
  const server = Bun.serve({
    hostname: host,
    port,
    reusePort: shared,
    development: false,
    idleTimeout: 10,
    maxRequestBodySize: 1024 * 1024 * 1024,
    routes: table(routes, world, senders),
    fetch: (request, server) => {
      const where = new Where(request, senders(server));
      return aside('unknownPath', where, world, () =>
        problemResponse(fail('path_unknown'), where, world.log),
      );
    },
    error: (error) => {
      const where = new Where(new Request('http://unknown/'), () => undefined);
      return problemResponse(error, where, world.log);
    },
  });
  return { port: server.port as number, close: () => server.stop() };
}

/** Bun's router finds the path; the method is found here, so that a wrong one is answered properly. */
function table(routes: readonly Route[], world: World, senders: Senders): Record<string, Handler> {
  const byPath = Map.groupBy(routes, (route) => route.path);
  const entries = [...byPath].flatMap(([path, at]): [string, Handler][] => {
    const handler = onPath(at, world, senders);
    return path === '/'
      ? [[path, handler]]
      : [
          [path, handler],
          [`${path}/`, handler],
        ];
  });
  return Object.fromEntries(entries);
}

function onPath(routes: readonly Route[], world: World, senders: Senders): Handler {
  const byMethod = new Map<string, Route>(routes.map((route) => [route.method, route]));
  const get = byMethod.get('GET');
  if (get) byMethod.set('HEAD', get);
  const allow = [...byMethod.keys(), 'OPTIONS'].join(', ');
  const handle = world.watched ? watched : run;
  return (request, server) => {
    const where = new Where(request, senders(server));
    const route = byMethod.get(request.method);
    if (route) return handle(route, request, request.params ?? {}, where, world);
    if (request.method === 'OPTIONS')
      return aside('preflight', where, world, () => preflightResponse(where.requestId, allow));
    const refuse = () => problemResponse(fail('method_not_allowed'), where, world.log, { Allow: allow });
    return aside('wrongMethod', where, world, refuse);
  };
}

/** What no route answers. It has a name of its own, since its path may be anything. */
function aside(name: string, where: Where, world: World, answer: () => Response): Response {
  const start = performance.now();
  const response = parting(answer(), world);
  if (world.watched) note(name, false, where, response, start, world);
  return response;
}

/** The same, for those who want to know of every single request. */
async function watched(...[route, request, params, where, world]: Parameters<typeof run>): Promise<Response> {
  const start = performance.now();
  const response = await run(route, request, params, where, world);
  note(route.name, route.kind !== 'open', where, response, start, world);
  return response;
}

function note(
  name: string,
  guarded: boolean,
  where: Where,
  { status }: Response,
  start: number,
  { observer, log }: World,
): void {
  const seconds = (performance.now() - start) / 1000;
  observer.request(name, guarded, status, seconds);
  log.debug('request', { ...placeOf(where), status, seconds });
}
