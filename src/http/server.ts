/** Listens, and passes each request to its route. */
import { type Trust, trustNobody } from '../config/trusted-proxies.ts';
import { maxTimeout } from '../domain/destination.ts';
import { fail } from '../domain/error.ts';
import type { Log } from '../telemetry/log.ts';
import type { Observed } from '../telemetry/observe.ts';
import { senderOf, unwrapped } from './pipeline/client-address.ts';
import { inOwnTurn, observeRequest } from './pipeline/finish-request.ts';
import { problemResponse } from './pipeline/problem.ts';
import { isChunked, type RoutedRequest } from './pipeline/read-input.ts';
import { type Connections, noConnections, RequestInfo } from './pipeline/request-info.ts';
import {
  closeIfStopping,
  corsHeaders,
  plainHeaders,
  preflightResponse,
  withDeprecation,
} from './pipeline/response.ts';
import { type HandlerContext, type Route, takesBody } from './pipeline/route.ts';
import { handleRequest } from './turn.ts';

export interface Server {
  readonly port: number;
  /** Resolves when every accepted request has been answered. */
  close(): Promise<void>;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** Whether other processes listen on the same port. */
  readonly shared: boolean;
  /** The proxies that may set X-Forwarded-For and Forwarded. */
  readonly trusts: Trust;
  /** The routes of requests to `framesUrl` of the context, which get no others. */
  readonly framesRoutes: readonly Route[];
  /** In milliseconds. */
  readonly databaseTimeout: number;
}

/** Seconds after which a connection without traffic is closed, also if a response is awaited. */
const idleTimeout = 10;
/** Bun may close a connection this many seconds early. */
const inaccuracy = 4;
/**
 * A request waits for the database at most this many times: for the key, the change, the audit entry, the use of a
 * delegation, and after an error for the key again.
 */
const waits = 5;
/** Added to the seconds that a request to a destination or the database may take. */
const margin = 30;

export function listen(routes: readonly Route[], context: HandlerContext, options: ListenOptions): Server {
  const { host, port, shared, trusts, framesRoutes, databaseTimeout } = options;
  const longestWait = (waits * databaseTimeout) / 1000;
  const longestResponse = Math.ceil(Math.max(maxTimeout, longestWait)) + margin;
  const peerOf = (request: Request) => server.requestIP(request)?.address;
  const connections: Connections = {
    senderOf: clientAddressOf(peerOf, trusts, context.log),
    keepOpen: (request, always) => server.timeout(request, always ? 0 : longestResponse),
  };
  const unknownPath: BunHandler = (request) => {
    const requestInfo = new RequestInfo(request, connections);
    const response = problemResponse(
      fail('path_unknown', { detail: hintFor(request) }),
      requestInfo,
      context.log,
    );
    return withoutRoute('unknownPath', request, response, requestInfo, context);
  };
  const handlers = handlersByPath(routes, context, connections);
  const ofFrames = () => handlersByPath(framesRoutes, context, connections);
  const all = context.framesUrl ? byHost(context.framesUrl, ofFrames(), handlers, unknownPath) : handlers;
  const server: Bun.Server<undefined> = Bun.serve({
    hostname: host,
    port,
    reusePort: shared,
    development: false,
    idleTimeout,
    maxRequestBodySize: 1024 * 1024 * 1024,
    routes: longestWait + inaccuracy > idleTimeout ? keptOpen(all, connections) : all,
    fetch: (request) => unknownPath(request as RoutedRequest),
    error: (error) => {
      const requestInfo = new RequestInfo(new Request('http://unknown/'), noConnections);
      return problemResponse(error, requestInfo, context.log);
    },
  });
  return { port: server.port as number, close: () => server.stop() };
}

type BunHandler = (request: RoutedRequest) => Response | Promise<Response>;

/** For a long timeout of the database: a request that waits for it gets 503 instead of a closed connection. */
function keptOpen(
  handlers: Record<string, BunHandler>,
  { keepOpen }: Connections,
): Record<string, BunHandler> {
  const entries = Object.entries(handlers).map(([path, handle]): [string, BunHandler] => [
    path,
    (request) => {
      keepOpen(request);
      return handle(request);
    },
  ]);
  return Object.fromEntries(entries);
}

const untrustedProxy =
  'received X-Forwarded-For from an address that is not a trusted proxy: all clients behind it share its rate limit; if it is your proxy, add it to SALLYPORT_TRUSTED_PROXIES';

/** Warns once about an untrusted proxy if no proxy is configured. */
function clientAddressOf(
  peerOf: (request: Request) => string | undefined,
  trusts: Trust,
  log: Log,
): Connections['senderOf'] {
  let mayWarn = trusts === trustNobody;
  return (request) => {
    const peer = peerOf(request);
    if (mayWarn && request.headers.has('x-forwarded-for')) {
      mayWarn = false;
      log.warn(untrustedProxy, { address: peer });
    }
    return peer === undefined ? undefined : senderOf(unwrapped(peer), request.headers, trusts);
  };
}

export function handlersByPath(
  routes: readonly Route[],
  context: HandlerContext,
  connections: Connections,
): Record<string, BunHandler> {
  const handlers: Record<string, BunHandler> = {};
  for (const [path, group] of Map.groupBy(routes, ({ path }) => path)) {
    handlers[path] = handlerOf(group, routesById(routes, path), context, connections);
    if (path !== '/' && !path.endsWith('*')) handlers[`${path}/`] = handlers[path];
  }
  return handlers;
}

/** Requests to the host of `url` get `here`, others `elsewhere`. A path that only the other one has is unknown. */
function byHost(
  url: string,
  here: Record<string, BunHandler>,
  elsewhere: Record<string, BunHandler>,
  unknownPath: BunHandler,
): Record<string, BunHandler> {
  const { host } = new URL(url);
  const entries = Object.keys({ ...elsewhere, ...here }).map((path): [string, BunHandler] => {
    const [one = unknownPath, other = unknownPath] = [here[path], elsewhere[path]];
    return [path, (request) => (request.headers.get('host')?.toLowerCase() === host ? one : other)(request)];
  });
  return Object.fromEntries(entries);
}

/** The routes of the path with an id, if the last segment of this path is a valid id: a token may have the id `search`. */
function routesById(routes: readonly Route[], path: string): readonly Route[] {
  const end = path.lastIndexOf('/') + 1;
  if (path.includes(':')) return [];
  return routes.filter(
    (route) =>
      route.path === `${path.slice(0, end)}:id` &&
      route.kind !== 'open' &&
      route.params?.safeParse({ id: path.slice(end) }).success,
  );
}

/** Undefined for a path that no one would expect. */
function hintFor({ url }: Request): string | undefined {
  if (!/^https?:\/\/[^/]+\/delegations(?:[/?]|$)/.test(url)) return undefined;
  return 'Delegations are listed, read and ended as sessions: `GET /sessions?kind=delegation`, `GET /sessions/{id}` and `DELETE /sessions/{id}`.';
}

/** Bun matches the path. The method is matched here, so that a wrong method gets 405 with `Allow`. */
function handlerOf(
  routes: readonly Route[],
  byId: readonly Route[],
  context: HandlerContext,
  connections: Connections,
): BunHandler {
  const byMethod = new Map<string, Route>([...byId, ...routes].map((route) => [route.method, route]));
  const get = byMethod.get('GET');
  if (get) byMethod.set('HEAD', get);
  const allow = [...byMethod.keys(), 'OPTIONS'].join(', ');
  const handle = context.tracer ? handleAndTrace : handleRequest;
  const requestIdHeader = routes.find(({ conventions }) => conventions?.requestIdHeader)?.conventions
    ?.requestIdHeader;
  const respond: BunHandler = (request) => {
    const requestInfo = new RequestInfo(request, connections, requestIdHeader);
    const route = byMethod.get(request.method);
    if (route && !takesBody(route) && isChunked(request)) {
      const failure = fail('validation_failed', { errors: { body: ['cannot be sent with GET or DELETE'] } });
      const response = problemResponse(failure, requestInfo, context.log);
      return withoutRoute('unexpectedBody', request, response, requestInfo, context);
    }
    if (route) {
      if (byId.includes(route)) {
        const id = routes[0]?.path.split('/').at(-1);
        Object.defineProperty(request, 'params', { value: { id } });
      }
      const { deprecated } = route;
      const response = handle(route, request, requestInfo, context);
      return deprecated ? response.then((made) => withDeprecation(made, deprecated)) : response;
    }
    if (request.method === 'OPTIONS')
      return withoutRoute('preflight', request, preflightResponse(requestInfo, allow), requestInfo, context);
    const failure = fail('method_not_allowed', { detail: hintFor(request) });
    const response = problemResponse(failure, requestInfo, context.log, { Allow: allow });
    return withoutRoute('wrongMethod', request, response, requestInfo, context);
  };
  if (routes.every(({ servedTo }) => servedTo === 'console'))
    return sameOriginOnly(respond, connections, context);
  return requestIdHeader === undefined ? respond : echoing(requestIdHeader, respond);
}

/**
 * Refuses requests of other origins, and their preflights: browsers set `Sec-Fetch-Site` reliably, and pages cannot. So a
 * cookie is used only by the console itself.
 */
function sameOriginOnly(handle: BunHandler, connections: Connections, context: HandlerContext): BunHandler {
  return async (request) => {
    const isOwn = request.headers.get('sec-fetch-site') === 'same-origin' && request.method !== 'OPTIONS';
    const response = await (isOwn ? handle(request) : refuse(request));
    for (const name of corsHeaders) response.headers.delete(name);
    return response;
  };
  function refuse(request: RoutedRequest): Promise<Response> {
    const requestInfo = new RequestInfo(request, connections);
    const response = problemResponse(
      fail('origin_refused', { detail: onlyConsole }),
      requestInfo,
      context.log,
    );
    return withoutRoute('otherOrigin', request, response, requestInfo, context);
  }
}

const onlyConsole = 'Only the console of this service can call this path. The API has the same operations.';

/** Copies the request header `name`, if present, to the response. */
function echoing(name: string, handle: BunHandler): BunHandler {
  return async (request) => {
    const given = request.headers.get(name);
    const response = await handle(request);
    if (given !== null) response.headers.set(name, given);
    return response;
  };
}

/** Counts a request that has no route. Metrics use the fixed `name`, since the path can be anything. */
function withoutRoute(
  name: string,
  request: Request,
  response: Response,
  requestInfo: RequestInfo,
  context: HandlerContext,
): Promise<Response> {
  if (context.observed) observeRequest(name, false, requestInfo, response.status, 0, context);
  if (isChunked(request)) response.headers.set('Connection', 'close');
  return inOwnTurn(closeIfStopping(response, context));
}

function handleAndTrace(
  ...[route, request, requestInfo, context]: Parameters<typeof handleRequest>
): Promise<Response> {
  const handle = () => handleRequest(route, request, requestInfo, context);
  return context.tracer?.request(route, request, requestInfo, handle) ?? handle();
}

/** Serves Prometheus metrics on a separate port, so that access to them can be restricted separately. */
export function listenForScrapes(host: string, port: number, observed: Observed): Server {
  const server = Bun.serve({
    hostname: host,
    port,
    reusePort: false,
    development: false,
    idleTimeout,
    maxRequestBodySize: 0,
    routes: {
      '/metrics': {
        GET: () =>
          new Response(observed.text(), {
            headers: { ...plainHeaders, 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' },
          }),
      },
    },
    fetch: () => new Response('GET /metrics\n', { status: 404, headers: plainHeaders }),
  });
  return { port: server.port as number, close: () => server.stop(true) };
}

/**
 * Answers `/livez` while the service is starting, so that an orchestrator does not kill the process. Other requests get
 * 503. Returns undefined if the port is taken. Startup reports that error later, when it listens itself.
 */
export function listenWhileStarting(
  host: string,
  port: number,
  log: Log,
): { stop(): Promise<void> } | undefined {
  try {
    return Bun.serve({
      hostname: host,
      port,
      development: false,
      routes: { '/livez': Response.json({ status: 'ok' }, { headers: plainHeaders }) },
      fetch: (request) => {
        const starting = fail('unavailable', { detail: 'The service is starting.', expected: true });
        return inOwnTurn(problemResponse(starting, new RequestInfo(request, noConnections), log));
      },
    });
  } catch {
    return undefined;
  }
}
