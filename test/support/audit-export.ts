/** Exports and verifies audit logs in tests. */
import { chainAll, exportLines } from '../../src/operations/audit-files.ts';
import { type ExportFile, readParts } from '../../src/store/audit/export-files.ts';
import { type Verdict, verifyParts } from '../../src/store/audit/verify.ts';
import type { VerifyOptions } from '../../src/store/audit/verify-chain-options.ts';
import { type MasterKey, parseMasterKeys } from '../../src/store/crypto/cipher.ts';
import type { MasterKeys } from '../../src/store/crypto/keyring.ts';
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

/** Chains all entries and exports all chains, or the chain of one tenant. */
export async function exportOf(
  { maintenance }: { maintenance: Maintenance },
  tenantId?: string,
): Promise<string[]> {
  await chainAll(maintenance);
  return Array.fromAsync(exportLines(await maintenance.audit.export(startTime, tenantId)));
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
  const findings = read.flatMap((file) => file.findings);
  return verifyParts(
    read.flatMap((file) => file.parts),
    { masters, ...options },
    findings,
  );
}

export function verify(lines: readonly string[], options?: Partial<VerifyOptions>): Promise<Verdict> {
  return verifyAll({ 'audit.jsonl': lines }, options);
}

/** Lines such as "changed_row 3". */
export function named({ findings }: Verdict): string[] {
  return findings.map(({ code, row }) => (row === undefined ? code : `${code} ${row}`));
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

/** Writes entries and chains them in several steps. */
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
    await chainAll(maintenance);
  }
}
