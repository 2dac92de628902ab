/** Verifies an export of the audit log offline, with the master key and without a database. */
import { timingSafeEqual } from 'node:crypto';
import { type MasterKeys, missingReason, unwrapChainKeys } from '../crypto/keyring.ts';
import {
  type ExportedCheckpoint,
  type ExportedRow,
  type Footer,
  footerText,
  type Header,
  parseLine,
} from './export.ts';
import {
  anchorOf,
  type ChainKeys,
  checkpointText,
  genesis,
  link,
  macFor,
  signatureCheck,
} from './hash-chain.ts';

export type FindingCode =
  | 'not_an_export'
  | 'wrong_key'
  | 'unknown_format'
  | 'other_log'
  | 'damaged_line'
  | 'changed_row'
  | 'foreign_row'
  | 'misplaced_row'
  | 'missing_rows'
  | 'forged_checkpoint'
  | 'unsigned_end'
  | 'cut_off'
  | 'forged_footer'
  | 'anchor_differs';

export interface Finding {
  readonly code: FindingCode;
  readonly line: number;
  /** The number of the row in the chain. */
  readonly row?: number;
  readonly message: string;
}

export interface Verdict {
  readonly ok: boolean;
  readonly exported_at?: string;
  readonly rows: number;
  readonly checkpoints: number;
  /** The anchors of all chains, as far as they were checked. */
  readonly heads: readonly string[];
  readonly findings: readonly Finding[];
  /** How many findings are not listed. */
  readonly more: number;
}

export interface Anchor {
  readonly tenantId: string;
  readonly seq: number;
  readonly hash: string;
}

export interface VerifyOptions {
  readonly masters: Pick<MasterKeys, 'find' | 'missingReason'>;
  /** Positions in the chains that were stored elsewhere before. */
  readonly anchors?: readonly Anchor[];
  /** The keys of the log that the export must be of. */
  readonly log?: ChainKeys;
  /** Called for every row, before the export as a whole is verified. */
  readonly onRow?: (row: ExportedRow) => void;
}

/** The last row of a chain so far. */
interface ChainState {
  seq: number;
  hash: Uint8Array;
  /** Whether no row since the last checkpoint is missing. */
  isComplete: boolean;
  /** The last row with a valid checkpoint. */
  signed: number;
}

const maxFindings = 100;

export async function verifyExport(lines: AsyncIterable<string>, options: VerifyOptions): Promise<Verdict> {
  const check = new Check(options);
  for await (const text of lines) if (!check.line(text)) break;
  return check.verdict();
}

/** Checks an export line by line, in constant memory. */
class Check {
  readonly #options: VerifyOptions;
  readonly #findings: Finding[] = [];
  #more = 0;
  #lines = 0;
  #stopped = false;
  #header: Header | undefined;
  #footer: Footer | undefined;
  #keys: ChainKeys | undefined;
  #isSigned: (text: string, signature: Uint8Array) => boolean = () => false;
  #rows = 0;
  #checkpoints = 0;
  readonly #chains = new Map<string, ChainState>();

  constructor(options: VerifyOptions) {
    this.#options = options;
  }

  /** Returns false if the rest cannot be checked. */
  line(text: string): boolean {
    this.#lines += 1;
    const line = parseLine(text);
    if (line?.kind === 'unknown') {
      this.#stopAt(line.format);
      return false;
    }
    if (!this.#header) return this.#readHeader(line?.kind === 'header' ? line : undefined);
    if (this.#footer) this.#report('damaged_line', `line ${this.#lines} comes after the footer`);
    else if (line?.kind === 'row') this.#checkRow(line, this.#keys as ChainKeys);
    else if (line?.kind === 'checkpoint') this.#checkCheckpoint(line);
    else if (line?.kind === 'footer') this.#checkFooter(line, this.#header);
    else this.#report('damaged_line', `line ${this.#lines} is not a line of an export`);
    return true;
  }

  verdict(): Verdict {
    if (this.#header && this.#keys && !this.#stopped) this.#checkEnd();
    else if (!this.#header && !this.#stopped)
      this.#report('not_an_export', 'this is not an export of the audit log');
    return {
      ok: this.#findings.length === 0,
      ...(this.#header && { exported_at: this.#header.exported_at }),
      rows: this.#rows,
      checkpoints: this.#checkpoints,
      heads: this.#heads(),
      findings: this.#findings,
      more: this.#more,
    };
  }

  #readHeader(header: Header | undefined): boolean {
    if (!header) return false;
    this.#header = header;
    const master = this.#options.masters.find(header.master_key);
    this.#keys = master && unwrapChainKeys(master, Buffer.from(header.chain_key, 'base64'));
    if (!this.#keys) {
      this.#report(
        'wrong_key',
        `the export needs the master key ${header.master_key}, ${missingReason(this.#options.masters)}`,
      );
      return false;
    }
    this.#isSigned = signatureCheck(this.#keys);
    const { log } = this.#options;
    if (log && !same(log.mac, this.#keys.mac)) this.#report('other_log', 'the export is of another database');
    return true;
  }

  #heads(): string[] {
    return [...this.#chains].map(([tenantId, { seq, hash }]) => anchorOf({ tenantId, seq, hash }));
  }

  #chainOf(tenantId: string): ChainState {
    const state = this.#chains.get(tenantId) ?? { seq: 0, hash: genesis, isComplete: true, signed: 0 };
    this.#chains.set(tenantId, state);
    return state;
  }

  #checkRow(row: ExportedRow, keys: ChainKeys): void {
    const { format, tenant_id: tenantId, seq, at, entry: entryText } = row;
    const chain = this.#chainOf(tenantId);
    this.#rows += 1;
    if (seq <= chain.seq) {
      this.#report('misplaced_row', `row ${seq} comes after row ${chain.seq}`, seq);
      return;
    }
    if (seq > chain.seq + 1) {
      this.#report('missing_rows', `${rowsFrom(chain.seq + 1, seq - 1)} missing`, chain.seq + 1);
      chain.isComplete = false;
    }
    const mac = bytesOf(row.mac);
    if (mac.length === 0)
      this.#report('foreign_row', `row ${seq} has no MAC: another program has inserted it`, seq);
    else if (!same(mac, macFor(keys, { format, tenantId, at, entryText })))
      this.#report('changed_row', `row ${seq} was changed: its MAC does not match`, seq);
    chain.hash = link(keys, chain.hash, seq, mac);
    chain.seq = seq;
    if (chain.isComplete) this.#checkAnchors(tenantId, chain);
    this.#options.onRow?.(row);
  }

  #checkCheckpoint(checkpoint: ExportedCheckpoint): void {
    const { format, tenant_id: tenantId, seq, at } = checkpoint;
    const [hash, signature] = [bytesOf(checkpoint.hash), bytesOf(checkpoint.signature)];
    const chain = this.#chainOf(tenantId);
    this.#checkpoints += 1;
    if (!this.#isSigned(checkpointText({ format, tenantId, seq, at, hash }), signature)) {
      this.#report('forged_checkpoint', `the signature of the checkpoint of row ${seq} is invalid`, seq);
      return;
    }
    if (seq > chain.seq) this.#report('missing_rows', `row ${seq} has a checkpoint, but is missing`, seq);
    else if (seq < chain.seq)
      this.#report('damaged_line', `the checkpoint of row ${seq} comes after row ${chain.seq}`);
    else if (chain.isComplete && !same(hash, chain.hash))
      this.#report('misplaced_row', `${rowsFrom(chain.signed + 1, seq)} not those that were signed`, seq);
    if (seq === chain.seq) Object.assign(chain, { hash, isComplete: true });
    chain.signed = Math.max(chain.signed, seq);
  }

  #checkAnchors(tenantId: string, { seq, hash }: ChainState): void {
    for (const anchor of this.#options.anchors ?? [])
      if (anchor.tenantId === tenantId && anchor.seq === seq && anchor.hash !== hexOf(hash))
        this.#report('anchor_differs', `row ${seq} does not match the anchor`, seq);
  }

  #checkFooter(footer: Footer, { exported_at }: Header): void {
    this.#footer = footer;
    if (!this.#isSigned(footerText(exported_at, footer), bytesOf(footer.signature)))
      this.#report(
        'forged_footer',
        'the signature of the footer is invalid: the footer or the header was changed',
      );
    const { rows, checkpoints, heads } = footer;
    if (rows !== this.#rows)
      this.#report('missing_rows', `the export had ${rows} rows, but has ${this.#rows}`);
    if (checkpoints !== this.#checkpoints)
      this.#report(
        'forged_checkpoint',
        `the export had ${checkpoints} checkpoints, but has ${this.#checkpoints}`,
      );
    if (heads.join() !== this.#heads().join()) this.#report('cut_off', 'the export ended with other rows');
  }

  #checkEnd(): void {
    if (!this.#footer) this.#report('cut_off', 'the export has no footer: it is truncated');
    for (const [tenantId, { seq: last, signed }] of this.#chains) {
      if (this.#footer && signed < last)
        this.#report('unsigned_end', `${rowsFrom(signed + 1, last)} not covered by a checkpoint`, last);
      const anchors = this.#options.anchors?.filter((anchor) => anchor.tenantId === tenantId) ?? [];
      const known = Math.max(signed, ...anchors.map(({ seq }) => seq));
      if (known > last) this.#report('cut_off', `the log ends with row ${last}, but had row ${known}`, last);
    }
  }

  /** The rest may depend on a line that this version does not understand. */
  #stopAt(format: unknown): void {
    this.#stopped = true;
    const message = `line ${this.#lines} has the format ${format}, which this version cannot verify: use a newer version`;
    this.#report('unknown_format', message);
  }

  #report(code: FindingCode, message: string, row?: number): void {
    if (this.#findings.length >= maxFindings) this.#more += 1;
    else this.#findings.push({ code, line: this.#lines, ...(row !== undefined && { row }), message });
  }
}

function rowsFrom(first: number, last: number): string {
  return first === last ? `row ${first} is` : `rows ${first} to ${last} are`;
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function bytesOf(hex: string | null): Uint8Array {
  return Buffer.from(hex ?? '', 'hex');
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}
