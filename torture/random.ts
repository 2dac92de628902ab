/** Seeded random numbers. */
export class Random {
  #state: number;

  /** Each name gives a different sequence for the same seed. */
  constructor(seed: number, name = '') {
    this.#state = seed | 0;
    for (const character of name) this.#state = (Math.imul(this.#state, 31) + character.charCodeAt(0)) | 0;
  }

  /** At least 0, less than 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** An integer of at least 0, less than `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  chance(part: number): boolean {
    return this.next() < part;
  }

  one<T>(of: readonly T[]): T {
    if (of.length === 0) throw new Error('cannot choose from an empty list');
    return of[this.below(of.length)] as T;
  }

  /** A random subset with at least `least` elements. */
  some<T>(of: readonly T[], least = 0): T[] {
    const taken = of.filter(() => this.chance(0.5));
    while (taken.length < Math.min(least, of.length)) {
      const more = this.one(of);
      if (!taken.includes(more)) taken.push(more);
    }
    return taken;
  }

  shuffled<T>(of: readonly T[]): T[] {
    const all = [...of];
    for (let at = all.length - 1; at > 0; at--) {
      const other = this.below(at + 1);
      [all[at], all[other]] = [all[other] as T, all[at] as T];
    }
    return all;
  }
}
