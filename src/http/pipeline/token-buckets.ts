/** A bucket holds `burst` units, such as requests or bytes. `rate` of them flow back in every `per` milliseconds. */
export interface Rate {
  readonly rate: number;
  readonly per: number;
  readonly burst: number;
}

export interface Taken {
  readonly granted: boolean;
  /** How many units could be taken at once after this. */
  readonly left: number;
  /** Milliseconds until it is one more, or until this is granted. */
  readonly wait: number;
}

/** So many names are told apart at most; an address or a key takes about 150 bytes. */
const mostNames = 100_000;

/**
 * One bucket for each name. Kept is only the moment at which it will be full again, in whole numbers: a
 * millisecond counts `rate`, a request `per`. A bucket that nobody asked for while many others came up is
 * forgotten, and so full again: memory stays bounded however many names there are.
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

  /** Takes `units`, which must not be more than `burst`, or nothing. */
  take(name: string, at: number, units = 1): Taken {
    const { rate, per, burst } = this.#rate;
    const now = (at - this.#start) * rate;
    const fullAt = Math.max(this.#recent.get(name) ?? this.#recalled(name), now);
    const room = burst * per - (fullAt - now);
    const cost = units * per;
    const granted = room >= cost;
    this.#recent.set(name, granted ? fullAt + cost : fullAt);
    if (!granted) return { granted, left: Math.floor(room / per), wait: (cost - room) / rate };
    const rest = room - cost;
    return { granted, left: Math.floor(rest / per), wait: (per - (rest % per)) / rate };
  }

  /** One that is to be kept with the recent ones, for which there is room then. */
  #recalled(name: string): number {
    const fullAt = this.#older.get(name) ?? 0;
    if (this.#recent.size >= mostNames / 2) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    return fullAt;
  }
}
