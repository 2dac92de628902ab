import type { Value } from './db.ts';

/** Collects the parameters of a statement while its text is built. */
export class Params {
  readonly values: Value[] = [];

  /** Returns the placeholder for the value. */
  add(value: Value): string {
    return `$${this.values.push(value)}`;
  }
  /** A list for `in`, which matches nothing if it is empty. */
  list(values: readonly Value[]): string {
    if (values.length === 0) return '(null)';
    return `(${padded(values)
      .map((value) => this.add(value))
      .join(', ')})`;
  }
}

/** Repeats the last value until there are 1, 2, 4, 8 … of them, to limit the number of prepared statements. */
export function padded<T>(values: readonly T[]): readonly T[] {
  const last = values.at(-1);
  if (last === undefined) return [];
  const length = 2 ** Math.ceil(Math.log2(values.length));
  return Array.from({ length }, (_, at) => values[at] ?? last);
}

/** Joins conditions with `and`. Leaves out missing ones. */
export function all(...conditions: (string | false | undefined)[]): string {
  return conditions.filter(Boolean).join(' and ');
}
