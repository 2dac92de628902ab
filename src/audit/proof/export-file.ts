/** Reads the parts of exported and archived files. */
import type { ChainKeys } from '../../db/keys/keyring.ts';
import type { AuditEntry } from '../log/entry.ts';
import { bytesOf, isSignedText, type SignedHeader } from '../log/segment.ts';
import { type Position, parsePosition } from '../records.ts';
import type { Problem, SegmentSource } from './check.ts';
import {
  type Footer,
  footerText,
  fromLine,
  type Header,
  type Part,
  parseLine,
  strayProblem,
} from './export.ts';

export interface ExportFile {
  readonly name: string;
  /** `from` is the `start` of a line that an earlier call has returned; the default is the first line. */
  lines(from?: number): AsyncIterable<{ readonly text: string; readonly start: number }>;
}

interface FoundPart {
  readonly header: Header;
  readonly line: number;
  readonly start: number;
  lines: number;
  head: string | undefined;
}

/** Lines that are read before `between` is called. */
const linesPerTurn = 10_000;

/** Finds the parts of a file by their headers and footers. Does not check their segments. `between` may throw to stop. */
export async function readParts(
  file: ExportFile,
  between: () => Promise<void> = async () => {},
): Promise<{ parts: Part[]; problems: Problem[] }> {
  const found: FoundPart[] = [];
  const problems: Problem[] = [];
  let count = 0;
  for await (const { text: source, start } of file.lines()) {
    count += 1;
    if (count % linesPerTurn === 0) await between();
    const line = /^\{"kind":"(?:head|foot)er"/.test(source) ? parseLine(source) : undefined;
    if (line?.kind === 'header') found.push({ header: line, line: count, start, lines: 0, head: undefined });
    const part = found.at(-1);
    if (!part) {
      problems.push({ ...notAnExport(line?.kind === 'newer' ? line.format : undefined), line: count });
      break;
    }
    part.lines += 1;
    if (line?.kind === 'footer') part.head = line.head;
  }
  if (count === 0) problems.push(notAnExport(undefined));
  return { parts: found.map((part) => filePart(file, part)), problems };
}

function notAnExport(newer: string | undefined): Problem {
  if (newer === undefined) return { code: 'damaged_file', message: 'this is not an export of the audit log' };
  const message = `the export has the format ${newer}, which this version cannot verify: use a newer version`;
  return { code: 'unknown_format', message };
}

function filePart(file: ExportFile, { header, line, start, lines: count, head }: FoundPart): Part {
  return {
    tenantId: header.tenant_id,
    header,
    after: parsePosition(header.after) as Position,
    end: head === undefined ? undefined : parsePosition(head),
    file: file.name,
    line,
    async *segments(keys) {
      const reader = new PartReader(header, keys);
      let at = line - 1;
      for await (const { text: source } of file.lines(start)) {
        at += 1;
        if (at > line) yield* reader.line(source, at);
        if (at - line + 1 === count) break;
      }
      yield* reader.end();
    },
  };
}

/** Collects the lines of a part of a file into segments. */
class PartReader {
  readonly #header: Header;
  readonly #keys: ChainKeys;
  readonly #totals = { segments: 0, entries: 0 };
  #open: { readonly header: SignedHeader; readonly entries: AuditEntry[]; readonly line: number } | undefined;
  #footer: Footer | undefined;
  #last = 0;

  constructor(header: Header, keys: ChainKeys) {
    this.#header = header;
    this.#keys = keys;
  }

  *line(source: string, at: number): Generator<SegmentSource | Problem> {
    const line = parseLine(source);
    if (line?.kind === 'entry' && this.#open && !this.#footer) {
      const { seq, id, at: time, entry, mac } = line;
      this.#totals.entries += 1;
      const expected = this.#open.header.first + this.#open.entries.length;
      if (seq !== expected) yield damaged(`line ${at} has entry ${seq} instead of ${expected}`, at);
      this.#open.entries.push({ id, at: time, text: entry, mac: bytesOf(mac) });
    } else if (line?.kind === 'segment' && !this.#footer) {
      yield* this.#close();
      this.#totals.segments += 1;
      this.#last = line.number;
      this.#open = { header: fromLine(this.#header.tenant_id, line), entries: [], line: at };
    } else if (line?.kind === 'footer' && !this.#footer) {
      yield* this.#close();
      this.#footer = line;
      yield* this.#checkFooter(line, at);
    } else yield damaged(`line ${at} is not a line of an export`, at);
  }

  *end(): Generator<SegmentSource | Problem> {
    yield* this.#close();
    const message = `the export has no footer: it is truncated after segment ${this.#last}`;
    if (!this.#footer) yield { code: 'cut_off', message };
  }

  *#close(): Generator<SegmentSource> {
    if (!this.#open) return;
    const { header, entries, line } = this.#open;
    this.#open = undefined;
    yield { segment: header, content: entries, line };
  }

  *#checkFooter(footer: Footer, at: number): Generator<Problem> {
    const { segments, entries, strays, signature } = footer;
    if (!isSignedText(this.#keys, footerText(this.#header, footer), signature))
      yield damaged('the signature of the footer is invalid: the footer or the header was changed', at);
    else if (segments !== this.#totals.segments || entries !== this.#totals.entries)
      yield damaged(
        `the export had ${segments} segments with ${entries} entries, but has ${this.#totals.segments} with ${this.#totals.entries}`,
        at,
      );
    if (strays > 0) yield strayProblem(strays, at);
  }
}

function damaged(message: string, line: number): Problem {
  return { code: 'damaged_file', message, line };
}
