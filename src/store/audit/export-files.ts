/** Finds the parts of export files. */
import { type Header, parseLine } from './export-format.ts';
import type { Finding, Part } from './verify-chain-options.ts';

export interface ExportFile {
  readonly name: string;
  /**
   * The lines of the file. `from` is the `start` of a line that an earlier call has returned; the default is the first
   * line.
   */
  lines(from?: number): AsyncIterable<FileLine>;
}

export interface FileLine {
  readonly text: string;
  readonly start: number;
}

export interface FileParts {
  readonly parts: readonly Part[];
  readonly findings: readonly Finding[];
}

interface FoundPart {
  readonly header: Header;
  readonly line: number;
  readonly start: number;
  lines: number;
  head: string | undefined;
}

/** Finds the parts of a file by their headers and footers. Does not check their rows. */
export async function readParts(file: ExportFile): Promise<FileParts> {
  const found: FoundPart[] = [];
  const findings: Finding[] = [];
  let number = 0;
  for await (const { text, start } of file.lines()) {
    number += 1;
    const line = /^\{"kind":"(?:head|foot)er"/.test(text) ? parseLine(text) : undefined;
    if (line?.kind === 'header') found.push({ header: line, line: number, start, lines: 0, head: undefined });
    const part = found.at(-1);
    if (!part) {
      const newer = line?.kind === 'unknown' ? line.format : undefined;
      findings.push({ ...notAnExport(newer), file: file.name, line: number });
      break;
    }
    part.lines += 1;
    if (line?.kind === 'footer') part.head = line.head;
  }
  if (number === 0) findings.push({ ...notAnExport(undefined), file: file.name });
  return { parts: found.map((part) => toPart(file, part)), findings };
}

function notAnExport(newerFormat: unknown): Finding {
  if (newerFormat === undefined)
    return { code: 'not_an_export', message: 'this is not an export of the audit log' };
  const message = `the export has the format ${newerFormat}, which this version cannot verify: use a newer version`;
  return { code: 'unknown_format', message };
}

function toPart(file: ExportFile, { header, line, start, lines: count, head }: FoundPart): Part {
  async function* lines() {
    let read = 0;
    for await (const { text } of file.lines(start)) {
      yield text;
      read += 1;
      if (read === count) return;
    }
  }
  return { header, file: file.name, line, head, lines };
}
