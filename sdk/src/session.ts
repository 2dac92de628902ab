/** Browser sessions: the browser starts a session, its backend authorizes it. */
import type { SessionAuthorize } from './api.ts';
import { type AuthorizedSession, Sallyport, sessionExpiryHeader } from './client.ts';
import { bindsByDefault, isProofChallenge, ProofKey } from './dpop.ts';
import { SallyportError } from './errors.ts';
import { withAbort, withTimeout } from './timeout.ts';
import { type ClientOptions, defaultTimeout, type RequestOptions, requireKey } from './transport.ts';

export interface StartSessionOptions extends Omit<ClientOptions, 'key'> {
  /** The key of a public application. */
  readonly publicKey: string;
  /**
   * Sends the nonce to your backend. Must resolve after the backend has authorized the session. It may resolve to
   *
   * - the `Response` of your backend. The session fails to start if its status is not 2xx. If it has the header
   *   `SVC-SESSION-EXPIRES-AT`, this is the expiry of the session.
   * - an object with `expiresAt`, a `Date` or an ISO 8601 date, such as the result of `authorizeSession`.
   * - another value. The expiry is then not known: the default applies, and a session that ends earlier is renewed
   *   after the first 401.
   */
  readonly authorize: (nonce: string) => Promise<unknown>;
  /**
   * Milliseconds before its expiry at which a session is renewed. Default: 20 seconds, but not before half of its
   * lifetime has passed. If renewal fails, the current session is used until it expires.
   */
  readonly renewBefore?: number;
  /**
   * Whether to bind the session to a key pair that cannot leave this browser, so that a stolen session key is useless
   * (DPoP, RFC 9449). Default: true in secure contexts (HTTPS or localhost), false elsewhere.
   */
  readonly bind?: boolean;
}

export interface ManagedSession {
  /** Uses the session's key. Renews the session shortly before it expires, or once on a 401 of Sallyport. */
  readonly client: Sallyport;
  /**
   * The current session key, for requests to your own services. Renews the session like `client` does. The key of a
   * bound session does not work without a proof: use `fetch` instead.
   */
  key(): Promise<string>;
  /**
   * Like the global `fetch`, for requests to your own services: adds the session key and, if the session is bound, a
   * proof for this request. Your service checks them with a guard. If the guard answers 401 because the session has
   * ended, renews the session and sends the request once more, with the same body. Rejects if the renewal fails.
   */
  fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;
  /** Whether the session is bound to a key of this browser. */
  readonly bound: boolean;
  /** The expiry of the current session: the one that `authorize` returned, otherwise the default. */
  readonly expiresAt: Date;
  /** Stops renewing the session. The current key stays valid until it expires. */
  stop(): void;
}

/** For browsers: creates a session, gets it authorized, and renews it while it is used. */
export async function startSession(options: StartSessionOptions): Promise<ManagedSession> {
  const { publicKey, authorize, renewBefore = 20_000, bind = bindsByDefault(), ...rest } = options;
  requireKey('`publicKey`', publicKey);
  if (typeof authorize !== 'function') throw new SallyportError('`authorize` must be a function');
  const { timeout = defaultTimeout } = rest;
  const send = rest.fetch ?? globalThis.fetch.bind(globalThis);
  const proofKey = bind ? await ProofKey.generate() : undefined;
  const sendPublic = proofKey && ((url: string, init: RequestInit) => sendProven(proofKey, url, init));
  const publicClient = new Sallyport({
    ...rest,
    key: publicKey,
    fetch: (sendPublic ?? send) as typeof globalThis.fetch,
  });
  let stopped = false;
  let renewing: Promise<string> | undefined;
  let current = await create();

  async function create(): Promise<CurrentSession> {
    const { session_key, nonce, expires_at, bound } = await publicClient.sessions.create();
    if (proofKey && !bound) throw new SallyportError('the service did not bind the session');
    const pendingUntil = Date.parse(expires_at);
    const authorizeTimeout = Math.min(Math.max(pendingUntil - Date.now(), timeout), maxTimer);
    const result = await withTimeout(authorizeTimeout, 'authorization', () => authorize(nonce));
    const end = grantedExpiry(result) ?? pendingUntil;
    return { key: session_key, end, renewAt: renewalTime(end - Date.now(), renewBefore) };
  }

  /** Concurrent requests share one renewal. */
  function renew(): Promise<string> {
    renewing ??= create()
      .then(
        (created) => {
          current = created;
          return created.key;
        },
        (cause: unknown) => {
          throw new SallyportError('the session could not be renewed', { cause });
        },
      )
      .finally(() => {
        renewing = undefined;
      });
    return renewing;
  }

  /** Sends the request with a proof. The proof contains the hash of the session key if it is given. */
  function sendProven(
    prover: ProofKey,
    url: string,
    init: RequestInit & { headers?: HeadersInit },
    sessionKey?: string,
  ): Promise<Response> {
    const attempt = (proof: string) => send(url, { ...init, headers: { ...init.headers, DPoP: proof } });
    return prover.send(attempt, () => prover.sign(init.method ?? 'GET', url, sessionKey));
  }

  /** Sends the request with this key. If it is no longer valid, renews the session and sends the request once more. */
  async function sendWithRenewal(
    used: string,
    signal: AbortSignal | null | undefined,
    attempt: (key: string) => Promise<Response>,
  ): Promise<Response> {
    const response = await attempt(used);
    if (stopped || !(await isInvalidKey(response))) return response;
    await response.body?.cancel();
    const key = used === current.key ? await withAbort(signal ?? undefined, renew) : current.key;
    return attempt(key);
  }

  function sendApiRequest(url: string, init: RequestInit & { headers: Record<string, string> }) {
    return sendWithRenewal(init.headers['SVC-API-KEY'] as string, init.signal, (key) => {
      const keyed = { ...init, headers: { ...init.headers, 'SVC-API-KEY': key } };
      return proofKey ? sendProven(proofKey, url, keyed, key) : send(url, keyed);
    });
  }

  /**
   * Copies the request, because its body is sent again if the proof or the key was not accepted. Does not follow
   * redirects, because they would send the key and the proof to another server.
   */
  async function fetchWithKey(input: string | URL | Request, init?: RequestInit): Promise<Response> {
    const given = new Request(input, init);
    const request = given.redirect === 'follow' ? new Request(given, { redirect: 'manual' }) : given;
    return sendWithRenewal(await key(), request.signal, (sessionKey) => {
      const attempt = (proof?: string) => {
        const headers = new Headers(request.headers);
        headers.set('SVC-API-KEY', sessionKey);
        if (proof !== undefined) headers.set('DPoP', proof);
        return send(new Request(request.clone(), { headers }));
      };
      if (!proofKey) return attempt();
      return proofKey.send(attempt, () => proofKey.sign(request.method, request.url, sessionKey));
    });
  }

  /** The current key. Renews the session if necessary. If that fails or is slow, uses the old key while it is valid. */
  async function key(): Promise<string> {
    if (stopped || Date.now() < current.renewAt) return current.key;
    if (Date.now() >= current.end) return withTimeout(timeout, 'new session', renew);
    return withTimeout(renewalTimeout, 'new session', renew).catch(() => {
      current = { ...current, renewAt: nextRenewal(current.end) };
      return current.key;
    });
  }

  return {
    key,
    fetch: fetchWithKey,
    bound: proofKey !== undefined,
    client: new Sallyport({
      ...rest,
      key,
      fetch: sendApiRequest as typeof globalThis.fetch,
    }),
    get expiresAt() {
      return new Date(current.end);
    },
    stop: () => {
      stopped = true;
    },
  };
}

/** Milliseconds that a request waits for a renewal while the current key is still valid. */
const renewalTimeout = 1000;
/** The longest delay that `setTimeout` supports. With a wrong clock, the computed delay could be longer. */
const maxTimer = 2 ** 31 - 1;

interface CurrentSession {
  readonly key: string;
  readonly end: number;
  readonly renewAt: number;
}

const earliestExpiry = Date.parse('2000-01-01T00:00:00Z');

/**
 * The expiry in the result of `authorize`, in milliseconds since 1970. Undefined if it has none. Throws if the result is
 * the response of a backend that did not authorize the session.
 */
function grantedExpiry(result: unknown): number | undefined {
  const { status, headers, expiresAt } = (result ?? {}) as Partial<Response & { expiresAt: unknown }>;
  const isResponse = typeof status === 'number' && typeof headers?.get === 'function';
  if (isResponse && (status < 200 || status > 299))
    throw new SallyportError(`the session was not authorized: your backend answered with status ${status}`);
  const given = isResponse ? headers.get(sessionExpiryHeader) : expiresAt;
  if (given === undefined || given === null || given === '') return undefined;
  const time = given instanceof Date || typeof given === 'string' ? new Date(given).getTime() : Number.NaN;
  // Seconds taken for milliseconds are a date in January 1970.
  if (!(time > earliestExpiry))
    throw new SallyportError(`the expiry of the session is not a Date or an ISO 8601 date: ${given}`);
  return time;
}

/**
 * Whether Sallyport, or a guard that asked it, rejected the key. Other 401 responses do not count: those of another
 * server, of a destination, and those that ask for another proof. Also recognizes the problem document, because some
 * gateways remove `WWW-Authenticate`, and pages of other origins can read it only if the service exposes it.
 */
async function isInvalidKey(response: Response): Promise<boolean> {
  const { status, headers } = response;
  if (status !== 401 || isProofChallenge(response) || headers.has('SVC-DESTINATION')) return false;
  if (headers.get('WWW-Authenticate')?.includes('ApiKey header="SVC-API-KEY"')) return true;
  if (!headers.get('Content-Type')?.startsWith('application/problem+json')) return false;
  const problem = (await response
    .clone()
    .json()
    .catch(() => undefined)) as { code?: unknown } | undefined;
  return problem?.code === 'unauthenticated';
}

/** If the browser's clock runs ahead, a new session seems expired. Then only a 401 triggers a renewal. */
function renewalTime(remaining: number, renewBefore: number): number {
  if (remaining <= 0) return Number.POSITIVE_INFINITY;
  return Date.now() + Math.max(remaining - renewBefore, remaining / 2);
}

/** After a failed renewal, retries after half of the remaining time. */
function nextRenewal(end: number): number {
  const half = (end - Date.now()) / 2;
  return half < renewalTimeout ? end : Date.now() + half;
}

/**
 * For backends: authorizes the session of this nonce with the given grant. A nonce works once. Send `expiresAt` of the
 * result to the page, for example in the header `SVC-SESSION-EXPIRES-AT`.
 */
export async function authorizeSession(
  client: Sallyport,
  nonce: string,
  grant: Omit<SessionAuthorize, 'nonce'>,
  options?: RequestOptions,
): Promise<AuthorizedSession> {
  return client.sessions.authorize({ nonce, ...grant }, options);
}
