/** Exports and verifies audit logs in tests. */
import type { Part } from '../../src/audit/proof/export.ts';
import { type ExportFile, readParts } from '../../src/audit/proof/export-file.ts';
import { toFinding, type Verdict, type VerifyOptions, verifyParts } from '../../src/audit/proof/verifier.ts';
import { type MasterKey, parseMasterKeys } from '../../src/db/keys/cipher.ts';
import type { MasterKeys } from '../../src/db/keys/keyring.ts';
import type { Maintenance } from '../../src/store/maintenance.ts';
import type { NewEntry, Store } from '../../src/store/store.ts';
import { startTime, testMasterKey } from './test-server.ts';

export function mastersOf(...texts: string[]): MasterKeys {
  const keys = texts.flatMap(parseMasterKeys);
  return {
    current: () => keys[0] as MasterKey,
    find: (id) => keys.find((key) => key.id === id),
    ids: () => keys.map(({ id }) => id),
  };
}

export const masters = mastersOf(testMasterKey);

/** Seals all entries and exports all chains, or the chain of one tenant. */
export async function exportOf(
  { maintenance }: { maintenance: Maintenance },
  tenantId?: string,
): Promise<string[]> {
  await maintenance.audit.seal();
  const exported = await maintenance.audit.export(startTime, tenantId);
  return exported ? Array.fromAsync(exported.lines) : [];
}

function fileOf(name: string, lines: readonly string[]): ExportFile {
  return {
    name,
    async *lines(from = 0) {
      for (let start = from; start < lines.length; start++) yield { text: lines[start] as string, start };
    },
  };
}

/** Verifies files together. */
export async function verifyAll(
  files: Readonly<Record<string, readonly string[]>>,
  options: Partial<VerifyOptions> = {},
): Promise<Verdict> {
  const read = await Promise.all(
    Object.entries(files).map(([name, lines]) => readParts(fileOf(name, lines))),
  );
  const findings = read.flatMap(({ problems }, at) =>
    problems.map((problem) => toFinding(problem, Object.keys(files)[at])),
  );
  return verifyParts(
    read.flatMap((file) => file.parts),
    { masters, ...options },
    findings,
  );
}

export function verify(lines: readonly string[], options?: Partial<VerifyOptions>): Promise<Verdict> {
  return verifyAll({ 'audit.jsonl': lines }, options);
}

/** Verifies the database itself. */
export async function verifyDatabase(
  { maintenance }: { maintenance: Maintenance },
  { parts, ...options }: Partial<VerifyOptions> & { parts?: readonly Part[] } = {},
): Promise<Verdict> {
  await maintenance.audit.seal();
  const all = parts ?? (await maintenance.audit.parts(startTime));
  return verifyParts(all, { masters, archives: 'optional', ...options });
}

/** Lines such as "changed_segment 3", or "changed_entry 12" with the position of the entry. */
export function named({ findings }: Verdict): string[] {
  return findings.map(({ code, segment, entry }) => [code, entry ?? segment].filter(Boolean).join(' '));
}

/** Entries with the same timestamp. */
const entriesPerSecond = 3;

/** Entries differ by number in actor, entity, result and difference. */
export function entry(number: number, tenantId?: string): NewEntry {
  const odd = number % 2 === 1;
  return {
    ...(tenantId !== undefined && { tenantId }),
    at: startTime + 1000 * Math.ceil(number / entriesPerSecond),
    actor: odd ? { kind: 'application', id: crypto.randomUUID() } : { kind: 'anonymous' },
    operation: odd ? 'application.update' : 'token.read',
    ...(odd && { entity: { kind: 'application', id: `thing-${number}` } }),
    result: odd ? 'success' : 'failed',
    from: { ip: '127.0.0.1', user_agent: 'Gr\u00fc\u00dfe \u2028 \ud83d\udd11 "quoted"' },
    ...(odd && { difference: { name: { from: 'a', to: `b${number}` } } }),
  };
}

interface Written {
  readonly store: Store;
  readonly maintenance: Maintenance;
}

/** Writes entries and seals them, up to 100 per segment. */
export async function write(
  { store, maintenance }: Written,
  count: number,
  tenantId?: string,
): Promise<void> {
  for (let number = 1; number <= count; number += 100) {
    const some = Array.from({ length: Math.min(100, count - number + 1) }, (_, at) =>
      entry(number + at, tenantId),
    );
    await store.audit.write(some);
    await maintenance.audit.seal();
  }
}
