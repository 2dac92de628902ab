/** Rate limits. Each process counts in memory, without database queries. */
import { fail, throwIfInvalid } from '../../domain/error.ts';
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

/** Every limit, by what it counts. A limit with `half` is a half of another one, for a part of its clients. */
const table = {
  address: { counts: 'requests from one address' },
  key: { counts: 'requests with one key' },
  sessions: { counts: 'new sessions from one address' },
  revocations: { counts: 'revoked keys from one address' },
  exchanges: { counts: 'exchanged JWTs from one address' },
  tokens: { counts: 'tokens created or changed by one application' },
  'token-bytes': { counts: 'bytes of tokens sent by one application', unit: ';qu="content-bytes"' },
  searches: { counts: 'searches by one application' },
  'search-misses': { counts: 'searches without a result by one application' },
  'group-searches': { counts: 'searches by sessions', half: 'searches' },
  'group-search-misses': { counts: 'searches without a result by sessions', half: 'search-misses' },
  uses: { counts: 'uses of one token' },
  processing: { counts: 'milliseconds of long computations for one application' },
} satisfies Record<string, { counts: string; unit?: string; half?: keyof Rates }>;
type LimitName = keyof typeof table;

/** Units that a request takes from the bucket of a client. The clients of a limit are addresses, applications, or others. */
export interface Charge {
  readonly limit: LimitName;
  readonly client: string;
  /** Default: 1. */
  readonly units?: number;
}

/** Whose limits a search counts against. */
export interface Searcher {
  /** The application, or the one that authorized the session or delegation. */
  readonly applicationId: string;
  /** The sessions with the same application and authorizer, or the delegations, may use half of its limits. */
  readonly group: string | undefined;
}

/** Gives units back. Without names, those of all limits. A second call gives back nothing. */
export type Refund = (...limits: readonly LimitName[]) => void;

/** Gives back what this many searches, which find something, have taken as misses. A repetition gives back nothing. */
export type Found = (hits?: number) => void;

interface Kind {
  /** The name in headers and metrics. */
  readonly name: keyof Rates;
  readonly burst: number;
  readonly buckets: Buckets;
  readonly policy: string;
  readonly detail: string;
}

export class Limits {
  readonly #now: () => number;
  readonly #onExceeded: (limit: keyof Rates) => void;
  /** Without those that are switched off. */
  readonly #kinds = new Map<LimitName, Kind>();
  /** A change can run several times before its commit, and its search counts once. */
  readonly #searches = new WeakMap<RequestInfo, Found>();

  constructor(rates: Rates, now: () => number, onExceeded: (limit: keyof Rates) => void) {
    this.#now = now;
    this.#onExceeded = onExceeded;
    for (const limit of Object.keys(table) as LimitName[]) {
      const kind = kindOf(limit, rates, now());
      if (kind) this.#kinds.set(limit, kind);
    }
  }

  /**
   * Takes all units or none. Throws `too_many_requests` for the limit that takes longest to grant its units. Adds each
   * limit of which less than half is left to the `RateLimit` headers.
   */
  take(requestInfo: { rateLimits: RateLimitStatus }, ...charges: readonly Charge[]): Refund {
    const at = this.#now();
    let strictest: { kind: Kind; wait: number } | undefined;
    for (const { limit, client, units } of charges) {
      const kind = this.#kinds.get(limit);
      if (!kind) continue;
      const { granted, remaining, wait } = kind.buckets.decide(client, at, units);
      // The headers would cost every request as much as the limits of its key and address.
      if (granted && remaining >= kind.burst / 2) continue;
      requestInfo.rateLimits.add(kind.policy, `"${kind.name}";r=${remaining};t=${Math.ceil(wait / 1000)}`);
      if (!granted && wait >= (strictest?.wait ?? 0)) strictest = { kind, wait };
    }
    if (strictest) throw this.#refusal(strictest.kind, strictest.wait);
    for (const { limit, client, units } of charges) this.spend(limit, client, units);
    let taken = charges;
    return (...limits) => {
      const back = taken.filter(({ limit }) => limits.length === 0 || limits.includes(limit));
      taken = taken.filter((charge) => !back.includes(charge));
      for (const { limit, client, units = 1 } of back) this.spend(limit, client, -units);
    };
  }

  /** Counts units that are known only afterwards, also beyond the limit. Negative units are given back. */
  spend(limit: LimitName, client: string, units?: number): void {
    this.#kinds.get(limit)?.buckets.spend(client, this.#now(), units);
  }

  /** Throws if the client may take no unit. */
  check(limit: LimitName, client: string): void {
    const kind = this.#kinds.get(limit);
    const decision = kind?.buckets.decide(client, this.#now(), 0);
    if (kind && decision?.granted === false) throw this.#refusal(kind, decision.wait);
  }

  /** Takes a unit of a limit that counts every request. The client is found out only if it can be near its limit. */
  takeRequest(requestInfo: RequestInfo, limit: 'address' | 'key', clientOf: () => string): void {
    const kind = this.#kinds.get(limit);
    if (!kind || kind.buckets.takeTogether(this.#now())) return;
    const client = clientOf();
    // Callers over a Unix socket have no address, and are not limited together.
    if (client !== '') this.take(requestInfo, { limit, client });
  }

  /** Takes a unit of the address, and one of each other limit by address. */
  takeAddress(requestInfo: RequestInfo, ...others: readonly ('revocations' | 'exchanges')[]): void {
    if (others.length === 0) {
      this.takeRequest(requestInfo, 'address', () => addressOf(requestInfo));
      return;
    }
    const limits = (['address', ...others] as const).filter((limit) => this.#kinds.has(limit));
    const client = addressOf(requestInfo);
    const counted = limits.filter((limit) => limit !== 'address' || client !== '');
    this.take(requestInfo, ...counted.map((limit) => ({ limit, client })));
  }

  /**
   * Counts searches that find nothing, before the search, so that concurrent guesses cannot exceed the limit. If it
   * finds something, call the returned function.
   */
  takeSearch({ applicationId, group }: Searcher, requestInfo: RequestInfo, units = 1): Found {
    const earlier = this.#searches.get(requestInfo);
    if (earlier) return earlier;
    const charges: Charge[] = [
      { limit: 'searches', client: applicationId, units },
      { limit: 'search-misses', client: applicationId, units },
    ];
    if (group !== undefined)
      charges.push(
        { limit: 'group-searches', client: group, units },
        { limit: 'group-search-misses', client: group, units },
      );
    const most = Math.min(...charges.map(({ limit }) => this.#kinds.get(limit)?.burst ?? units));
    if (units > most)
      throwIfInvalid({
        tokens: [`can have \`unless_exists\` in at most ${most} items: send fewer at a time`],
      });
    this.take(requestInfo, ...charges);
    let given = 0;
    const found = (hits = 1) => {
      const back = Math.min(hits, units) - given;
      if (back <= 0) return;
      given += back;
      for (const { limit, client } of charges) if (limit.endsWith('misses')) this.spend(limit, client, -back);
    };
    this.#searches.set(requestInfo, found);
    return found;
  }

  #refusal({ name, detail }: Kind, wait: number) {
    this.#onExceeded(name);
    return fail('too_many_requests', { detail, retryAfter: Math.ceil(wait / 1000) });
  }
}

/** Undefined if the limit is switched off. */
function kindOf(limit: LimitName, rates: Rates, start: number): Kind | undefined {
  const { counts, unit = '', half }: { counts: string; unit?: string; half?: keyof Rates } = table[limit];
  const name = half ?? (limit as keyof Rates);
  const share = half ? 2 : 1;
  const { per } = rates[name];
  const [rate, burst] = [rates[name].rate / share, Math.ceil(rates[name].burst / share)];
  if (rate === 0) return undefined;
  return {
    name,
    burst,
    buckets: new Buckets({ rate, per, burst }, start),
    policy: `"${name}";q=${burst}${unit};w=${Math.ceil((burst * per) / rate / 1000)}`,
    detail: `At most ${burst} ${counts} in a burst, and ${rate} every ${per === 1000 ? 'second' : 'minute'}. Retry after the number of seconds in Retry-After.`,
  };
}

/** The client of limits by address. */
export function addressOf(requestInfo: RequestInfo): string {
  return networkOf(requestInfo.address() ?? '');
}

interface Decision {
  readonly granted: boolean;
  /** Units that can be taken immediately after this. */
  readonly remaining: number;
  /** If granted, milliseconds until one more unit is available; otherwise, until this request would be granted. */
  readonly wait: number;
}

/**
 * Whether a bucket grants `units`, which must not exceed `burst`. `debt` is what it lacks of being full: the missing
 * units times `per`.
 */
export function decide({ rate, per, burst }: Rate, debt: number, units: number): Decision {
  const available = burst * per - debt;
  const cost = units * per;
  if (available < cost)
    return {
      granted: false,
      remaining: Math.max(0, Math.floor(available / per)),
      wait: (cost - available) / rate,
    };
  const rest = available - cost;
  return { granted: true, remaining: Math.floor(rest / per), wait: (per - (rest % per)) / rate };
}

/** Maximum buckets in memory per limit, about 150 bytes each. A larger map blocks the event loop while it is resized. */
const maxBuckets = 48_000;
/** Buckets that are shared beyond that. */
const sharedBuckets = 1024;

/**
 * One bucket per client, stored as the time at which it will be full again. Times are multiplied by `rate` so that they
 * are integers: taking a unit adds `per`. Only full buckets are dropped: otherwise, many clients together would reset
 * the limit of another one. At the limit, new clients share buckets.
 *
 * One more bucket counts the units of all clients, and no client can lack more than it does. With `takeTogether`, clients
 * are told apart only after it lacks an eighth. The bucket of each then begins with what all of them lacked.
 */
export class Buckets {
  readonly #rate: Rate;
  readonly #start: number;
  readonly #fullAt = new Map<string, number>();
  #allFullAt = 0;
  /** Undefined while clients are not told apart. */
  #firstFullAt: number | undefined = 0;
  /** Goes around all buckets, to find the full ones. */
  #next = this.#fullAt.entries();

  constructor(rate: Rate, start: number) {
    this.#rate = rate;
    this.#start = start;
  }

  /** Takes a unit of a client that need not be known. If it must be, returns false and takes none. */
  takeTogether(at: number): boolean {
    const { rate, per, burst } = this.#rate;
    const now = (at - this.#start) * rate;
    const fullAt = Math.max(this.#allFullAt, now) + per;
    const few = 8 * (fullAt - now) <= burst * per;
    if (few) {
      this.#allFullAt = fullAt;
      this.#firstFullAt = undefined;
    } else if (this.#firstFullAt === undefined) {
      this.#fullAt.clear();
      this.#next = this.#fullAt.entries();
      this.#firstFullAt = this.#allFullAt;
    }
    return few;
  }

  /** Whether the client may take `units`. Takes none. */
  decide(client: string, at: number, units = 1): Decision {
    const now = (at - this.#start) * this.#rate.rate;
    const [, fullAt] = this.#find(client, now);
    return decide(this.#rate, fullAt - now, units);
  }

  /**
   * Takes `units`, also if that is more than the bucket has. No unit is granted until the rest has been gained.
   * Negative units are given back, unless the bucket was dropped.
   */
  spend(client: string, at: number, units = 1): void {
    if (units < 0 && !this.#fullAt.has(client)) return;
    const { rate, per, burst } = this.#rate;
    const now = (at - this.#start) * rate;
    // All of them never count as lacking more than one client can.
    this.#allFullAt = Math.min(Math.max(this.#allFullAt, now) + units * per, now + burst * per);
    if (this.#firstFullAt === undefined) return;
    const [name, fullAt] = this.#find(client, now);
    this.#fullAt.set(name, fullAt + units * per);
  }

  /** The name of the client's bucket and when it will be full, `now` at the earliest. */
  #find(client: string, now: number): readonly [string, number] {
    const first = Math.max(this.#firstFullAt ?? this.#allFullAt, now);
    const own = this.#firstFullAt === undefined ? first : this.#fullAt.get(client);
    if (own !== undefined) return [client, Math.max(own, now)];
    // Faster than buckets are added, so that full ones are found before the limit is reached.
    for (let step = 0; step < 4 && this.#fullAt.size >= maxBuckets / 2; step++) {
      const { value, done } = this.#next.next();
      if (done) this.#next = this.#fullAt.entries();
      else if (value[1] <= now) this.#fullAt.delete(value[0]);
    }
    if (this.#fullAt.size < maxBuckets) return [client, first];
    const shared = `shared ${BigInt(Bun.hash(client)) % BigInt(sharedBuckets)}`;
    return [shared, Math.max(this.#fullAt.get(shared) ?? first, now)];
  }
}
