/** Browser sessions: the browser starts a session, its backend authorizes it. */
import type { SessionAuthorize } from './api.ts';
import { Sallyport } from './client.ts';
import { bindsByDefault, isProofChallenge, ProofKey } from './dpop.ts';
import { SallyportError } from './errors.ts';
import { withAbort, withTimeout } from './timeout.ts';
import { type ClientOptions, defaultTimeout, type RequestOptions } from './transport.ts';

export interface StartSessionOptions extends Omit<ClientOptions, 'key'> {
  /** The key of a public application. */
  readonly publicKey: string;
  /** Sends the nonce to your backend. Must resolve after the backend has authorized the session. */
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
  /** Uses the session's key. Renews the session shortly before it expires, or after it was ended early. */
  readonly client: Sallyport;
  /**
   * The current session key, for requests to your own services. Renews the session like `client` does. The key of a
   * bound session does not work without a proof: use `fetch` instead.
   */
  key(): Promise<string>;
  /**
   * Like the global `fetch`, for requests to your own services: adds the session key and, if the session is bound, a
   * proof for this request. Your service checks them with a guard.
   */
  fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response>;
  /** Whether the session is bound to a key of this browser. */
  readonly bound: boolean;
  /** The default expiry of the current session. The backend may have set another when it authorized the session. */
  readonly expiresAt: Date;
  /** Stops renewing the session. The current key stays valid until it expires. */
  stop(): void;
}

/** For browsers: creates a session, gets it authorized, and renews it while it is used. */
export async function startSession(options: StartSessionOptions): Promise<ManagedSession> {
  const { publicKey, authorize, renewBefore = 20_000, bind = bindsByDefault(), ...rest } = options;
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
    const end = Date.parse(expires_at);
    const authorizeTimeout = Math.min(Math.max(end - Date.now(), timeout), maxTimer);
    await withTimeout(authorizeTimeout, 'authorization', () => authorize(nonce));
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

  /** On 401, renews the session and sends the request once more. */
  async function sendWithRenewal(url: string, init: RequestInit & { headers: Record<string, string> }) {
    const attempt = (key: string) => {
      const keyed = { ...init, headers: { ...init.headers, 'SVC-API-KEY': key } };
      return proofKey ? sendProven(proofKey, url, keyed, key) : send(url, keyed);
    };
    const used = init.headers['SVC-API-KEY'] as string;
    const response = await attempt(used);
    if (response.status !== 401 || isProofChallenge(response) || stopped) return response;
    const key = used === current.key ? await withAbort(init.signal ?? undefined, renew) : current.key;
    return attempt(key);
  }

  /**
   * Copies the request, because its body is sent again if the proof was not accepted. Does not follow redirects,
   * because they would send the key and the proof to another server.
   */
  async function fetchWithKey(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const given = new Request(input, init);
    const request = given.redirect === 'follow' ? new Request(given, { redirect: 'manual' }) : given;
    const sessionKey = await key();
    const attempt = (proof?: string) => {
      const headers = new Headers(request.headers);
      headers.set('SVC-API-KEY', sessionKey);
      if (proof !== undefined) headers.set('DPoP', proof);
      return send(new Request(request.clone(), { headers }));
    };
    if (!proofKey) return attempt();
    return proofKey.send(attempt, () => proofKey.sign(request.method, request.url, sessionKey));
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
      fetch: sendWithRenewal as typeof globalThis.fetch,
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

/** For backends: authorizes the session of this nonce with the given grant. A nonce works once. */
export async function authorizeSession(
  client: Sallyport,
  nonce: string,
  grant: Omit<SessionAuthorize, 'nonce'>,
  options?: RequestOptions,
): Promise<void> {
  await client.sessions.authorize({ nonce, ...grant }, options);
}
