/**
 * Tracks which parts of the data the outputs of a mask show. Positions count Unicode code points. Text without
 * surrogates is cut by its UTF-16 index, which takes a tenth of the time.
 */

const surrogate = /[\ud800-\udfff]/;

function lengthOf(text: string): number {
  return surrogate.test(text) ? [...text].length : text.length;
}

/** Like `slice` of strings, with non-negative positions. */
function cut(text: string, from: number, to: number): string {
  return surrogate.test(text) ? [...text].slice(from, to).join('') : text.slice(from, to);
}

/** A value and the text that the filters of an output have made of it so far. */
export class Excerpt {
  /** The value before all filters. */
  readonly value: string;
  readonly text: string;
  readonly length: number;
  /**
   * The part of `text` that is unchanged: for `from <= i < to`, character `i` is character `i + offset` of `value`.
   * All other characters are replacements.
   */
  readonly from: number;
  readonly to: number;
  readonly offset: number;

  private constructor(value: string, text: string, from: number, to: number, offset: number) {
    this.value = value;
    this.text = text;
    this.length = lengthOf(text);
    this.from = from;
    this.to = Math.max(from, to);
    this.offset = offset;
  }

  static of(value: string): Excerpt {
    return new Excerpt(value, value, 0, lengthOf(value), 0);
  }

  /** Replaces all characters outside `from` to `to` (exclusive). */
  hideExcept(from: number, to: number, replacement: string): Excerpt {
    const start = Math.max(from, 0);
    const end = Math.max(Math.min(to, this.length), start);
    const shown = cut(this.text, start, end);
    const text = replacement.repeat(start) + shown + replacement.repeat(this.length - end);
    return new Excerpt(this.value, text, Math.max(this.from, from), Math.min(this.to, to), this.offset);
  }

  /** Removes all characters outside `from` to `to` (exclusive). */
  slice(from: number, to: number): Excerpt {
    const [start, end] = [Math.max(this.from, from) - from, Math.min(this.to, to) - from];
    return new Excerpt(this.value, cut(this.text, from, to), start, end, this.offset + from);
  }

  toString(): string {
    return this.text;
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

  /** Whether the outputs, taken together, show every character of the value. */
  includeAllOf(value: string): boolean {
    const parts = this.#parts.get(value)?.toSorted((a, b) => a.from - b.from);
    if (!parts) return false;
    let end = 0;
    for (const { from, to } of parts) {
      if (from > end) return false;
      end = Math.max(end, to);
    }
    return end >= lengthOf(value);
  }
}
