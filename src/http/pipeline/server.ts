/** Listening: hands each request to its route, and closes without losing any. */
import type { Awaitable } from '../../domain/awaitable.ts';
import { fail } from '../../domain/error.ts';
import type { Log } from '../../log.ts';
import { senderOf, type Trust, trustNobody, unwrapped } from './client-address.ts';
import { closeIfStopping, handleRequest } from './handle-request.ts';
import { problemResponse } from './problem.ts';
import { logFields, RequestInfo } from './request-info.ts';
import { preflightResponse } from './response.ts';
import type { HandlerContext, Route } from './route.ts';

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

export function listen(routes: readonly Route[], context: HandlerContext, options: Listen): Server {
  const { host, port, shared, trusts } = options;
  const senders = sendersBy(trusts, context.log);
  const server = Bun.serve({
    hostname: host,
    port,
    reusePort: shared,
    development: false,
    idleTimeout: 10,
    maxRequestBodySize: 1024 * 1024 * 1024,
    routes: table(routes, context, senders),
    fetch: (request, server) => {
      const where = new RequestInfo(request, senders(server));
      return aside('unknownPath', where, context, () =>
        problemResponse(fail('path_unknown'), where, context.log),
      );
    },
    error: (error) => {
      const where = new RequestInfo(new Request('http://unknown/'), () => undefined);
      return problemResponse(error, where, context.log);
    },
  });
  return { port: server.port as number, close: () => server.stop() };
}

/** Bun's router finds the path; the method is found here, so that a wrong one is answered properly. */
function table(routes: readonly Route[], context: HandlerContext, senders: Senders): Record<string, Handler> {
  const byPath = Map.groupBy(routes, (route) => route.path);
  const entries = [...byPath].flatMap(([path, at]): [string, Handler][] => {
    const handler = onPath(at, context, senders);
    return path === '/'
      ? [[path, handler]]
      : [
          [path, handler],
          [`${path}/`, handler],
        ];
  });
  return Object.fromEntries(entries);
}

function onPath(routes: readonly Route[], context: HandlerContext, senders: Senders): Handler {
  const byMethod = new Map<string, Route>(routes.map((route) => [route.method, route]));
  const get = byMethod.get('GET');
  if (get) byMethod.set('HEAD', get);
  const allow = [...byMethod.keys(), 'OPTIONS'].join(', ');
  const handle = context.observed ? watched : handleRequest;
  return (request, server) => {
    const where = new RequestInfo(request, senders(server));
    const route = byMethod.get(request.method);
    if (route) return handle(route, request, request.params ?? {}, where, context);
    if (request.method === 'OPTIONS')
      return aside('preflight', where, context, () => preflightResponse(where.requestId, allow));
    const refuse = () => problemResponse(fail('method_not_allowed'), where, context.log, { Allow: allow });
    return aside('wrongMethod', where, context, refuse);
  };
}

/** What no route answers. It has a name of its own, since its path may be anything. */
function aside(name: string, where: RequestInfo, context: HandlerContext, answer: () => Response): Response {
  const start = performance.now();
  const response = closeIfStopping(answer(), context);
  if (context.observed) note(name, false, where, response, start, context);
  return response;
}

/** The same, for those who want to know of every single request. */
async function watched(
  ...[route, request, params, where, context]: Parameters<typeof handleRequest>
): Promise<Response> {
  const start = performance.now();
  const response = await handleRequest(route, request, params, where, context);
  note(route.name, route.kind !== 'open', where, response, start, context);
  return response;
}

function note(
  name: string,
  guarded: boolean,
  where: RequestInfo,
  { status }: Response,
  start: number,
  { observer, log }: HandlerContext,
): void {
  const seconds = (performance.now() - start) / 1000;
  observer.request(name, guarded, status, seconds);
  log.debug('request', { ...logFields(where), status, seconds });
}
