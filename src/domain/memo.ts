/**
 * Answers that are remembered by the text that was asked, on shelves that have one limit together. What is kept
 * stays when there is no more room, since to forget and learn at each question costs more than it gives. Only when
 * as many were turned away as there is room for does it start afresh.
 */
export type Shelf<T> = Map<string, T>;

export class Memo<T> {
  readonly #most: number;
  #kept = 0;
  #turnedAway = 0;
  #filled: Shelf<T>[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  /** `key` is not on the shelf yet. */
  keep(shelf: Shelf<T>, key: string, value: T): void {
    if (this.#kept === this.#most) {
      this.#turnedAway++;
      if (this.#turnedAway < this.#most) return;
      this.#forget();
    }
    if (shelf.size === 0) this.#filled.push(shelf);
    shelf.set(key, value);
    this.#kept++;
  }

  #forget(): void {
    for (const shelf of this.#filled) shelf.clear();
    this.#filled = [];
    this.#kept = 0;
    this.#turnedAway = 0;
  }
}
