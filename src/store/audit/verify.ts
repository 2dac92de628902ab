/** Verifies an export of the audit log offline, with the master key and without a database. */
import { timingSafeEqual } from 'node:crypto';
import { restoreOperation } from '../../domain/audit.ts';
import { type MasterKeys, missingReason, unwrapChainKeys } from '../crypto/keyring.ts';
import {
  type ExportedCheckpoint,
  type ExportedRow,
  type Footer,
  footerText,
  type Header,
  parseLine,
} from './export.ts';
import { type ChainKeys, checkpointText, genesis, link, macFor, signatureCheck } from './hash-chain.ts';

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
  /** The last position in the chain that was checked. */
  readonly head: string;
  readonly findings: readonly Finding[];
  /** How many findings are not listed. */
  readonly more: number;
}

export interface Anchor {
  readonly seq: number;
  readonly hash: string;
}

export interface VerifyOptions {
  readonly masters: Pick<MasterKeys, 'find' | 'missingReason'>;
  /** Positions in the chain that were stored elsewhere before. */
  readonly anchors?: readonly Anchor[];
  /** The keys of the log that the export must be of. */
  readonly log?: ChainKeys;
  /** Called for every row, before the export as a whole is verified. */
  readonly onRow?: (row: ExportedRow) => void;
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
  readonly #anchors: ReadonlyMap<number, string>;
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
  /** The last row so far, its link, and the links that the next one may follow: none after a gap. */
  #seq = 0;
  #hash = hexOf(genesis);
  #links: Uint8Array[] = [genesis];
  /** The last row with a valid checkpoint. */
  #signed = 0;
  /** Entries about a restore, each with the end of the log that it replaced. */
  readonly #restores: { readonly row: number; readonly end: number }[] = [];

  constructor(options: VerifyOptions) {
    this.#options = options;
    this.#anchors = new Map(options.anchors?.map(({ seq, hash }) => [seq, hash]));
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
      head: `${this.#seq}:${this.#hash}`,
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

  #checkRow(row: ExportedRow, keys: ChainKeys): void {
    const { seq } = row;
    this.#rows += 1;
    if (seq <= 0) {
      this.#report('foreign_row', 'another program has inserted a row that is not in the chain', seq);
      return;
    }
    if (seq <= this.#seq) {
      this.#report('misplaced_row', `row ${seq} comes after row ${this.#seq}`, seq);
      return;
    }
    if (seq > this.#seq + 1) {
      this.#report('missing_rows', `${rowsFrom(this.#seq + 1, seq - 1)} missing`, this.#seq + 1);
      this.#links = [];
    }
    const [stored, mac] = [bytesOf(row.hash), bytesOf(row.mac)];
    const links = this.#links.map((before) => link(keys, before, seq, mac));
    const linked = links.length === 0 || links.some((each) => same(each, stored));
    if (mac.length === 0)
      this.#report('foreign_row', `row ${seq} has no MAC: another program has inserted it`, seq);
    else if (!same(mac, macFor(keys, row)))
      this.#report('changed_row', `row ${seq} was changed: its MAC does not match`, seq);
    else if (!linked) this.#report('misplaced_row', `row ${seq} was moved: its link does not match`, seq);
    this.#seq = seq;
    this.#hash = row.hash ?? '';
    this.#links = linked ? [stored] : [stored, ...links];
    if (row.operation === restoreOperation) this.#restores.push({ row: seq, end: replacedEnd(row) });
    this.#checkAnchor(seq, this.#hash);
    this.#options.onRow?.(row);
  }

  #checkCheckpoint({ format, seq, at, hash, signature }: ExportedCheckpoint): void {
    this.#checkpoints += 1;
    const text = checkpointText({ format, seq, at, hash: bytesOf(hash) });
    const valid = this.#isSigned(text, bytesOf(signature));
    if (!valid)
      this.#report('forged_checkpoint', `the signature of the checkpoint of row ${seq} is invalid`, seq);
    else if (seq > this.#seq)
      this.#report('missing_rows', `row ${seq} has a checkpoint, but is missing`, seq);
    else if (seq < this.#seq)
      this.#report('damaged_line', `the checkpoint of row ${seq} comes after row ${this.#seq}`);
    else if (hash !== this.#hash)
      this.#report('changed_row', `row ${seq} is not the one that its checkpoint signs`, seq);
    if (valid) this.#signed = Math.max(this.#signed, seq);
  }

  #checkAnchor(seq: number, hash: string): void {
    const anchor = this.#anchors.get(seq);
    if (anchor === undefined || anchor === hash) return;
    this.#report('anchor_differs', `row ${seq} does not match the anchor${this.#restoreNote(seq)}`, seq);
  }

  /** A restore explains why anchors between it and the end of the replaced log do not match. */
  #restoreNote(anchor: number): string {
    const restore = this.#restores.findLast(({ row, end }) => row <= anchor && anchor <= end);
    return restore ? `; row ${restore.row} records that the database was restored from a backup` : '';
  }

  #checkFooter(footer: Footer, { exported_at }: Header): void {
    this.#footer = footer;
    if (!this.#isSigned(footerText(exported_at, footer), bytesOf(footer.signature)))
      this.#report(
        'forged_footer',
        'the signature of the footer is invalid: the footer or the header was changed',
      );
    const { rows, checkpoints, head } = footer;
    if (rows !== this.#rows)
      this.#report('missing_rows', `the export had ${rows} rows, but has ${this.#rows}`);
    if (checkpoints !== this.#checkpoints)
      this.#report(
        'forged_checkpoint',
        `the export had ${checkpoints} checkpoints, but has ${this.#checkpoints}`,
      );
    if (head !== `${this.#seq}:${this.#hash}`)
      this.#report(
        'cut_off',
        `the export ended with row ${head.split(':')[0]}, but ends with row ${this.#seq}`,
        this.#seq,
      );
  }

  #checkEnd(): void {
    const last = this.#seq;
    if (!this.#footer)
      this.#report('cut_off', `the export has no footer: it is truncated after row ${last}`, last);
    else if (this.#signed < last)
      this.#report('unsigned_end', `${rowsFrom(this.#signed + 1, last)} not covered by a checkpoint`, last);
    const anchor = Math.max(0, ...this.#anchors.keys());
    const known = Math.max(this.#signed, anchor);
    const since = anchor > this.#signed ? this.#restoreNote(anchor) : '';
    if (known > last)
      this.#report('cut_off', `the log ends with row ${last}, but had row ${known}${since}`, last);
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

/** The last row of the log that a restore replaced; infinity if that is unknown. */
function replacedEnd({ entry }: ExportedRow): number {
  const seq = /"audit_head":\{"from":"(\d{1,15}):/.exec(entry)?.[1];
  return seq === undefined ? Number.POSITIVE_INFINITY : Number(seq);
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
