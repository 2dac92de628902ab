/** Reads and writes files of audit exports. */
import {
  closeSync,
  fsyncSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type ExportFile, type FileLine, readParts } from '../store/audit/export-files.ts';
import { type Verdict, verifyParts } from '../store/audit/verify.ts';
import type { Part, VerifyOptions } from '../store/audit/verify-chain.ts';
import { createExclusively } from '../store/engine/file-ownership.ts';
import type { Maintenance } from '../store/maintenance.ts';

const lineFeed = 0x0a;
const maxLineBytes = 64 * 1024 * 1024;
/** Lines per write. */
const chunkSize = 128;

export function exportFile(path: string): ExportFile {
  return { name: basename(path), lines: (from) => readLines(path, from) };
}

/** Streams the lines of a file from a byte position. Throws if a line is too long. */
async function* readLines(path: string, from = 0): AsyncGenerator<FileLine> {
  let rest = Buffer.alloc(0);
  let start = from;
  for await (const chunk of Bun.file(path).slice(from).stream()) {
    const bytes = Buffer.concat([rest, chunk]);
    let begin = 0;
    for (let end = bytes.indexOf(lineFeed); end >= 0; end = bytes.indexOf(lineFeed, begin)) {
      yield { text: decode(bytes.subarray(begin, end)), start };
      start += end + 1 - begin;
      begin = end + 1;
    }
    rest = bytes.subarray(begin);
    if (rest.length > maxLineBytes) throw new Error(`${path} is not an audit export: a line is too long`);
  }
  if (rest.length > 0) yield { text: decode(rest), start };
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Returns an empty line for bytes that are not UTF-8; verification reports it. */
function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    return '';
  }
}

/** The path, or if it is a folder, the exports in it. */
export function exportPaths(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  const names = readdirSync(path).filter((name) => name.endsWith('.jsonl'));
  return names.sort().map((name) => join(path, name));
}

/** Verifies files together, and with them parts of a database. */
export async function verifyFiles(
  paths: readonly string[],
  options: VerifyOptions,
  others: readonly Part[] = [],
): Promise<Verdict> {
  const files = [];
  for (const path of paths) files.push(await readParts(exportFile(path)));
  return verifyParts(
    [...files.flatMap(({ parts }) => parts), ...others],
    options,
    files.flatMap(({ findings }) => findings),
  );
}

/** Entries per transaction. */
const batchSize = 500;

/** Chains all entries that are not chained yet. */
export async function chainAll({ audit }: Pick<Maintenance, 'audit'>): Promise<void> {
  while ((await audit.append(batchSize)) > 0);
}

export async function* exportLines(parts: readonly Part[]): AsyncGenerator<string> {
  for (const part of parts) yield* part.lines();
}

/**
 * Writes a file under a temporary name, flushes it and renames it, so that a file with this name is complete. Calls
 * `between` after every few lines; if it throws, nothing is left.
 */
export async function writeDurably(
  path: string,
  lines: AsyncIterable<string>,
  between: () => Promise<void>,
): Promise<void> {
  const partial = `${path}.partial`;
  rmSync(partial, { force: true });
  const file = createExclusively(partial);
  try {
    let buffer: string[] = [];
    for await (const line of lines) {
      if (buffer.push(`${line}\n`) < chunkSize) continue;
      writeFileSync(file, buffer.join(''));
      buffer = [];
      await between();
    }
    writeFileSync(file, buffer.join(''));
    fsyncSync(file);
    renameSync(partial, path);
    syncFolder(dirname(path));
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

/** Flushes the folder, so that the new name of a file survives a power loss. */
function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
