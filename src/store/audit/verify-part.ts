/** Verifies one part of an export: the entries of one chain between two positions. */
import { timingSafeEqual } from 'node:crypto';
import { type MasterKeys, missingReason, unwrapChainKeys } from '../crypto/keyring.ts';
import {
  type ExportedCheckpoint,
  type ExportedRow,
  type Footer,
  footerText,
  type Header,
  type Position,
  parseLine,
  parsePosition,
} from './export-format.ts';
import {
  type ChainKeys,
  checkpointInterval,
  checkpointText,
  expectedMac,
  link,
  signatureCheck,
} from './hash-chain.ts';

export type FindingCode =
  | 'not_an_export'
  | 'wrong_key'
  | 'missing_key'
  | 'unknown_format'
  | 'other_log'
  | 'damaged_line'
  | 'changed_row'
  | 'foreign_row'
  | 'replayed_row'
  | 'misplaced_row'
  | 'missing_rows'
  | 'broken_chain'
  | 'forged_checkpoint'
  | 'missing_checkpoint'
  | 'wrong_time'
  | 'unsigned_end'
  | 'cut_off'
  | 'forged_footer'
  | 'anchor_differs'
  | 'missing_archive'
  | 'missing_chain'
  | 'changed_index'
  | 'changed_settings';

export interface PartOptions {
  readonly header: Header;
  readonly masters: Pick<MasterKeys, 'find' | 'missingReason'>;
  /** If given, the export must be of the log with these keys. */
  readonly log?: ChainKeys | undefined;
  readonly report: (code: FindingCode, line: number, message: string, row?: number) => void;
  /** Called for every row whose MAC is valid. */
  readonly onRow: (row: ExportedRow) => void;
  /** Called for every position, with the hashes that it may have. The list is empty if rows before it are missing. */
  readonly onPosition: (seq: number, hashes: readonly string[], line: number) => void;
  /** Called for every checkpoint with a valid signature that mentions the end of the system chain. */
  readonly onSystem: (seq: number, system: Position) => void;
}

/** Checks a part line by line, in constant memory. */
export class PartCheck {
  readonly #options: PartOptions;
  readonly #header: Header;
  readonly #keys: ChainKeys | undefined;
  readonly #isSigned: (text: string, signature: Uint8Array) => boolean;
  #line: number;
  #stopped = false;
  #footer: Footer | undefined;
  rows = 0;
  checkpoints = 0;
  /** The last row so far. */
  #seq: number;
  /**
   * The hash of the chain up to the last row, computed with the stored MACs. If MACs are wrong, also the hash computed
   * with the correct MACs. Empty after missing rows, until the next checkpoint.
   */
  #links: readonly Uint8Array[];
  /** The last row with a valid checkpoint. Initially the start of the part. */
  #signed: number;
  /** The row of the last checkpoint, even if that is invalid. */
  #lastCheckpoint: number;
  /** The latest time of the rows so far. */
  #latest = 0;
  /** Whether `#latest` is exact. After deleted, missing or changed rows it is not, until the next checkpoint. */
  #isLatestExact: boolean;

  /** `line` is the number of the header in its file. */
  constructor(line: number, options: PartOptions) {
    const { header, masters, log, report } = options;
    const start = parsePosition(header.after) as Position;
    this.#options = options;
    this.#header = header;
    this.#line = line;
    this.#seq = start.seq;
    this.#signed = start.seq;
    this.#lastCheckpoint = start.seq;
    this.#isLatestExact = start.seq === 0;
    this.#links = [bytesOf(start.hash)];
    const master = masters.find(header.master_key);
    this.#keys = master && unwrapChainKeys(master, Buffer.from(header.chain_key, 'base64'));
    this.#isSigned = this.#keys ? signatureCheck(this.#keys) : () => false;
    if (!this.#keys)
      report(
        'wrong_key',
        line,
        `the export needs the master key ${header.master_key}, ${missingReason(masters)}`,
      );
    else if (log && !same(log.mac, this.#keys.mac))
      report('other_log', line, 'the export is of another database');
    else options.onPosition(start.seq, [start.hash], line);
  }

  /** Whether some of the part could not be checked. */
  get isUnreadable(): boolean {
    return this.#stopped || !this.#keys;
  }

  /** The last position that was checked. After missing rows, its hash is empty until the next checkpoint. */
  get head(): Position {
    return { seq: this.#seq, hash: hexOf(this.#links[0] ?? new Uint8Array()) };
  }

  /** The latest known time of the rows up to `head`. */
  get latest(): number {
    return this.#latest;
  }

  /** Checks a line after the header. Returns false if the rest cannot be checked. */
  line(text: string): boolean {
    if (!this.#keys || this.isUnreadable) return false;
    this.#line += 1;
    const line = parseLine(text);
    if (line?.kind === 'unknown') {
      this.#stopAt(line.format);
      return false;
    }
    if (this.#footer) this.#report('damaged_line', `line ${this.#line} comes after the footer`);
    else if (line?.kind === 'row') this.#checkRow(line, this.#keys);
    else if (line?.kind === 'checkpoint') this.#checkCheckpoint(line);
    else if (line?.kind === 'footer') this.#checkFooter(line);
    else this.#report('damaged_line', `line ${this.#line} is not a line of an export`);
    return true;
  }

  /** Call this after the last line. */
  end(): void {
    if (this.isUnreadable) return;
    const last = this.#seq;
    if (!this.#footer)
      this.#report('cut_off', `the export has no footer: it is truncated after row ${last}`, last);
    else if (this.#signed < last)
      this.#report('unsigned_end', `${rowRange(this.#signed + 1, last)} not covered by a checkpoint`, last);
    else if (this.#signed > last)
      this.#report('cut_off', `the log ends with row ${last}, but had row ${this.#signed}`, last);
  }

  #checkRow(row: ExportedRow, keys: ChainKeys): void {
    const { seq } = row;
    const { seq: start } = parsePosition(this.#header.after) as Position;
    this.rows += 1;
    if (seq <= start || seq < 1) {
      this.#report('foreign_row', `another program has inserted row ${seq}, which is not in the chain`, seq);
      return;
    }
    if (seq <= this.#seq) {
      this.#report('misplaced_row', `row ${seq} comes after row ${this.#seq}`, seq);
      return;
    }
    if (seq > this.#seq + 1) {
      this.#report('missing_rows', `${rowRange(this.#seq + 1, seq - 1)} missing`, this.#seq + 1);
      this.#links = [];
      this.#isLatestExact = false;
    }
    if (seq === this.#seq + 1 && this.#seq % checkpointInterval === 0 && this.#lastCheckpoint < this.#seq)
      this.#report('missing_checkpoint', `the checkpoint of row ${this.#seq} is missing`, this.#seq);
    const { format, at, entry: entryText } = row;
    const stored = bytesOf(row.mac);
    const right = expectedMac(keys, { format, tenantId: this.#header.tenant_id, at, entryText }, stored);
    const valid = same(stored, right);
    if (row.mac === null)
      this.#report('foreign_row', `row ${seq} has no MAC: another program has inserted it`, seq);
    else if (!valid) this.#report('changed_row', `row ${seq} was changed: its MAC does not match`, seq);
    const [first, second = first] = this.#links;
    const links = [first && link(keys, first, seq, stored), second && link(keys, second, seq, right)];
    this.#links = links.filter((each) => each !== undefined).slice(0, valid && first === second ? 1 : 2);
    this.#seq = seq;
    if (valid) this.#latest = Math.max(this.#latest, at);
    else this.#isLatestExact = false;
    if (valid) this.#options.onRow(row);
    this.#options.onPosition(seq, this.#links.map(hexOf), this.#line);
  }

  #checkCheckpoint({ format, seq, at, hash, signature, system: link }: ExportedCheckpoint): void {
    this.checkpoints += 1;
    this.#lastCheckpoint = seq;
    const bytes = bytesOf(hash);
    const system = link === undefined ? undefined : parsePosition(link);
    const text = checkpointText({
      format,
      tenantId: this.#header.tenant_id,
      seq,
      at,
      hash: bytes,
      system: system && { seq: system.seq, hash: bytesOf(system.hash) },
    });
    if (!this.#isSigned(text, bytesOf(signature))) {
      this.#report('forged_checkpoint', `the signature of the checkpoint of row ${seq} is invalid`, seq);
      return;
    }
    if (system) this.#options.onSystem(seq, system);
    if (seq > this.#seq) this.#report('missing_rows', `row ${seq} has a checkpoint, but is missing`, seq);
    else if (seq < this.#seq)
      this.#report('damaged_line', `the checkpoint of row ${seq} comes after row ${this.#seq}`);
    else {
      if (this.#links.length > 0 && !this.#links.some((each) => same(each, bytes)))
        this.#report(
          'broken_chain',
          `the checkpoint of row ${seq} signs other rows: some of ${rowNames(this.#signed + 1, seq)} were removed, inserted, moved or renumbered`,
          seq,
        );
      this.#links = [bytes];
      if (at < this.#latest || (this.#isLatestExact && at > this.#latest))
        this.#report(
          'wrong_time',
          `the checkpoint of row ${seq} has another time than the latest row up to it`,
          seq,
        );
      this.#latest = at;
      this.#isLatestExact = true;
    }
    this.#signed = Math.max(this.#signed, seq);
  }

  #checkFooter(footer: Footer): void {
    this.#footer = footer;
    if (!this.#isSigned(footerText(this.#header, footer), bytesOf(footer.signature)))
      this.#report(
        'forged_footer',
        'the signature of the footer is invalid: the footer or the header was changed',
      );
    const { rows, checkpoints, strays } = footer;
    if (strays > 0)
      this.#report('foreign_row', `another program has inserted ${strays} or more rows that are in no chain`);
    if (rows !== this.rows) this.#report('missing_rows', `the export had ${rows} rows, but has ${this.rows}`);
    if (checkpoints !== this.checkpoints)
      this.#report(
        'forged_checkpoint',
        `the export had ${checkpoints} checkpoints, but has ${this.checkpoints}`,
      );
    const head = parsePosition(footer.head) as Position;
    if (head.seq < this.#seq)
      this.#report(
        'foreign_row',
        `the chain ended with row ${head.seq}: another program has inserted the rows after it`,
        head.seq + 1,
      );
    else if (head.seq > this.#seq)
      this.#report(
        'cut_off',
        `the chain ended with row ${head.seq}, but ends with row ${this.#seq}`,
        this.#seq,
      );
    else if (this.#links.length > 0 && !this.#links.some((each) => hexOf(each) === head.hash))
      this.#report('broken_chain', `the chain ended with another row ${head.seq}`, head.seq);
  }

  /** Stops the check: the meaning of later lines may depend on this line, which a newer version has written. */
  #stopAt(format: unknown): void {
    this.#stopped = true;
    const message = `line ${this.#line} has the format ${format}, which this version cannot verify: use a newer version`;
    this.#report('unknown_format', message);
  }

  #report(code: FindingCode, message: string, row?: number): void {
    this.#options.report(code, this.#line, message, row);
  }
}

function rowRange(first: number, last: number): string {
  return `${rowNames(first, last)} ${first === last ? 'is' : 'are'}`;
}

export function rowNames(first: number, last: number): string {
  return first === last ? `row ${first}` : `rows ${first} to ${last}`;
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
