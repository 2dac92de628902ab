import type { Value } from './db.ts';

/** Conditions and their parameters, side by side. */
export class Where {
  readonly params: Value[] = [];
  readonly #conditions: string[] = [];

  param(value: Value): string {
    return `$${this.params.push(value)}`;
  }
  and(left: string, value: Value, rest = ''): void {
    this.#conditions.push(`${left} ${this.param(value)} ${rest}`);
  }
  in(left: string, values: readonly Value[]): void {
    this.#conditions.push(
      values.length === 0 ? '1 = 0' : `${left} in (${values.map((v) => this.param(v)).join(', ')})`,
    );
  }
  also(condition: string): void {
    this.#conditions.push(condition);
  }
  sql(): string {
    return this.#conditions.join(' and ');
  }
}
