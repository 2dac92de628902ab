/** Browser sessions: the browser starts a session, its backend authorizes it. */
import type { SessionAuthorize } from './api.ts';
import { Sallyport } from './client.ts';
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
   * lifetime. If renewal fails, the current session is used until it expires.
   */
  readonly renewBefore?: number;
}

export interface ManagedSession {
  /** Uses the session's key. Renews the session shortly before it expires, or after it was ended early. */
  readonly client: Sallyport;
  /** The current session key, for requests to your own services. Renews the session like `client` does. */
  key(): Promise<string>;
  /** Default expiry of the current session. The backend may have set another one when it authorized the session. */
  readonly expiresAt: Date;
  /** Stops renewing the session. The current key stays valid until it expires. */
  stop(): void;
}

/** For browsers: creates a session, has it authorized, and renews it while it is used. */
export async function startSession(options: StartSessionOptions): Promise<ManagedSession> {
  const { publicKey, authorize, renewBefore = 20_000, ...rest } = options;
  const { timeout = defaultTimeout } = rest;
  const send = rest.fetch ?? globalThis.fetch.bind(globalThis);
  const publicClient = new Sallyport({ ...rest, key: publicKey });
  let stopped = false;
  let renewing: Promise<string> | undefined;
  let current = await create();

  async function create(): Promise<CurrentSession> {
    const { session_key, nonce, expires_at } = await publicClient.sessions.create();
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

  /** On 401, renews the session and sends the request once more. */
  async function sendWithRenewal(url: string, init: RequestInit & { headers: Record<string, string> }) {
    const response = await send(url, init);
    if (response.status !== 401 || stopped) return response;
    const used = init.headers['SVC-API-KEY'];
    const key = used === current.key ? await withAbort(init.signal ?? undefined, renew) : current.key;
    return send(url, { ...init, headers: { ...init.headers, 'SVC-API-KEY': key } });
  }

  /** If a renewal fails or is slow while the current key is valid, returns the current key. */
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
/** The longest delay of `setTimeout`. The browser's clock may be wrong by more. */
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
