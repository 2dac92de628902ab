import type { Value } from './db.ts';

/** The parameters of a statement that is put together as it goes. */
export class Params {
  readonly values: Value[] = [];

  /** Keeps the value, and answers with what stands for it in the statement. */
  add(value: Value): string {
    return `$${this.values.push(value)}`;
  }
  /**
   * For `in`; nothing is in a list of none. The last value is repeated until there are 1, 2, 4, 8 … of them:
   * a database keeps every statement that it has prepared, so there should not be one for every length.
   */
  list(values: readonly Value[]): string {
    if (values.length === 0) return '(null)';
    const length = 2 ** Math.ceil(Math.log2(values.length));
    const padded = Array.from({ length }, (_, at) => values[Math.min(at, values.length - 1)] as Value);
    return `(${padded.map((value) => this.add(value)).join(', ')})`;
  }
}

/** All of them; those that are absent do not count. */
export function all(...conditions: (string | false | undefined)[]): string {
  return conditions.filter(Boolean).join(' and ');
}

/** Any of them, where an empty one is always true. Nested by halves, since databases limit how deep it may get. */
export function any(conditions: readonly string[]): string {
  if (conditions.length <= 1) return conditions[0] || '1 = 1';
  const half = conditions.length >> 1;
  return `(${any(conditions.slice(0, half))} or ${any(conditions.slice(half))})`;
}
