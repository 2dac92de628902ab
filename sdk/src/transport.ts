/** Sends API requests with a timeout, and retries them when that is safe. */
import { type Operations, operations, type Problem } from './api.ts';
import {
  ConnectionError,
  ProblemError,
  SallyportError,
  TimeoutError,
  toError,
  UnavailableError,
} from './errors.ts';
import { sleep, withTimeout } from './timeout.ts';

export interface ClientOptions {
  /** The URL of the service, such as `http://127.0.0.1:8080`. Any other value throws, also undefined. */
  readonly url: string | URL | undefined;
  /**
   * An application or session key, or a function that is called before each request. Absent for calls without a key;
   * undefined throws.
   */
  readonly key?: string | (() => string | Promise<string>) | undefined;
  /** Timeout of one attempt, and of the `key` function, in milliseconds. Default: 10 seconds. */
  readonly timeout?: number;
  /** Number of retries after lost connections, 429 and 503. Default: 2. */
  readonly retries?: number;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

export interface RequestOptions {
  /** Cancels the request. */
  readonly signal?: AbortSignal;
  readonly timeout?: number;
  readonly retries?: number;
  /**
   * Sent as `Idempotency-Key`, so that a retried change runs once. Default: a random key. Not sent with GET and DELETE
   * requests, searches, `decide`, `decideAll`, `revokeKey` and `sessions.create`.
   */
  readonly idempotencyKey?: string;
  /** Sent as `SVC-REQUEST-ID`. The service logs it with the request. */
  readonly requestId?: string;
  /** Sent as `SVC-PURPOSE`: why the request is made, for the audit log. At most 200 characters. */
  readonly purpose?: string;
}

/** Options of calls that change one application, token or destination. */
export interface ChangeOptions extends RequestOptions {
  /**
   * The ETag of the object that you read, from `etagOf`. If the object was changed since, the call makes no change and
   * throws a `ConflictError` with the code `changed_meanwhile`. Without it, the last change wins.
   */
  readonly ifMatch?: string | undefined;
}

export interface ProxyOptions {
  /** Sent as `SVC-PURPOSE`: why the tokens are used, for rules and the audit log. */
  readonly purpose?: string;
  /** Sent as `SVC-REQUEST-ID`, also to the destination. */
  readonly requestId?: string;
  /**
   * Until the reply begins, in milliseconds. Default: 11 minutes, longer than a destination may take, so that the outcome
   * is known.
   */
  readonly timeout?: number;
}

export const defaultTimeout = 10_000;
const proxyTimeout = 660_000;

const etags = new WeakMap<object, string>();

/**
 * The ETag of an application, token or destination that the client returned, for `ifMatch`. Undefined for copies of it
 * and for the items of a list, which have none.
 */
export function etagOf(object: object): string | undefined {
  return etags.get(object);
}

export type Input<O extends keyof Operations> = Operations[O]['input'];
export type Reply<O extends keyof Operations> = Operations[O]['reply'];

interface RequestInput {
  readonly params?: Record<string, string>;
  readonly query?: Record<string, unknown>;
  readonly body?: unknown;
}

export interface Transport {
  call<O extends keyof Operations>(name: O, input: Input<O>, options?: ChangeOptions): Promise<Reply<O>>;
  /** Like `call`, for operations that reply with headers. */
  callForHeaders<O extends keyof Operations>(
    name: O,
    input: Input<O>,
    options?: RequestOptions,
  ): Promise<Headers>;
  /**
   * Sends a request for a destination once, with the key. Returns the response of the destination or a problem of the
   * service. Throws ConnectionError if the request was certainly not sent.
   */
  forward(path: string, request: Request, options: ProxyOptions): Promise<Response>;
}

/** Throws SallyportError for an unset environment variable, or for text that is not only a key. */
export function requireKey(name: string, key: string | undefined): string {
  if (!key) throw new SallyportError(`${name} is empty`);
  if (/\S\s+\S/.test(key)) throw new SallyportError(`${name} must be only the key, without spaces`);
  return key;
}

export function transport(options: ClientOptions): Transport {
  const base = baseUrl(options?.url);
  if ('key' in options && typeof options.key !== 'function') requireKey('`key`', options.key);
  const send = options.fetch ?? globalThis.fetch.bind(globalThis);

  async function attempt<T>(
    request: PreparedRequest,
    deadline: number,
    signal: AbortSignal | undefined,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const timedOut = AbortSignal.timeout(deadline);
    try {
      const response = await send(request.url, {
        ...request.init,
        signal: signal ? AbortSignal.any([signal, timedOut]) : timedOut,
      });
      return await read(response);
    } catch (error) {
      if (error instanceof SallyportError || signal?.aborted) throw error;
      if (timedOut.aborted) throw new TimeoutError(`no response within ${deadline} ms`, { cause: error });
      throw new ConnectionError('the service could not be reached', { cause: error });
    }
  }

  async function currentKey(timeout: number, signal: AbortSignal | undefined): Promise<string | undefined> {
    const { key } = options;
    if (typeof key !== 'function') return key;
    return requireKey('the result of `key`', await withTimeout(timeout, 'key', key, signal));
  }

  async function exchange(
    name: keyof Operations,
    input: RequestInput,
    call: RequestOptions = {},
  ): Promise<Received> {
    const timeout = call.timeout ?? options.timeout ?? defaultTimeout;
    const request = prepareRequest(base, name, input, await currentKey(timeout, call.signal), call);
    const tries = (call.retries ?? options.retries ?? 2) + 1;
    let responseLost = false;
    for (let retriesLeft = tries - 1; ; retriesLeft--) {
      try {
        return await attempt(request, timeout, call.signal, received);
      } catch (error) {
        if (responseLost && isAlreadyDeleted(request, error))
          return { body: undefined, headers: new Headers() };
        responseLost ||= error instanceof ConnectionError || error instanceof UnavailableError;
        const delay = retriesLeft > 0 ? retryDelay(error, tries - retriesLeft) : undefined;
        if (delay === undefined) throw error;
        await sleep(delay, call.signal);
      }
    }
  }

  async function forward(path: string, request: Request, call: ProxyOptions): Promise<Response> {
    const { timeout = proxyTimeout } = call;
    const own = serviceHeaders(await currentKey(timeout, request.signal), call);
    const headers = new Headers(request.headers);
    // The first two are about a connection to the destination.
    for (const name of ['host', 'content-length', ...Object.keys(own)]) headers.delete(name);
    // Some libraries parse a problem only if its type is application/json. The destination does not get this header.
    if ((headers.get('Accept') ?? '*/*') === '*/*') headers.set('Accept', 'application/json');
    const body = await request.arrayBuffer();
    const init: RequestInit = {
      method: request.method,
      headers: { ...Object.fromEntries(headers), ...own },
      redirect: 'manual',
      ...(body.byteLength > 0 && { body }),
    };
    const timer = new AbortController();
    const timedOut = setTimeout(() => timer.abort(), timeout);
    try {
      const signal = AbortSignal.any([request.signal, timer.signal]);
      const response = await send(base + path, { ...init, signal });
      // A proxy in front of the service may reply after it has passed the request on.
      return isFromService(response) ? response : lostReply(path, call);
    } catch (error) {
      if (request.signal.aborted) throw error;
      if (neverConnected(error))
        throw new ConnectionError('the service could not be reached', { cause: error });
      return lostReply(path, call);
    } finally {
      clearTimeout(timedOut);
    }
  }

  return {
    forward,
    call: async (name, input, call) => (await exchange(name, input as RequestInput, call)).body as never,
    callForHeaders: async (name, input, call) => (await exchange(name, input as RequestInput, call)).headers,
  };
}

/** Returns the URL without a slash at its end. Throws if requests could not be sent to it. */
export function baseUrl(url: string | URL | undefined): string {
  const base = normalizedUrl(String(url ?? ''));
  if (base === undefined)
    throw new SallyportError('`url` must be the URL of the service, such as "http://127.0.0.1:8080"');
  return base;
}

/** Returns the URL without a slash at its end, or undefined if it cannot be that of a service. */
export function normalizedUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isValid = url && /^https?:$/.test(url.protocol) && !url.username && !url.search && !url.hash;
  return isValid ? url.href.replace(/\/+$/, '') : undefined;
}

/**
 * Operations without an idempotency key. Decisions and searches change no data, and revoking a key twice has no effect. The service
 * does not replay responses of `createSession`, because all browsers share the public key.
 */
const withoutIdempotencyKey: readonly (keyof Operations)[] = [
  'decide',
  'searchTokens',
  'createSession',
  'revokeKey',
];

interface Received {
  readonly body: unknown;
  readonly headers: Headers;
}

interface PreparedRequest {
  readonly url: string;
  readonly init: RequestInit;
}

function prepareRequest(
  base: string,
  name: keyof Operations,
  { params = {}, query = {}, body }: RequestInput,
  key: string | undefined,
  options: ChangeOptions,
): PreparedRequest {
  const [method, path] = operations[name];
  const filled = path.replace(/\{(\w+)\}/g, (_, part: string) => pathSegment(part, params[part]));
  const sendsIdempotencyKey =
    method !== 'GET' && method !== 'DELETE' && !withoutIdempotencyKey.includes(name);
  const headers: Record<string, string> = {
    ...serviceHeaders(key, options),
    ...(body !== undefined && { 'Content-Type': 'application/json' }),
    ...(sendsIdempotencyKey && { 'Idempotency-Key': options.idempotencyKey ?? randomId() }),
    ...(options.ifMatch !== undefined && { 'If-Match': options.ifMatch }),
  };
  return {
    url: base + filled + queryString(query),
    init: { method, headers, redirect: 'manual', ...(body !== undefined && { body: JSON.stringify(body) }) },
  };
}

function serviceHeaders(
  key: string | undefined,
  { requestId, purpose }: Pick<RequestOptions, 'requestId' | 'purpose'>,
): Record<string, string> {
  return {
    ...(key !== undefined && { 'SVC-API-KEY': key }),
    ...(requestId !== undefined && { 'SVC-REQUEST-ID': requestId }),
    ...(purpose !== undefined && { 'SVC-PURPOSE': utf8Header(purpose) }),
  };
}

/** Encodes the text as UTF-8. `fetch` sends each character of a header as one byte. */
function utf8Header(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

/** Rejects an empty id, `.` and `..`, which would address another path. */
export function pathSegment(name: string, id: unknown): string {
  if (typeof id === 'string' && !/^\.{0,2}$/.test(id)) return encode(id);
  throw new SallyportError(`\`${name}\` must be a non-empty string other than "." and ".."`);
}

/** Browsers lack `randomUUID` on plain HTTP. The id need not be secret, so `Math.random` is a valid fallback. */
export function randomId(): string {
  const bytes =
    globalThis.crypto?.getRandomValues(new Uint8Array(16)) ??
    Array.from({ length: 16 }, () => Math.random() * 256);
  return Array.from(bytes, (byte) => Math.floor(byte).toString(16).padStart(2, '0')).join('');
}

function queryString(query: Record<string, unknown>): string {
  const pairs: string[] = [];
  const add = (name: string, value: unknown) => pairs.push(`${encode(name)}=${encode(String(value))}`);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    if (typeof value === 'object' && !Array.isArray(value)) {
      for (const [key, text] of Object.entries(value as object)) add(`${name}[${key}]`, text);
    } else for (const one of [value].flat()) add(name, one);
  }
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

/** Throws for half a surrogate pair. `URLSearchParams` would send U+FFFD, which may be part of another name. */
function encode(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    throw new SallyportError('names and filters must be well-formed Unicode');
  }
}

/** Whether a retried DELETE got 404. An earlier attempt, whose response was lost, may have deleted the entity. */
function isAlreadyDeleted({ init }: PreparedRequest, error: unknown): boolean {
  return init.method === 'DELETE' && error instanceof ProblemError && error.code === 'not_found';
}

async function received(response: Response): Promise<Received> {
  if (!response.ok) throw await errorOf(response);
  if (response.status === 204) return { body: undefined, headers: response.headers };
  const body = await response.json().catch((error) => {
    throw error instanceof SyntaxError ? notTheService(response) : error;
  });
  return { body: withEtag(body, response), headers: response.headers };
}

function isFromService({ headers }: Response): boolean {
  return headers.has('SVC-DESTINATION') || headers.has('SVC-REQUEST-ID');
}

/** The codes of Node.js and Bun for connections that were not made. */
const connectErrors =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused|FailedToOpenSocket)$/;

function neverConnected(error: unknown): boolean {
  const { code, cause } = error as { code?: string; cause?: { code?: string } };
  return connectErrors.test(String(cause?.code ?? code));
}

/**
 * A problem as the service sends it, for a request that may have been sent. Libraries repeat a request after an exception,
 * but not after this response.
 */
function lostReply(path: string, { requestId = '' }: ProxyOptions): Response {
  const [status, code] = [502, 'destination_failed'] as const;
  const message = 'No reply of Sallyport arrived. The destination may have processed the request.';
  const type = `/docs/reference/errors#${code}`;
  const problem = { type, title: 'No usable reply', status, detail: message, instance: path, code };
  return Response.json(
    { ...problem, request_id: requestId, sent: true, message, error: { type: 'api_error', message, code } },
    { status, headers: { 'x-should-retry': 'false', 'stripe-should-retry': 'false' } },
  );
}

/** The error of the service in a response of `proxy(name).fetch`. Undefined for a reply of the destination. */
export async function errorIn(response: Response): Promise<SallyportError | undefined> {
  return response.headers.has('SVC-DESTINATION') ? undefined : errorOf(response.clone());
}

async function errorOf(response: Response): Promise<SallyportError> {
  const problem = (await response.json().catch(() => undefined)) as Problem | undefined;
  if (typeof problem?.code !== 'string') {
    if (response.status === 431)
      return new SallyportError('the URL and headers are too long: send fewer filters');
    return notTheService(response);
  }
  const seconds = Number(response.headers.get('Retry-After') ?? Number.NaN);
  return toError(problem, Number.isFinite(seconds) ? seconds * 1000 : undefined);
}

export function notTheService({ status }: Response): ConnectionError {
  return new ConnectionError(`unexpected response with status ${status}: not a Sallyport service`);
}

function withEtag(body: unknown, { headers }: Response): unknown {
  const etag = headers.get('ETag');
  if (etag !== null && typeof body === 'object' && body !== null) etags.set(body, etag);
  return body;
}

const maxRetryDelay = 30_000;

/** Milliseconds until the next attempt, or undefined if a retry would not help. */
export function retryDelay(error: unknown, attempt: number): number | undefined {
  const backoff = Math.min(100 * 2 ** attempt, 5000) * (0.5 + Math.random() / 2);
  if (error instanceof ConnectionError) return backoff;
  if (!(error instanceof ProblemError)) return undefined;
  // A disk stays full until someone frees space, so a caller would only wait.
  const retryable = [429, 503].includes(error.status) || error.code === 'idempotency_running';
  if (!retryable || error.code === 'disk_full') return undefined;
  const retryAfter = error.retryAfter ?? 0;
  return retryAfter > maxRetryDelay ? undefined : Math.max(retryAfter, backoff);
}
