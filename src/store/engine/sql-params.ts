import type { Value } from './db.ts';

/** Collects the parameters of a statement while its text is built. */
export class Params {
  readonly values: Value[] = [];

  /** Returns the placeholder for the value. */
  add(value: Value): string {
    return `$${this.values.push(value)}`;
  }
  /**
   * A list for `in`, which matches nothing if it is empty. Repeats the last value until there are 1, 2, 4, 8 … of them,
   * to limit the number of prepared statements.
   */
  list(values: readonly Value[]): string {
    if (values.length === 0) return '(null)';
    const length = 2 ** Math.ceil(Math.log2(values.length));
    const padded = Array.from({ length }, (_, at) => values[Math.min(at, values.length - 1)] as Value);
    return `(${padded.map((value) => this.add(value)).join(', ')})`;
  }
}

/** Joins conditions with `and`. Leaves out missing ones. */
export function all(...conditions: (string | false | undefined)[]): string {
  return conditions.filter(Boolean).join(' and ');
}

/** Joins conditions with `or`; an empty one is true. Nests them as a tree, because databases limit the depth. */
export function any(conditions: readonly string[]): string {
  if (conditions.length <= 1) return conditions[0] || '1 = 1';
  const half = conditions.length >> 1;
  return `(${any(conditions.slice(0, half))} or ${any(conditions.slice(half))})`;
}
