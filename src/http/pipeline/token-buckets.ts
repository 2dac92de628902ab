/** A token bucket holds `burst` units, such as requests or bytes, and gains `rate` units every `per` milliseconds. */
export interface Rate {
  readonly rate: number;
  readonly per: number;
  readonly burst: number;
}

export interface Taken {
  readonly granted: boolean;
  /** Units that can be taken immediately after this. */
  readonly remaining: number;
  /** If granted, milliseconds until one more unit is available; otherwise, until this request would be granted. */
  readonly wait: number;
}

/** Buckets in memory. One for an address or a key takes about 150 bytes. */
const maxBuckets = 100_000;

/**
 * One bucket per client. A bucket is stored as the time at which it will be full again, in integers: a millisecond
 * counts `rate`, a unit counts `per`. The least recently used buckets are dropped, which makes them full again.
 */
export class Buckets {
  readonly #rate: Rate;
  readonly #start: number;
  #recent = new Map<string, number>();
  #older = new Map<string, number>();

  constructor(rate: Rate, start: number) {
    this.#rate = rate;
    this.#start = start;
  }

  /** Takes all `units` or none. `units` must not exceed `burst`. */
  take(client: string, at: number, units = 1): Taken {
    const { rate, per, burst } = this.#rate;
    const now = (at - this.#start) * rate;
    const fullAt = Math.max(this.#recent.get(client) ?? this.#olderOrNew(client), now);
    const available = burst * per - (fullAt - now);
    const cost = units * per;
    const granted = available >= cost;
    this.#recent.set(client, granted ? fullAt + cost : fullAt);
    if (!granted) return { granted, remaining: Math.floor(available / per), wait: (cost - available) / rate };
    const rest = available - cost;
    return { granted, remaining: Math.floor(rest / per), wait: (per - (rest % per)) / rate };
  }

  /** Makes room among the recent buckets, since the caller adds this one to them. */
  #olderOrNew(client: string): number {
    const fullAt = this.#older.get(client) ?? 0;
    if (this.#recent.size >= maxBuckets / 2) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    return fullAt;
  }
}
