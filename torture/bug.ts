/** A known bug that is planted, with the row that must detect it. */
import type { DatabaseName } from './row.ts';

export interface Bug {
  readonly name: string;
  /** The row that must fail, and its database. */
  readonly row: string;
  readonly database: DatabaseName;
  /** Exact replacements. Each text must occur once. */
  readonly changes: readonly { readonly file: string; readonly from: string; readonly to: string }[];
}
