/** Input and results of the verification of a chain. */
import type { MasterKeys } from '../crypto/keyring.ts';
import type { ExportedRow, Header, Position } from './export-format.ts';
import type { ChainKeys } from './hash-chain.ts';
import type { ChainIndex } from './index-check.ts';
import type { FindingCode } from './verify-part.ts';

export interface Finding {
  readonly code: FindingCode;
  /** The chain: the id of a tenant, or `system`. */
  readonly chain?: string;
  readonly file?: string;
  readonly line?: number;
  /** The number of the row in the chain. */
  readonly row?: number;
  /** The last row, if the finding is about a range of rows. */
  readonly last?: number;
  readonly message: string;
}

export interface ChainVerdict {
  readonly chain: string;
  /** The first entry that was checked. */
  readonly first: number;
  /** The last entry that was checked. `latest_at` is the latest time of the entries up to it. */
  readonly last: number;
  readonly latest_at?: string;
  readonly rows: number;
  readonly checkpoints: number;
  /** The last position that was checked, as CHAIN:SEQ:HASH. */
  readonly anchor: string;
}

export interface Anchor extends Position {
  readonly tenantId: string;
}

/** A row with the tenant of its chain; `systemTenant` if it has none. */
export type VerifiedRow = Omit<ExportedRow, 'kind'> & { readonly tenantId: string };

/** One chain, or a range of it, in a file or in the database. */
export interface Part {
  readonly header: Header;
  /** Absent for a part that is read from the database. */
  readonly file?: string;
  /** The number of the header's line in its file. */
  readonly line: number;
  /** SEQ:HASH from the footer. Undefined if the part has no footer. */
  readonly head: string | undefined;
  /** All lines, including the header. */
  lines(): AsyncIterable<string>;
  /** The index of the chain, which is compared with the rows. Absent for a file. */
  readonly index?: ChainIndex;
}

export interface VerifyOptions {
  readonly masters: Pick<MasterKeys, 'find' | 'missingReason'>;
  /** Positions that were stored outside the database earlier. */
  readonly anchors?: readonly Anchor[];
  /** If given, the export must be of the log with these keys. */
  readonly log?: ChainKeys;
  /**
   * What to do if archived entries are not in the given files. `required`, the default, reports a finding. `optional`
   * adds a note. `ignored` does not check for missing entries.
   */
  readonly archives?: 'required' | 'optional' | 'ignored';
  /** Called for every row with a valid MAC, before the result is known. */
  readonly onRow?: (row: VerifiedRow) => void;
}

/** A position that the chain should have. It was recorded in the system chain, or given by the caller. */
export interface Expected extends Position {
  readonly source: string;
  /** Whether the caller gave it. */
  readonly given?: boolean;
  /**
   * Which files must contain this position. `log`: the export of the whole log. `archive`: the given archives, if one
   * of them is of the system chain and records the position. Undefined if no file has to contain it.
   */
  readonly required: 'log' | 'archive' | undefined;
}

export interface ChainOptions extends VerifyOptions {
  readonly report: (finding: Finding) => void;
  readonly note: (text: string) => void;
  /** Called for every position that was verified. */
  readonly onPosition: (seq: number, hash: string) => void;
  /** Called for every checkpoint that mentions the end of the system chain. */
  readonly onSystem: (seq: number, system: Position, part: Part) => void;
  /** Called for every entry that records the ends of other chains. */
  readonly onHeads: (heads: readonly (readonly [tenantId: string, Position])[], row: number) => void;
}
