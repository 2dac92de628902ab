/** Rate limits. Each process counts in memory, so a rejected request costs no database query. */
import { fail } from '../../domain/error.ts';
import type { Digest } from '../../domain/key.ts';
import { networkOf } from './client-address.ts';
import type { RateLimitStatus, RequestInfo } from './request-info.ts';
import { Buckets, type Rate } from './token-buckets.ts';

/** A rate of 0 is no limit. */
export interface Rates {
  /** Requests by address, checked before the key is read. */
  readonly address: Rate;
  /** Requests by key, checked before the key is looked up. */
  readonly key: Rate;
  /** New sessions by public key and address. */
  readonly sessions: Rate;
  /** Tokens created or changed by application. */
  readonly tokens: Rate;
  /** Bytes of request bodies that create or change tokens, by application. */
  readonly 'token-bytes': Rate;
}

/** Each check throws `too_many_requests` if the rate is exceeded, and adds to the `RateLimit` headers. */
export interface Limits {
  checkAddress(requestInfo: RequestInfo): void;
  checkKey(digest: Digest, requestInfo: RequestInfo): void;
  checkSessions(digest: Digest, requestInfo: RequestInfo): void;
  checkTokens(application: string, bytes: number, requestInfo: RequestInfo): void;
}

export function makeLimits(
  rates: Rates,
  now: () => number,
  onExceeded: (limit: keyof Rates) => void,
): Limits {
  const start = now();
  const address = limit('address', 'requests from one address');
  const key = limit('key', 'requests with one key');
  const sessions = limit('sessions', 'new sessions from one address');
  const tokens = limit('tokens', 'tokens created or changed by one application');
  const tokenBytes = limit('token-bytes', 'bytes of tokens sent by one application', ';qu="content-bytes"');

  function limit(name: keyof Rates, what: string, quotaUnit = '') {
    const { rate, per, burst } = rates[name];
    if (rate === 0) return undefined;
    const buckets = new Buckets(rates[name], start);
    const policy = `"${name}";q=${burst}${quotaUnit};w=${Math.ceil((burst * per) / rate / 1000)}`;
    const detail = `At most ${burst} ${what} in a burst, and ${rate} every ${per === 1000 ? 'second' : 'minute'}. Retry after the number of seconds in Retry-After.`;
    return (client: string, { rateLimits }: { rateLimits: RateLimitStatus }, units?: number) => {
      const { granted, remaining, wait } = buckets.take(client, now(), units);
      const seconds = Math.ceil(wait / 1000);
      rateLimits.add(policy, `"${name}";r=${remaining};t=${seconds}`);
      if (granted) return;
      onExceeded(name);
      throw fail('too_many_requests', { detail, retryAfter: seconds });
    };
  }

  return {
    checkAddress: (requestInfo) => {
      const client = address && requestInfo.address();
      if (client !== undefined) address?.(networkOf(client), requestInfo);
    },
    checkKey: (digest, requestInfo) => key?.(digest.toHex(), requestInfo),
    checkSessions: (digest, requestInfo) =>
      sessions?.(`${digest.toHex()} ${networkOf(requestInfo.address() ?? '')}`, requestInfo),
    checkTokens: (application, bytes, requestInfo) => {
      tokens?.(application, requestInfo);
      tokenBytes?.(application, requestInfo, bytes);
    },
  };
}
