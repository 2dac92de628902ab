/** What the verification of one chain is given, and what it reports. */
import type { Position } from './export-format.ts';
import type { Finding, Part, VerifyOptions } from './verify-chain.ts';

/** Recorded in the system chain, or given by the caller. */
export interface Expected extends Position {
  readonly source: string;
  /** Whether the caller gave it. */
  readonly given?: boolean;
  /**
   * The chain must be at least as long. `log`: in the log that was exported. `archive`: in these archives, because the
   * archive of the system chain recorded it. Undefined if these files cannot be expected to have it.
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
