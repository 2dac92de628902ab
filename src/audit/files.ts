/** Reads and verifies exports and archives, which need the master key but no database, and signed reports. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { ChainKeys } from '../db/keys/keyring.ts';
import { readFileLines } from '../db/line-reader.ts';
import { manifestName, manifestText, type ReportManifest } from '../domain/access/report.ts';
import { isSignedText } from './log/segment.ts';
import type { Finding } from './proof/check.ts';
import type { Part } from './proof/export.ts';
import { readParts } from './proof/export-file.ts';
import { toFinding, type Verdict, type VerifyOptions, verifyParts } from './proof/verifier.ts';
import { type Head, parseAnchor } from './records.ts';

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

/** Whether the folder has a report of `access report`. */
export function isReport(folder: string): boolean {
  return existsSync(join(folder, manifestName));
}

/** Checks the signature of a report and the hashes of its files. The log must contain the returned anchor. */
export function verifyReport(folder: string, keys: ChainKeys): { findings: Finding[]; anchors: Head[] } {
  const findings: Finding[] = [];
  const report = (name: string, message: string) =>
    findings.push({ code: 'changed_report', file: join(basename(folder), name), message });
  const manifest = signedManifest(join(folder, manifestName), keys);
  if (!manifest) report(manifestName, 'it was changed after it was signed, or is of another database');
  const hashes = new Map(manifest?.files.map(({ name, sha256 }) => [name, sha256]));
  const found = manifest ? readdirSync(folder).filter((name) => name !== manifestName) : [];
  for (const name of found) {
    const hash = createHash('sha256')
      .update(readFileSync(join(folder, name)))
      .digest('hex');
    if (hash !== hashes.get(name)) report(name, 'the file was changed or added after the report was signed');
  }
  for (const name of hashes.keys()) if (!found.includes(name)) report(name, 'the file is missing');
  const anchor = manifest && parseAnchor(manifest.anchor);
  return { findings, anchors: anchor ? [anchor] : [] };
}

/** Returns undefined if the file is not a manifest, or if its signature is invalid. */
function signedManifest(path: string, keys: ChainKeys): ReportManifest | undefined {
  try {
    const manifest: ReportManifest = JSON.parse(readFileSync(path, 'utf8'));
    return isSignedText(keys, manifestText(manifest), manifest.signature) ? manifest : undefined;
  } catch {
    return undefined;
  }
}
