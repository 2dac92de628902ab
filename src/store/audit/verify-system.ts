/**
 * Compares the system chain with the checkpoints of the other chains. Each of these checkpoints signs the end of the
 * system chain at that time. So the removal of the system chain or its end is detected, unless the checkpoints of all
 * other chains are removed too.
 */
import { chainName, type Position } from './export-format.ts';
import { systemTenant } from './hash-chain.ts';
import type { Finding } from './verify-chain-options.ts';

/** Maximum number of entries that are compared. Only 4 bytes of each hash are stored. */
const maxPositions = 2 ** 24;

export class SystemLinks {
  #hashes = new Uint32Array(1024);
  /** The highest position of the system chain that a checkpoint mentions, and which checkpoint. */
  #furthest: { readonly seq: number; readonly source: string } | undefined;
  /**
   * Like `#furthest`, for checkpoints in exports of all chains. The system chain of the export must reach this
   * position.
   */
  #required: { readonly seq: number; readonly source: string } | undefined;
  /** Chains for which a finding was returned. */
  readonly #reported = new Set<string>();

  /** Call this for every position of the system chain before the first call of `compare`. */
  record(seq: number, hash: string): void {
    if (seq >= maxPositions) return;
    if (seq >= this.#hashes.length) {
      const larger = new Uint32Array(2 ** Math.ceil(Math.log2(seq + 1)));
      larger.set(this.#hashes);
      this.#hashes = larger;
    }
    this.#hashes[seq] = startOf(hash);
  }

  /**
   * Compares the checkpoint of `row` with the system chain. `isComplete`: the checkpoint is in an export of all chains.
   * Returns a finding if they differ, at most one per chain.
   */
  compare(tenantId: string, row: number, system: Position, isComplete: boolean): Finding | undefined {
    const { seq, hash } = system;
    if (seq === 0) return undefined;
    const source = `the checkpoint of row ${row} of chain ${chainName(tenantId)}`;
    if (seq > (this.#furthest?.seq ?? 0)) this.#furthest = { seq, source };
    if (isComplete && seq > (this.#required?.seq ?? 0)) this.#required = { seq, source };
    const known = this.#hashes[seq] ?? 0;
    if (known === 0 || known === startOf(hash) || this.#reported.has(tenantId)) return undefined;
    this.#reported.add(tenantId);
    return {
      code: 'anchor_differs',
      chain: chainName(systemTenant),
      row: seq,
      message: `row ${seq} does not match ${source}`,
    };
  }

  /**
   * Returns a finding if the system chain is shorter than checkpoints of other chains say. `end` is the last row of the
   * system chain in exports of all chains.
   */
  findMissing(end: number): Finding | undefined {
    if (!this.#required || this.#required.seq <= end) return undefined;
    const { seq, source } = this.#required;
    const chain = chainName(systemTenant);
    if (end === 0)
      return {
        code: 'missing_chain',
        chain,
        message: `the chain is missing, but had row ${seq} according to ${source}`,
      };
    const message = `the log ends with row ${end}, but had row ${seq} according to ${source}`;
    return { code: 'cut_off', chain, row: end, message };
  }

  /** A note for files without the system chain. */
  get note(): string | undefined {
    return (
      this.#furthest &&
      `the system chain, which has row ${this.#furthest.seq} according to ${this.#furthest.source}`
    );
  }
}

/** The first 4 bytes as a number. Never 0, which stands for an unknown hash. */
function startOf(hash: string): number {
  return Number.parseInt(hash.slice(0, 8), 16) || 1;
}
