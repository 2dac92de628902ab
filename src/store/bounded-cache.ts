/** How much text, in characters. What it is made into takes several times as much. */
const maxCharacters = 16_000_000;

/**
 * What is remembered by name. With more than `most`, or of more text than there is room for, all of it is forgotten
 * at once: so nothing has to be done where something is found.
 */
export class BoundedCache<T> {
  readonly #kept = new Map<string, { readonly one: T; readonly text: number }>();
  readonly #most: number;
  #text = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get(name: string): T | undefined {
    return this.#kept.get(name)?.one;
  }

  /** `text` is how many characters it was made of. */
  set(name: string, one: T, text: number): void {
    this.#forget(name);
    if (this.#kept.size >= this.#most || this.#text + text > maxCharacters) this.clear();
    this.#kept.set(name, { one, text });
    this.#text += text;
  }

  clear(): void {
    this.#kept.clear();
    this.#text = 0;
  }

  #forget(name: string): void {
    const known = this.#kept.get(name);
    if (!known) return;
    this.#kept.delete(name);
    this.#text -= known.text;
  }
}
