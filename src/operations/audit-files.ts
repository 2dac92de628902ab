/** Reads and writes files of audit exports. */
import { closeSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type ExportFile, readParts } from '../store/audit/export-files.ts';
import { type Verdict, verifyParts } from '../store/audit/verify.ts';
import type { Finding, Part, VerifyOptions } from '../store/audit/verify-chain-options.ts';
import { createExclusively } from '../store/engine/file-ownership.ts';
import type { Maintenance } from '../store/maintenance.ts';
import { readFileLines } from './line-reader.ts';
import { syncFolderOf, writeFileLines } from './line-writer.ts';

export function exportFile(path: string): ExportFile {
  return { name: basename(path), lines: (from) => readFileLines(path, from) };
}

/** Returns the path, or if it is a folder, the paths of the exports in it. */
export function exportPaths(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  const names = readdirSync(path).filter((name) => name.endsWith('.jsonl'));
  return names.sort().map((name) => join(path, name));
}

/** Verifies files together with `others`, parts from a database. `found` has earlier findings about the database. */
export async function verifyFiles(
  paths: readonly string[],
  options: VerifyOptions,
  others: readonly Part[] = [],
  found: readonly Finding[] = [],
): Promise<Verdict> {
  const files = [];
  for (const path of paths) files.push(await readParts(exportFile(path)));
  return verifyParts([...files.flatMap(({ parts }) => parts), ...others], options, [
    ...found,
    ...files.flatMap(({ findings }) => findings),
  ]);
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
 * Writes a file under a temporary name, flushes it and renames it, so that a file at `path` is always complete. Calls
 * `between` after every few lines. If `between` throws, the file is removed.
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
    await writeFileLines(file, lines, between);
    renameSync(partial, path);
    syncFolderOf(path);
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}
