/** Where a request came in, and from whom, as far as that is known before its key is looked at. */
import { redactSecrets } from '../../domain/key.ts';

const longestUserAgent = 200;

/** Most requests need little of it, so each part is made when it is asked for. */
export class RequestInfo {
  readonly method: string;
  readonly requestId: string;
  readonly #request: Request;
  readonly #addressOf: (request: Request) => string | undefined;
  #address: string | undefined | null = null;

  constructor(request: Request, addressOf: (request: Request) => string | undefined) {
    this.method = request.method;
    this.requestId = requestIdOf(request.headers);
    this.#request = request;
    this.#addressOf = addressOf;
  }

  /** Without the query, which may hold what does not belong in a log. */
  get path(): string {
    return discreet(pathOf(this.#request.url));
  }

  /** Of the trace that the request is part of, if it says so. */
  get traceId(): string | undefined {
    return traceIdOf(this.#request.headers);
  }

  /** The sender's, as far as it can be believed. */
  address(): string | undefined {
    if (this.#address === null) this.#address = this.#addressOf(this.#request);
    return this.#address;
  }

  from(): { ip?: string; user_agent?: string } {
    const ip = this.address();
    const agent = this.#request.headers.get('user-agent');
    return { ...(ip !== undefined && { ip }), ...(agent !== null && { user_agent: shown(agent) }) };
  }
}

function shown(agent: string): string {
  return redactSecrets(agent).slice(0, longestUserAgent);
}

/** A key is one however its characters are written. */
function discreet(path: string): string {
  if (!path.includes('%')) return path;
  const plain = path.replace(/%([0-9a-f]{2})/gi, (_, code) => String.fromCharCode(Number.parseInt(code, 16)));
  const without = redactSecrets(plain);
  return without === plain ? path : without.replace(/[^\x21-\x7e]/g, '?');
}

/** The URL is the path alone when the Host header makes no sense. */
export function pathOf(url: string): string {
  const path = url.startsWith('/') ? url : url.slice(url.indexOf('/', 8));
  const mark = path.indexOf('?');
  return mark < 0 ? path : path.slice(0, mark);
}

/** The second part of a W3C traceparent. */
function traceIdOf(headers: Headers): string | undefined {
  const header = headers.get('traceparent');
  return header === null ? undefined : /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(header)?.[1];
}

/** What a log line says of it. */
export function logFields({ method, path, requestId, traceId }: RequestInfo) {
  return { method, path, request_id: requestId, ...(traceId !== undefined && { trace_id: traceId }) };
}

const sane = /^[A-Za-z0-9._:-]{1,128}$/;

/** The caller's own request id if it is a sane one, else a new one. */
export function requestIdOf(headers: Headers): string {
  const given = headers.get('svc-request-id');
  return given !== null && sane.test(given) && redactSecrets(given) === given ? given : crypto.randomUUID();
}
