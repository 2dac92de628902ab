import type { Value } from './db.ts';

/** The parameters of a statement that is put together as it goes. */
export class Params {
  readonly values: Value[] = [];

  /** Keeps the value, and answers with what stands for it in the statement. */
  add(value: Value): string {
    return `$${this.values.push(value)}`;
  }
  /** For `in`; nothing is in a list of none. */
  list(values: readonly Value[]): string {
    if (values.length === 0) return '(null)';
    return `(${values.map((value) => this.add(value)).join(', ')})`;
  }
}

/** All of them; those that are absent do not count. */
export function all(...conditions: (string | false | undefined)[]): string {
  return conditions.filter(Boolean).join(' and ');
}
