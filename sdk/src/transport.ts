/** Sends one operation: with a deadline, and again where that is safe and promising. */
import { type Operations, operations, type Problem } from './api.ts';
import {
  ConnectionError,
  errorOf,
  ProblemError,
  SallyportError,
  TimeoutError,
  UnavailableError,
} from './errors.ts';
import { sleep, within } from './patience.ts';

export interface Options {
  /** Where the service is, such as `http://127.0.0.1:8080`. */
  readonly url: string | URL;
  /** The key of an Application or a Session; a function is asked before each request. */
  readonly key?: string | (() => string | Promise<string>) | undefined;
  /** Milliseconds that one attempt may take, and that the key may be waited for; 10 seconds unless told otherwise. */
  readonly timeout?: number;
  /** How often a request is sent again after a failure that may pass; 2 unless told otherwise. */
  readonly retries?: number;
  /** Stands in for the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

export interface CallOptions {
  /** Gives the request up. */
  readonly signal?: AbortSignal;
  readonly timeout?: number;
  readonly retries?: number;
  /**
   * Names the request, so that sending it again does nothing twice. Made up unless given, and sent with whatever
   * creates or changes something, but not with a DELETE or `sessions.create`, for which the service has no use.
   */
  readonly idempotencyKey?: string;
  /** Finds the request in the log of the service. */
  readonly requestId?: string;
}

export const longestAttempt = 10_000;

export type Input<O extends keyof Operations> = Operations[O]['input'];
export type Reply<O extends keyof Operations> = Operations[O]['reply'];

interface Parts {
  readonly params?: Record<string, string>;
  readonly query?: Record<string, unknown>;
  readonly body?: unknown;
}

export interface Transport {
  call<O extends keyof Operations>(name: O, input: Input<O>, options?: CallOptions): Promise<Reply<O>>;
}

export function transport(options: Options): Transport {
  const base = String(options.url).replace(/\/+$/, '');
  const send = options.fetch ?? globalThis.fetch.bind(globalThis);

  async function attempt(
    request: Prepared,
    deadline: number,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const late = AbortSignal.timeout(deadline);
    try {
      const response = await send(request.url, {
        ...request.init,
        signal: signal ? AbortSignal.any([signal, late]) : late,
      });
      return await read(response);
    } catch (error) {
      if (error instanceof SallyportError || signal?.aborted) throw error;
      if (late.aborted) throw new TimeoutError(`no answer within ${deadline} ms`, { cause: error });
      throw new ConnectionError('the service could not be reached', { cause: error });
    }
  }

  return {
    call: async (name, input, call = {}) => {
      const timeout = call.timeout ?? options.timeout ?? longestAttempt;
      const { key: asked } = options;
      const key = typeof asked === 'function' ? await within(timeout, 'key', asked, call.signal) : asked;
      const request = prepare(base, name, input as Parts, key, call);
      const tries = (call.retries ?? options.retries ?? 2) + 1;
      let lost = false;
      for (let left = tries - 1; ; left--) {
        try {
          return (await attempt(request, timeout, call.signal)) as never;
        } catch (error) {
          if (lost && isGone(request, error)) return undefined as never;
          lost ||= error instanceof ConnectionError || error instanceof UnavailableError;
          const pause = left > 0 ? pauseAfter(error, tries - left) : undefined;
          if (pause === undefined) throw error;
          await sleep(pause, call.signal);
        }
      }
    },
  };
}

/** A decision changes nothing, and a new Session is answered from memory to nobody, since pages share a key. */
const nameless: readonly (keyof Operations)[] = ['decide', 'createSession'];

interface Prepared {
  readonly url: string;
  readonly init: RequestInit;
}

function prepare(
  base: string,
  name: keyof Operations,
  { params = {}, query = {}, body }: Parts,
  key: string | undefined,
  options: CallOptions,
): Prepared {
  const [method, path] = operations[name];
  const filled = path.replace(/\{(\w+)\}/g, (_, part: string) => segment(part, params[part]));
  const named = method !== 'GET' && method !== 'DELETE' && !nameless.includes(name);
  const headers: Record<string, string> = {
    ...(key !== undefined && { 'SVC-API-KEY': key }),
    ...(body !== undefined && { 'Content-Type': 'application/json' }),
    ...(named && { 'Idempotency-Key': options.idempotencyKey ?? newName() }),
    ...(options.requestId !== undefined && { 'SVC-REQUEST-ID': options.requestId }),
  };
  return {
    url: base + filled + search(query),
    init: { method, headers, redirect: 'manual', ...(body !== undefined && { body: JSON.stringify(body) }) },
  };
}

/** An empty id, `.` and `..` would name another path: that of the list, or of what the thing belongs to. */
function segment(part: string, id: unknown): string {
  if (typeof id === 'string' && !/^\.{0,2}$/.test(id)) return encodeURIComponent(id);
  throw new SallyportError(`${part} is not an id: ${JSON.stringify(id)}`);
}

/** `randomUUID` is missing in a browser on plain http; nothing secret hangs on this. */
function newName(): string {
  const bytes =
    globalThis.crypto?.getRandomValues(new Uint8Array(16)) ??
    Array.from({ length: 16 }, () => Math.random() * 256);
  return Array.from(bytes, (byte) => Math.floor(byte).toString(16).padStart(2, '0')).join('');
}

function search(query: Record<string, unknown>): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    if (name === 'metadata') {
      for (const [field, text] of Object.entries(value as object))
        pairs.append(`metadata.${field}`, String(text));
    } else for (const one of [value].flat()) pairs.append(name, String(one));
  }
  const text = pairs.toString();
  return text === '' ? '' : `?${text}`;
}

/** What an attempt whose answer was lost may have deleted is not there for the next one. */
function isGone({ init }: Prepared, error: unknown): boolean {
  return init.method === 'DELETE' && error instanceof ProblemError && error.code === 'not_found';
}

async function read(response: Response): Promise<unknown> {
  if (response.ok) return response.status === 204 ? undefined : await response.json();
  const problem = (await response.json().catch(() => undefined)) as Problem | undefined;
  if (typeof problem?.code !== 'string') {
    throw new ConnectionError(`something that is not Sallyport answered with ${response.status}`);
  }
  const seconds = Number(response.headers.get('Retry-After') ?? Number.NaN);
  throw errorOf(problem, Number.isFinite(seconds) ? seconds * 1000 : undefined);
}

const longestPause = 30_000;

/** Milliseconds to wait before the next attempt; undefined where another one would not help. */
function pauseAfter(error: unknown, attempt: number): number | undefined {
  const growing = Math.min(100 * 2 ** attempt, 5000) * (0.5 + Math.random() / 2);
  if (error instanceof ConnectionError) return growing;
  if (!(error instanceof ProblemError)) return undefined;
  const passes = error.status === 429 || error.status === 503 || error.code === 'idempotency_running';
  if (!passes) return undefined;
  const asked = error.retryAfter ?? 0;
  return asked > longestPause ? undefined : Math.max(asked, growing);
}
