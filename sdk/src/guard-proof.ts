/** Reads the DPoP proof of a request, to send it with `POST /decisions`. */
import type { DecisionRequest } from './api.ts';
import { randomId } from './transport.ts';

interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly url?: string | undefined;
  readonly original?: unknown;
  header(name: string): string | undefined;
}

/**
 * Undefined if the request has no proof, or its URL is unknown. The URL always ends with `request.path`; only the
 * origin is taken from `request.url`.
 */
export function proofOf(
  request: ReceivedRequest,
  publicUrl: string | URL | undefined,
): DecisionRequest['proof'] {
  const jwt = request.header('dpop');
  const { method, path } = request;
  const base = publicUrl === undefined ? originOf(request.url) : String(publicUrl).replace(/\/+$/, '');
  if (jwt === undefined || base === undefined || !isNormalized(path)) return undefined;
  return { jwt, method, url: base + path, request: proofIdOf(request) };
}

function originOf(url: string | undefined): string | undefined {
  return url !== undefined && URL.canParse(url) ? new URL(url).origin : undefined;
}

/**
 * Whether a URL with this path has the same path. Parsers resolve dot segments and replace backslashes, but most
 * routers do not: a proof for `/a` could be used for a route such as `/files/:name/:version` with `/files/../a`.
 */
function isNormalized(path: string): boolean {
  const [beforeQuery = ''] = path.split('?', 1);
  return /^\/[^\\#]*$/.test(beforeQuery) && !/\/(\.|%2e){1,2}(\/|$)/i.test(beforeQuery);
}

const host = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d+)?$/i;

/** Whether a `Host` header is a name, an IPv4 address or an IPv6 address in brackets, optionally with a port. */
export function isHost(value: string): boolean {
  return host.test(value) && URL.canParse(`http://${value}`);
}

const proofIds = new WeakMap<object, string>();

/** All guards of a request send the same id. With another id, the service would reject the proof as already used. */
function proofIdOf(request: ReceivedRequest): string {
  const { original } = request;
  const source = typeof original === 'object' && original !== null ? original : request;
  const id = proofIds.get(source) ?? randomId();
  proofIds.set(source, id);
  return id;
}
