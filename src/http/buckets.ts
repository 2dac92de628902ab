/** A bucket holds `burst` requests, and `rate` of them flow back in every `per` milliseconds. */
export interface Rate {
  readonly rate: number;
  readonly per: number;
  readonly burst: number;
}

export interface Taken {
  readonly granted: boolean;
  /** How many could be taken at once after this one. */
  readonly left: number;
  /** Milliseconds until it is one more. */
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

  take(name: string, at: number): Taken {
    const { rate, per, burst } = this.#rate;
    const now = (at - this.#start) * rate;
    const fullAt = Math.max(this.#recent.get(name) ?? this.#recalled(name), now);
    const room = burst * per - (fullAt - now);
    const granted = room >= per;
    this.#recent.set(name, granted ? fullAt + per : fullAt);
    if (!granted) return { granted, left: 0, wait: (per - room) / rate };
    const rest = room - per;
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
