/** Keys for workloads: exchanges JWTs of a trusted issuer for short-lived keys, and renews them. */
import type { IssuedKey, Problem, TokenError, TokenRequest } from './api.ts';
import { ConnectionError, SallyportError, toError } from './errors.ts';
import { sleep, withTimeout } from './timeout.ts';
import { baseUrl, defaultTimeout, notTheService, retryDelay } from './transport.ts';

export interface WorkloadKeyOptions {
  /** The URL of the service. */
  readonly url: string | URL;
  /** The tag of the tenant, a dot, and the id of the application. */
  readonly clientId: string;
  /** Returns a JWT of a trusted issuer. Called for every exchange, because a JWT usually works once. */
  readonly token: () => string | Promise<string>;
  /** Timeout of one exchange, and of `token`, in milliseconds. Default: 10 seconds. */
  readonly timeout?: number;
  /** Number of retries after lost connections, 429 and 503. Default: 2. */
  readonly retries?: number;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

/** The service did not accept the JWT. The audit log of the tenant says why. */
export class ExchangeError extends SallyportError {
  override name = 'ExchangeError';
  /** The error code of RFC 6749, such as `invalid_request`. */
  readonly code: TokenError['error'];

  constructor({ error, error_description }: TokenError) {
    super(`${error_description} (${error})`);
    this.code = error;
  }
}

interface CurrentKey {
  readonly key: string;
  readonly renewAt: number;
  readonly expiresAt: number;
}

/** A key is renewed after this part of its lifetime. */
const renewal = 0.8;

/**
 * Returns a function for the option `key` of `Sallyport`. It exchanges a JWT for a key on the first call, and again
 * before the key expires. Concurrent calls share an exchange. If a renewal fails, the old key is used until it expires.
 */
export function workloadKey(options: WorkloadKeyOptions): () => Promise<string> {
  const url = baseUrl(options.url);
  if (typeof options.token !== 'function') throw new SallyportError('`token` must be a function');
  let current: CurrentKey | undefined;
  let renewing: Promise<CurrentKey> | undefined;

  function renew(): Promise<CurrentKey> {
    renewing ??= exchange({ ...options, url }).finally(() => {
      renewing = undefined;
    });
    return renewing;
  }

  return async () => {
    const now = Date.now();
    if (current && now < current.renewAt) return current.key;
    try {
      current = await renew();
    } catch (error) {
      if (!current || now >= current.expiresAt) throw error;
    }
    return current.key;
  };
}

/** Every attempt uses a new JWT: if a response is lost, the JWT may have been used. */
async function exchange(options: WorkloadKeyOptions): Promise<CurrentKey> {
  const { timeout = defaultTimeout, retries = 2 } = options;
  for (let attempt = 1; ; attempt++) {
    try {
      const jwt = await withTimeout(timeout, 'token', options.token);
      return await requestKey(options, jwt, timeout);
    } catch (error) {
      const delay = attempt <= retries ? retryDelay(error, attempt) : undefined;
      if (delay === undefined) throw error;
      await sleep(delay, undefined);
    }
  }
}

async function requestKey(
  { url, clientId, fetch = globalThis.fetch }: WorkloadKeyOptions,
  jwt: string,
  timeout: number,
): Promise<CurrentKey> {
  const form: TokenRequest = {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    client_id: clientId,
    subject_token: jwt.trim(),
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
  };
  const sentAt = Date.now();
  const response = await fetch(`${url}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({ ...form }),
    redirect: 'manual',
    signal: AbortSignal.timeout(timeout),
  }).catch((error) => {
    throw new ConnectionError('the service could not be reached', { cause: error });
  });
  const body = (await response.json().catch(() => undefined)) as Partial<IssuedKey & TokenError & Problem>;
  if (typeof body?.error === 'string') throw new ExchangeError(body as TokenError);
  if (typeof body?.code === 'string') {
    const seconds = Number(response.headers.get('Retry-After') ?? Number.NaN);
    throw toError(body as Problem, Number.isFinite(seconds) ? seconds * 1000 : undefined);
  }
  const { access_token: key, expires_in: seconds } = body ?? {};
  if (!response.ok || typeof key !== 'string' || typeof seconds !== 'number') throw notTheService(response);
  const lifetime = seconds * 1000;
  return { key, renewAt: sentAt + renewal * lifetime, expiresAt: sentAt + lifetime };
}

/**
 * Returns a function for `token` of `workloadKey` that requests a JWT from GitHub Actions. The job needs the permission
 * `id-token: write`. Pass `process.env`.
 */
export function githubToken(
  audience: string,
  env: Readonly<Record<string, string | undefined>>,
  fetch = globalThis.fetch,
): () => Promise<string> {
  const { ACTIONS_ID_TOKEN_REQUEST_URL: url, ACTIONS_ID_TOKEN_REQUEST_TOKEN: token } = env;
  if (!url || !token)
    throw new SallyportError('this is not a job of GitHub Actions with the permission id-token: write');
  return async () => {
    const target = new URL(url);
    target.searchParams.set('audience', audience);
    const response = await fetch(target, { headers: { Authorization: `Bearer ${token}` } });
    const body = (await response.json().catch(() => undefined)) as { value?: unknown } | undefined;
    if (response.ok && typeof body?.value === 'string') return body.value;
    throw new ConnectionError(`GitHub replied with status ${response.status} and no JWT`);
  };
}
