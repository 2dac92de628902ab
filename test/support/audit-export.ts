/** Exports and verifies audit logs in tests. */
import { type Verdict, type VerifyOptions, verifyExport } from '../../src/store/audit/verify.ts';
import { type MasterKey, parseMasterKeys } from '../../src/store/crypto/cipher.ts';
import type { MasterKeys } from '../../src/store/crypto/keyring.ts';
import type { Maintenance } from '../../src/store/maintenance.ts';
import type { NewEntry, Store } from '../../src/store/store.ts';
import { startTime, testMasterKey } from './test-server.ts';

export function mastersOf(...texts: string[]): MasterKeys {
  const keys = texts.flatMap(parseMasterKeys);
  return { current: () => keys[0] as MasterKey, find: (id) => keys.find((key) => key.id === id) };
}

export const masters = mastersOf(testMasterKey);

/** Chains all entries and exports them. */
export async function exportOf({ maintenance }: { maintenance: Maintenance }): Promise<string[]> {
  while ((await maintenance.audit.append(1000)) > 0);
  return Array.fromAsync(maintenance.audit.export(startTime));
}

export async function verify(lines: string[], options: Partial<VerifyOptions> = {}): Promise<Verdict> {
  async function* each() {
    yield* lines;
  }
  return verifyExport(each(), { masters, ...options });
}

/** Lines such as "changed_row 3". */
export function named({ findings }: Verdict): string[] {
  return findings.map(({ code, row }) => (row === undefined ? code : `${code} ${row}`));
}

/** Entries with the same timestamp, and per checkpoint. */
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

/** Writes entries and chains them in several steps, so that there are several checkpoints. */
export async function write(
  { store, maintenance }: Written,
  count: number,
  tenantId?: string,
): Promise<void> {
  for (let number = 1; number <= count; number++) {
    await store.audit.write([entry(number, tenantId)]);
    if (number % entriesPerSecond === 0) await maintenance.audit.append(1000);
  }
  await maintenance.audit.append(1000);
}
