/** Rate limits. Each process counts in memory, without database queries. */
import { fail } from '../../domain/error.ts';
import type { Digest } from '../../domain/key.ts';
import { networkOf } from './client-address.ts';
import type { RateLimitStatus, RequestInfo } from './request-info.ts';

/** A token bucket holds `burst` units, such as requests or bytes, and gains `rate` units every `per` milliseconds. */
export interface Rate {
  readonly rate: number;
  readonly per: number;
  readonly burst: number;
}

/** A rate of 0 means no limit. */
export interface Rates {
  /** Requests by address, checked before the key is read. */
  readonly address: Rate;
  /** Requests by key, checked before the key is looked up. */
  readonly key: Rate;
  /** New sessions by public key and address. */
  readonly sessions: Rate;
  /** Requests to `POST /keys/revoke`, by address. */
  readonly revocations: Rate;
  /** Requests to `POST /oauth/token`, by address. */
  readonly exchanges: Rate;
  /** Tokens created or changed, by application. */
  readonly tokens: Rate;
  /** Bytes of request bodies that create or change tokens, by application. */
  readonly 'token-bytes': Rate;
  /** Searches for tokens, by application with the sessions and delegations that it authorized. */
  readonly searches: Rate;
  /** Searches that find nothing, by application like searches. */
  readonly 'search-misses': Rate;
  /** Uses of a token at destinations. */
  readonly uses: Rate;
  /** Milliseconds of long computations, by application. */
  readonly processing: Rate;
}

/** Whose limits a search counts against. */
export interface Searcher {
  /** The application, or the one that authorized the session or delegation. */
  readonly applicationId: string;
  /** The sessions with the same application and authorizer, or the delegations, may use half of its limits. */
  readonly group: string | undefined;
}

/**
 * Each check adds its limit to the `RateLimit` headers once less than half of the burst remains. Throws
 * `too_many_requests` if the rate is exceeded.
 */
export interface Limits {
  checkAddress(requestInfo: RequestInfo): void;
  checkKey(digest: Digest, requestInfo: RequestInfo): void;
  checkSessions(digest: Digest, requestInfo: RequestInfo): void;
  checkRevocations(requestInfo: RequestInfo): void;
  checkExchanges(requestInfo: RequestInfo): void;
  checkTokens(application: string, bytes: number, requestInfo: RequestInfo): void;
  /** Counts a token that takes longer to write as more tokens, also beyond the limit. */
  spendTokens(application: string, tokens: number): void;
  /**
   * Counts a search that finds nothing, before the search, so that concurrent guesses cannot exceed the limit. If it
   * finds something, call the returned function.
   */
  checkSearch(by: Searcher, requestInfo: RequestInfo): () => void;
  /** Counts one use of each token, or none if it throws. If the request is not sent, call the returned function. */
  checkUses(tenant: string, tokens: readonly string[], requestInfo: RequestInfo): () => void;
  /** Throws if the application has used up its processing time. Adds no header. */
  checkProcessing(application: string): void;
  /** Counts processing time, also beyond the limit: it is known only afterwards. */
  spendProcessing(application: string, milliseconds: number): void;
}

export function makeLimits(
  rates: Rates,
  now: () => number,
  onExceeded: (limit: keyof Rates) => void,
): Limits {
  const address = limit('address', 'requests from one address');
  const key = limit('key', 'requests with one key');
  const sessions = limit('sessions', 'new sessions from one address');
  const revocations = limit('revocations', 'revoked keys from one address');
  const exchanges = limit('exchanges', 'exchanged JWTs from one address');
  const tokens = limit('tokens', 'tokens created or changed by one application');
  const tokenBytes = limit('token-bytes', 'bytes of tokens sent by one application', ';qu="content-bytes"');
  const searches = limit('searches', 'searches by one application');
  const misses = limit('search-misses', 'searches without a result by one application');
  const groupSearches = limit('searches', 'searches by sessions', '', 2);
  const groupMisses = limit('search-misses', 'searches without a result by sessions', '', 2);
  const uses = limit('uses', 'uses of one token');
  const processing = limit('processing', 'milliseconds of long computations for one application');
  /** A change can run several times before its commit, and counts once. */
  const searching = new WeakMap<RequestInfo, () => void>();

  function limit(name: keyof Rates, what: string, quotaUnit = '', share = 1) {
    const { per } = rates[name];
    const [rate, burst] = [rates[name].rate / share, Math.ceil(rates[name].burst / share)];
    if (rate === 0) return undefined;
    const buckets = new Buckets({ rate, per, burst }, now());
    const policy = `"${name}";q=${burst}${quotaUnit};w=${Math.ceil((burst * per) / rate / 1000)}`;
    const detail = `At most ${burst} ${what} in a burst, and ${rate} every ${per === 1000 ? 'second' : 'minute'}. Retry after the number of seconds in Retry-After.`;
    const check = (client: string, requestInfo?: { rateLimits: RateLimitStatus }, units?: number) => {
      const { granted, remaining, wait } = buckets.take(client, now(), units);
      // The headers would cost every request as much as both limits.
      if (granted && remaining >= burst / 2) return;
      const seconds = Math.ceil(wait / 1000);
      requestInfo?.rateLimits.add(policy, `"${name}";r=${remaining};t=${seconds}`);
      if (granted) return;
      onExceeded(name);
      throw fail('too_many_requests', { detail, retryAfter: seconds });
    };
    return { check, spend: (client: string, units: number) => buckets.spend(client, now(), units) };
  }

  return {
    checkAddress: (requestInfo) => {
      const client = address && requestInfo.address();
      if (client !== undefined) address?.check(networkOf(client), requestInfo);
    },
    checkKey: (digest, requestInfo) => key?.check(digest.toHex(), requestInfo),
    checkSessions: (digest, requestInfo) =>
      sessions?.check(`${digest.toHex()} ${networkOf(requestInfo.address() ?? '')}`, requestInfo),
    checkRevocations: (requestInfo) =>
      revocations?.check(networkOf(requestInfo.address() ?? ''), requestInfo),
    checkExchanges: (requestInfo) => exchanges?.check(networkOf(requestInfo.address() ?? ''), requestInfo),
    checkTokens: (application, bytes, requestInfo) => {
      tokens?.check(application, requestInfo);
      tokenBytes?.check(application, requestInfo, bytes);
    },
    spendTokens: (application, more) => tokens?.spend(application, more),
    checkSearch: ({ applicationId, group }, requestInfo) => {
      const earlier = searching.get(requestInfo);
      if (earlier) return earlier;
      // Of the group first, so that a group that has used up its part takes nothing from the application.
      for (const each of [groupSearches, groupMisses])
        if (group !== undefined) each?.check(group, requestInfo);
      for (const each of [searches, misses]) each?.check(applicationId, requestInfo);
      let isMiss = true;
      const found = () => {
        if (!isMiss) return;
        isMiss = false;
        misses?.spend(applicationId, -1);
        if (group !== undefined) groupMisses?.spend(group, -1);
      };
      searching.set(requestInfo, found);
      return found;
    },
    checkUses: (tenant, tokens, requestInfo) =>
      takeAll(
        tokens.map((token) => `${tenant} ${token}`),
        (token) => uses?.check(token, requestInfo),
        (token) => uses?.spend(token, -1),
      ),
    checkProcessing: (application) => processing?.check(application, undefined, 0),
    spendProcessing: (application, milliseconds) => processing?.spend(application, milliseconds),
  };
}

/** Takes a unit for each name. If one throws, takes none. Returns what gives all back. */
function takeAll(names: readonly string[], take: (name: string) => void, giveBack: (name: string) => void) {
  const taken: string[] = [];
  const giveAllBack = () => {
    for (const name of taken.splice(0)) giveBack(name);
  };
  try {
    for (const name of names) {
      take(name);
      taken.push(name);
    }
  } catch (error) {
    giveAllBack();
    throw error;
  }
  return giveAllBack;
}

interface Taken {
  readonly granted: boolean;
  /** Units that can be taken immediately after this. */
  readonly remaining: number;
  /** If granted, milliseconds until one more unit is available; otherwise, until this request would be granted. */
  readonly wait: number;
}

/** Maximum buckets in memory per limit, about 150 bytes each. A larger map blocks the event loop while it is resized. */
const maxBuckets = 48_000;
/** Buckets that are shared beyond that. */
const sharedBuckets = 1024;

/**
 * One bucket per client, stored as the time at which it will be full again. Times are multiplied by `rate` so that they
 * are integers: taking a unit adds `per`. Only full buckets are dropped: otherwise, many clients together would reset
 * the limit of another one. At the limit, new clients share buckets.
 */
export class Buckets {
  readonly #rate: Rate;
  readonly #start: number;
  readonly #fullAt = new Map<string, number>();
  /** Goes around all buckets, to find the full ones. */
  #next = this.#fullAt.entries();

  constructor(rate: Rate, start: number) {
    this.#rate = rate;
    this.#start = start;
  }

  /** Takes all `units` or none. `units` must not exceed `burst`. */
  take(client: string, at: number, units = 1): Taken {
    const { rate, per, burst } = this.#rate;
    const now = (at - this.#start) * rate;
    const [name, fullAt] = this.#find(client, now);
    const available = burst * per - (fullAt - now);
    const cost = units * per;
    const granted = available >= cost;
    if (!granted)
      return {
        granted,
        remaining: Math.max(0, Math.floor(available / per)),
        wait: (cost - available) / rate,
      };
    if (cost > 0) this.#fullAt.set(name, fullAt + cost);
    const rest = available - cost;
    return { granted, remaining: Math.floor(rest / per), wait: (per - (rest % per)) / rate };
  }

  /**
   * Takes `units`, also if that is more than the bucket has. No unit is granted until the rest has been gained.
   * Negative units are given back, unless the bucket was dropped.
   */
  spend(client: string, at: number, units: number): void {
    if (units < 0 && !this.#fullAt.has(client)) return;
    const [name, fullAt] = this.#find(client, (at - this.#start) * this.#rate.rate);
    this.#fullAt.set(name, fullAt + units * this.#rate.per);
  }

  /** The name of the client's bucket and when it will be full, `now` at the earliest. */
  #find(client: string, now: number): readonly [string, number] {
    const own = this.#fullAt.get(client);
    if (own !== undefined) return [client, Math.max(own, now)];
    // Faster than buckets are added, so that full ones are found before the limit is reached.
    for (let step = 0; step < 4 && this.#fullAt.size >= maxBuckets / 2; step++) {
      const { value, done } = this.#next.next();
      if (done) this.#next = this.#fullAt.entries();
      else if (value[1] <= now) this.#fullAt.delete(value[0]);
    }
    if (this.#fullAt.size < maxBuckets) return [client, now];
    const shared = `shared ${BigInt(Bun.hash(client)) % BigInt(sharedBuckets)}`;
    return [shared, Math.max(this.#fullAt.get(shared) ?? 0, now)];
  }
}
