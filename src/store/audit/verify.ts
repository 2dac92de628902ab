/** Checks an export of the audit log, offline: it takes the lines and the master key, and no database. */
import { timingSafeEqual } from 'node:crypto';
import { restoreOperation } from '../../domain/audit.ts';
import { lacking, type MasterKeys, openChainKeys } from '../crypto/keyring.ts';
import {
  type ExportedCheckpoint,
  type ExportedRow,
  type Footer,
  footerText,
  format,
  type Header,
  Line,
} from './export.ts';
import { type ChainKeys, checkpointText, genesis, link, macFor, signatureCheck } from './hash-chain.ts';

/** What can be wrong. */
export type Flaw =
  | 'not_an_export'
  | 'wrong_key'
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
  readonly flaw: Flaw;
  readonly line: number;
  /** The row in question, by its place in the chain. */
  readonly row?: number;
  readonly says: string;
}

export interface Verdict {
  readonly ok: boolean;
  readonly exported_at?: string;
  readonly rows: number;
  readonly checkpoints: number;
  /** The place in the chain up to which all of this speaks. */
  readonly head: string;
  readonly findings: readonly Finding[];
  /** How many more there are than are listed. */
  readonly more: number;
}

export interface Anchor {
  readonly seq: number;
  readonly hash: string;
}

export interface VerifyOptions {
  readonly masters: Pick<MasterKeys, 'find' | 'lacking'>;
  /** Places in the chain that were written down elsewhere before. */
  readonly anchors?: readonly Anchor[];
  /** The log that it must be of. */
  readonly log?: ChainKeys;
  /** Is shown every row, before all of them are known to be sound. */
  readonly onRow?: (row: ExportedRow) => void;
}

const mostFindings = 100;

export async function verifyExport(lines: AsyncIterable<string>, options: VerifyOptions): Promise<Verdict> {
  const check = new Check(options);
  for await (const text of lines) if (!check.line(text)) break;
  return check.verdict();
}

/** Walks an export line by line, and keeps no more of it than what the next line needs. */
class Check {
  readonly #options: VerifyOptions;
  readonly #anchors: ReadonlyMap<number, string>;
  readonly #findings: Finding[] = [];
  #more = 0;
  #lines = 0;
  #header: Header | undefined;
  #footer: Footer | undefined;
  #keys: ChainKeys | undefined;
  #isSigned: (text: string, signature: Uint8Array) => boolean = () => false;
  #rows = 0;
  #checkpoints = 0;
  /** The last row of the chain so far, its link, and what the next link may follow: nothing is known behind a gap. */
  #seq = 0;
  #hash = hexOf(genesis);
  #before: Uint8Array[] = [genesis];
  /** The last row with a sound checkpoint. */
  #signed = 0;
  /** The rows that tell of a restore, each with the end of the log that it replaced. */
  readonly #restores: { readonly row: number; readonly end: number }[] = [];

  constructor(options: VerifyOptions) {
    this.#options = options;
    this.#anchors = new Map(options.anchors?.map(({ seq, hash }) => [seq, hash]));
  }

  /** False if there is no point in going on. */
  line(text: string): boolean {
    this.#lines += 1;
    const line = parse(text);
    if (!this.#header) return this.#begin(line?.kind === 'header' ? line : undefined);
    if (this.#footer) this.#found('damaged_line', `line ${this.#lines} stands behind the footer`);
    else if (line?.kind === 'row') this.#row(line, this.#keys as ChainKeys);
    else if (line?.kind === 'checkpoint') this.#checkpoint(line);
    else if (line?.kind === 'footer') this.#end(line, this.#header);
    else this.#found('damaged_line', `line ${this.#lines} is not as it was written`);
    return true;
  }

  verdict(): Verdict {
    if (this.#header && this.#keys) this.#close();
    else if (!this.#header) this.#found('not_an_export', 'this is not an export of the audit log');
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

  #begin(header: Header | undefined): boolean {
    if (header?.format !== format) return false;
    this.#header = header;
    const master = this.#options.masters.find(header.master_key);
    this.#keys = master && openChainKeys(master, Buffer.from(header.chain_key, 'base64'));
    if (!this.#keys) {
      this.#found(
        'wrong_key',
        `it takes the master key ${header.master_key}, ${lacking(this.#options.masters)}`,
      );
      return false;
    }
    this.#isSigned = signatureCheck(this.#keys);
    const { log } = this.#options;
    if (log && !same(log.mac, this.#keys.mac)) this.#found('other_log', 'it is the log of another database');
    return true;
  }

  #row(row: ExportedRow, keys: ChainKeys): void {
    const { seq } = row;
    this.#rows += 1;
    if (seq <= 0) {
      this.#found('foreign_row', 'a row was put in that has no place in the log', seq);
      return;
    }
    if (seq <= this.#seq) {
      this.#found('misplaced_row', `row ${seq} stands behind row ${this.#seq}`, seq);
      return;
    }
    if (seq > this.#seq + 1) {
      this.#found('missing_rows', `${rowsFrom(this.#seq + 1, seq - 1)} missing`, this.#seq + 1);
      this.#before = [];
    }
    const [stored, code] = [bytesOf(row.hash), bytesOf(row.mac)];
    const links = this.#before.map((before) => link(keys, before, seq, code));
    const linked = links.length === 0 || links.some((each) => same(each, stored));
    if (code.length === 0) this.#found('foreign_row', `row ${seq} was put in, and has no code`, seq);
    else if (!same(code, macFor(keys, row)))
      this.#found('changed_row', `row ${seq} is not what was written`, seq);
    else if (!linked) this.#found('misplaced_row', `row ${seq} is not what stood in this place`, seq);
    this.#seq = seq;
    this.#hash = row.hash ?? '';
    this.#before = linked ? [stored] : [stored, ...links];
    if (row.operation === restoreOperation) this.#restores.push({ row: seq, end: replacedEnd(row) });
    this.#anchored(seq, this.#hash);
    this.#options.onRow?.(row);
  }

  #checkpoint({ seq, at, hash, signature }: ExportedCheckpoint): void {
    this.#checkpoints += 1;
    const sound = this.#isSigned(checkpointText({ seq, at, hash: bytesOf(hash) }), bytesOf(signature));
    if (!sound) this.#found('forged_checkpoint', `the checkpoint of row ${seq} is forged`, seq);
    else if (seq > this.#seq) this.#found('missing_rows', `row ${seq} was signed, and is not there`, seq);
    else if (seq < this.#seq) this.#found('damaged_line', `the checkpoint of row ${seq} is not in its place`);
    else if (hash !== this.#hash)
      this.#found('changed_row', `row ${seq} is not the one that was signed`, seq);
    if (sound) this.#signed = Math.max(this.#signed, seq);
  }

  #anchored(seq: number, hash: string): void {
    const anchor = this.#anchors.get(seq);
    if (anchor === undefined || anchor === hash) return;
    this.#found('anchor_differs', `row ${seq} is not the one that the anchor names${this.#since(seq)}`, seq);
  }

  /** A restore accounts for what an anchor names behind it, up to the end of the log that it replaced. */
  #since(anchor: number): string {
    const restore = this.#restores.findLast(({ row, end }) => row <= anchor && anchor <= end);
    return restore ? `; row ${restore.row} says that the database was put back to an earlier state` : '';
  }

  #end(footer: Footer, { exported_at }: Header): void {
    this.#footer = footer;
    if (!this.#isSigned(footerText(exported_at, footer), bytesOf(footer.signature)))
      this.#found('forged_footer', 'the footer is forged, or the time in the header');
    const { rows, checkpoints, head } = footer;
    if (rows !== this.#rows)
      this.#found('missing_rows', `the export had ${rows} rows, and has ${this.#rows}`);
    if (checkpoints !== this.#checkpoints)
      this.#found(
        'forged_checkpoint',
        `the export had ${checkpoints} checkpoints, and has ${this.#checkpoints}`,
      );
    if (head !== `${this.#seq}:${this.#hash}`)
      this.#found(
        'cut_off',
        `the export ended at row ${head.split(':')[0]}, and not with this one`,
        this.#seq,
      );
  }

  #close(): void {
    const last = this.#seq;
    if (!this.#footer) this.#found('cut_off', `the export breaks off behind row ${last}`, last);
    else if (this.#signed < last)
      this.#found('unsigned_end', `${rowsFrom(this.#signed + 1, last)} behind the last checkpoint`, last);
    const anchor = Math.max(0, ...this.#anchors.keys());
    const known = Math.max(this.#signed, anchor);
    const since = anchor > this.#signed ? this.#since(anchor) : '';
    if (known > last)
      this.#found('cut_off', `the log ends at row ${last}, and went on to row ${known}${since}`, last);
  }

  #found(flaw: Flaw, says: string, row?: number): void {
    if (this.#findings.length >= mostFindings) this.#more += 1;
    else this.#findings.push({ flaw, line: this.#lines, ...(row !== undefined && { row }), says });
  }
}

/** Undefined for anything that an export does not write, letter by letter. */
function parse(text: string): Line | undefined {
  try {
    const line = Line.safeParse(JSON.parse(text));
    return line.success && JSON.stringify(line.data) === text ? line.data : undefined;
  } catch {
    return undefined;
  }
}

/** Where the replaced log ended; anywhere, where the restore could not tell. */
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
