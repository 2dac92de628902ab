/** The parts of values that the outputs of a mask show. */

/** A value while the filters of an output process it. */
export class Excerpt {
  /** The whole value. */
  readonly value: string;
  readonly characters: readonly string[];
  /** For `from <= i < to`, `characters[i]` is the character `i + offset` of the value. The others are replacements. */
  readonly from: number;
  readonly to: number;
  readonly offset: number;

  private constructor(
    value: string,
    characters: readonly string[],
    from: number,
    to: number,
    offset: number,
  ) {
    this.value = value;
    this.characters = characters;
    this.from = from;
    this.to = Math.max(from, to);
    this.offset = offset;
  }

  static of(value: string): Excerpt {
    const characters = [...value];
    return new Excerpt(value, characters, 0, characters.length, 0);
  }

  /** Replaces all characters outside `from` to `to`. */
  hideExcept(from: number, to: number, replacement: string): Excerpt {
    const characters = this.characters.map((each, at) => (at >= from && at < to ? each : replacement));
    return new Excerpt(this.value, characters, Math.max(this.from, from), Math.min(this.to, to), this.offset);
  }

  /** Removes all characters outside `from` to `to`. */
  slice(from: number, to: number): Excerpt {
    const [start, end] = [Math.max(this.from, from) - from, Math.min(this.to, to) - from];
    return new Excerpt(this.value, this.characters.slice(from, to), start, end, this.offset + from);
  }

  toString(): string {
    return this.characters.join('');
  }
}

/** Which characters of each value are shown by at least one output. */
export class ShownParts {
  readonly #parts = new Map<string, { readonly from: number; readonly to: number }[]>();

  add({ value, from, to, offset }: Excerpt): void {
    const parts = this.#parts.get(value) ?? [];
    parts.push({ from: from + offset, to: to + offset });
    this.#parts.set(value, parts);
  }

  /** Whether the outputs together show every character of the value. */
  includeAllOf(value: string): boolean {
    const parts = this.#parts.get(value)?.toSorted((a, b) => a.from - b.from);
    if (!parts) return false;
    let end = 0;
    for (const { from, to } of parts) {
      if (from > end) return false;
      end = Math.max(end, to);
    }
    return end >= [...value].length;
  }
}
