/** Reads and verifies exports and archives. Needs the master key, but no database. */
import { readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readFileLines } from '../store/engine/line-reader.ts';
import type { Finding } from './proof/chain-check.ts';
import type { Part } from './proof/export.ts';
import { readParts } from './proof/export-file.ts';
import { toFinding, type Verdict, type VerifyOptions, verifyParts } from './proof/verify.ts';

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
  const parts: Part[] = [];
  const findings = [...found];
  for (const path of paths) {
    const name = basename(path);
    const file = await readParts({ name, lines: (from) => readFileLines(path, from) }, async () =>
      options.between?.({ done: 0, total: 0, findings: findings.length }),
    );
    parts.push(...file.parts);
    findings.push(...file.problems.map((problem) => toFinding(problem, name)));
  }
  return verifyParts([...parts, ...others], options, findings);
}
