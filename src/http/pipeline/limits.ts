/**
 * How often one caller may come. Counted in memory by this process alone: whoever is turned away has cost no
 * look-up and leaves no row.
 */
import { fail } from '../../domain/error.ts';
import type { Digest } from '../../domain/key.ts';
import { networkOf } from './client-address.ts';
import type { RequestInfo } from './request-info.ts';
import { Buckets, type Rate } from './token-buckets.ts';

/** A rate of 0 is no limit. */
export interface Rates {
  /** Requests by address, before its key is looked at. */
  readonly address: Rate;
  /** Requests by key, before it is looked up. */
  readonly key: Rate;
  /** New Sessions by public key and address. */
  readonly sessions: Rate;
  /** Tokens created or changed by application. */
  readonly tokens: Rate;
  /** Bytes of request bodies that create or change tokens, by application. */
  readonly 'token-bytes': Rate;
}

/** Each throws when there were too many, and leaves a note for the answer. */
export interface Limits {
  address(where: RequestInfo, quotas: Quotas): void;
  key(digest: Digest, quotas: Quotas): void;
  sessions(digest: Digest, where: RequestInfo, quotas: Quotas): void;
  tokens(application: string, bytes: number, quotas: Quotas): void;
}

/** The limits that a request came under: one object for all requests that came under the same ones. */
export class Policies {
  readonly text: string;
  readonly #more = new Map<string, Policies>();

  constructor(text: string) {
    this.text = text;
  }

  and(policy: string): Policies {
    const known = this.#more.get(policy);
    if (known) return known;
    const more = new Policies(this.text === '' ? policy : `${this.text}, ${policy}`);
    this.#more.set(policy, more);
    return more;
  }
}

const noPolicies = new Policies('');

/** What the answer tells of the limits that its request came under, in the words of the IETF's RateLimit draft. */
export class Quotas {
  policies = noPolicies;
  left = '';

  note(policy: string, left: string): void {
    this.policies = this.policies.and(policy);
    this.left = this.left === '' ? left : `${this.left}, ${left}`;
  }
}

export const noQuotas: Readonly<Pick<Quotas, 'policies' | 'left'>> = new Quotas();

export function makeLimits(
  rates: Rates,
  now: () => number,
  turnedAway: (limit: keyof Rates) => void,
): Limits {
  const start = now();
  const address = limit('address', 'requests from one address');
  const key = limit('key', 'requests with one key');
  const sessions = limit('sessions', 'new Sessions from one address');
  const tokens = limit('tokens', 'tokens created or changed by one application');
  const tokenBytes = limit('token-bytes', 'bytes of tokens sent by one application', ';qu="content-bytes"');

  function limit(name: keyof Rates, what: string, unit = '') {
    const { rate, per, burst } = rates[name];
    if (rate === 0) return undefined;
    const buckets = new Buckets(rates[name], start);
    const policy = `"${name}";q=${burst}${unit};w=${Math.ceil((burst * per) / rate / 1000)}`;
    const detail = `At most ${burst} ${what} at once, and ${rate} every ${per === 1000 ? 'second' : 'minute'}: try again after the time in Retry-After.`;
    return (who: string, quotas: Quotas, units?: number) => {
      const { granted, left, wait } = buckets.take(who, now(), units);
      const seconds = Math.ceil(wait / 1000);
      quotas.note(policy, `"${name}";r=${left};t=${seconds}`);
      if (granted) return;
      turnedAway(name);
      throw fail('too_many_requests', { detail, retryAfter: seconds });
    };
  }

  return {
    address: (where, quotas) => {
      const from = address && where.address();
      if (from !== undefined) address?.(networkOf(from), quotas);
    },
    key: (digest, quotas) => key?.(digest.toHex(), quotas),
    sessions: (digest, where, quotas) =>
      sessions?.(`${digest.toHex()} ${networkOf(where.address() ?? '')}`, quotas),
    tokens: (application, bytes, quotas) => {
      tokens?.(application, quotas);
      tokenBytes?.(application, quotas, bytes);
    },
  };
}
