/**
 * Compares the system chain with the checkpoints of the other chains. Each signs the end that the system chain had at that
 * time. So the removal of the system chain, or of its end, is found, unless all other chains are reset, too.
 */
import { chainName, type Position } from './export-format.ts';
import { systemTenant } from './hash-chain.ts';
import type { Finding } from './verify-chain-options.ts';

/** The start of each hash is stored, 4 bytes per entry. Entries after these are not compared. */
const maxPositions = 2 ** 24;

export class SystemLinks {
  #hashes = new Uint32Array(1024);
  /** The highest position that a checkpoint mentions, and where. */
  #furthest: { readonly seq: number; readonly source: string } | undefined;
  /** The same for exports of all chains, whose system chain must be as long. */
  #required: { readonly seq: number; readonly source: string } | undefined;
  /** Chains with a checkpoint that does not match. */
  readonly #reported = new Set<string>();

  /** Call it for every position of the system chain, and then `compare`. */
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
   * Compares a checkpoint of row `row`. `isComplete`: it is in an export of all chains. Returns a finding if it does not
   * match, one per chain.
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

  /** `end` is the last row of the system chain in exports of all chains. */
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

  /** For files without the system chain. */
  get note(): string | undefined {
    return (
      this.#furthest &&
      `the system chain, which has row ${this.#furthest.seq} according to ${this.#furthest.source}`
    );
  }
}

/** Never 0, which stands for an unknown hash. */
function startOf(hash: string): number {
  return Number.parseInt(hash.slice(0, 8), 16) || 1;
}
