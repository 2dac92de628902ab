/** Of all entries together, in characters of the text they were made from. An entry takes several times as much memory. */
const maxText = 16_000_000;

/** A cache with a maximum number of entries and of characters. Drops all entries when a new one exceeds either. */
export class BoundedCache<T> {
  readonly #entries = new Map<string, { readonly value: T; readonly text: number }>();
  readonly #maxEntries: number;
  #text = 0;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get(name: string): T | undefined {
    return this.#entries.get(name)?.value;
  }

  /** `text` is the number of characters that the value was made from. */
  set(name: string, value: T, text: number): void {
    this.#text -= this.#entries.get(name)?.text ?? 0;
    this.#entries.delete(name);
    if (this.#entries.size >= this.#maxEntries || this.#text + text > maxText) {
      this.#entries.clear();
      this.#text = 0;
    }
    this.#entries.set(name, { value, text });
    this.#text += text;
  }
}
