/**
 * Compares the table `setting_changes` with the audit log. `GET /logs` uses this table to report the periods in which
 * reads were not recorded. Each change is also an entry of the system chain.
 */
import { readsOperation, readsSetting } from '../../domain/audit.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { type Db, type DbTime, type Queries, rowLock } from '../engine/db.ts';
import { systemTenant } from './hash-chain.ts';

/** Milliseconds. A change that is older than this must have an entry that is chained or pending. */
const maxUnchained = 60_000;

export interface SettingChange {
  readonly at: number;
  readonly value: string;
}

/** The setting that an entry of the system chain records. Returns undefined for other entries. */
export function settingChangeOf(at: number, entryText: string): SettingChange | undefined {
  if (!entryText.includes(`"${readsOperation}"`)) return undefined;
  const { operation, difference } = JSON.parse(entryText) as {
    operation: string;
    difference?: { SALLYPORT_AUDIT_READS?: { to?: unknown } };
  };
  const value = difference?.SALLYPORT_AUDIT_READS?.to;
  return operation === readsOperation && typeof value === 'string' ? { at, value } : undefined;
}

/** If several changes have the same time, the last in the list counts. */
function byTime(changes: readonly SettingChange[]): Map<number, string> {
  return new Map(changes.map(({ at, value }) => [at, value]));
}

async function storedChanges(db: Pick<Queries, 'all'>): Promise<Map<number, string>> {
  const rows = await db.all<{ at: DbTime; value: string }>(
    'select at, value from setting_changes where name = $1 order by at',
    [readsSetting],
  );
  return new Map(rows.map(({ at, value }) => [Number(at), value]));
}

/**
 * Describes how the tables `settings` and `setting_changes` differ from `changes`, which were read from the log.
 * `isComplete`: no entry of the system chain is missing. Changes that are not yet chained are ignored.
 */
export async function settingDifferences(
  db: Pick<Db, 'all' | 'get'>,
  changes: readonly SettingChange[],
  isComplete: boolean,
): Promise<string[]> {
  const logged = byTime(changes);
  const stored = await storedChanges(db);
  const pending = new Set(
    (await db.all<{ at: DbTime }>('select at from audit_pending where tenant_id = $1', [systemTenant])).map(
      ({ at }) => Number(at),
    ),
  );
  const newest = Math.max(...logged.keys());
  const missing = [...logged].filter(([at, value]) => stored.get(at) !== value);
  const now = Number((await db.get<{ now: DbTime }>('select :now as now'))?.now);
  const isAdded = (at: number) => !logged.has(at) && !pending.has(at) && at < now - maxUnchained;
  const added = [...stored].filter(([at]) => isComplete && isAdded(at));
  const current = await db.get<{ value: string }>('select value from settings where name = $1', [
    readsSetting,
  ]);
  const isNewer = [...stored.keys(), ...pending].some((at) => at > newest);
  const change = ([at, value]: [number, string]) => `SALLYPORT_AUDIT_READS=${value} of ${timestamp(at)}`;
  return [
    ...missing.map((one) => `the table setting_changes does not have ${change(one)}`),
    ...added.map((one) => `the log does not have ${change(one)}, which is in the table setting_changes`),
    ...(logged.size > 0 && !isNewer && current?.value !== logged.get(newest)
      ? [`the table settings has another value than the last entry ${readsOperation}`]
      : []),
  ];
}

/** Writes changes that are missing in the table `setting_changes`. Returns whether there were any. */
export async function restoreSettings(
  tx: Queries,
  db: Pick<Db, 'dialect'>,
  changes: readonly SettingChange[],
): Promise<boolean> {
  const logged = byTime(changes);
  // Locks this row, so that a node that starts now waits before it changes the setting.
  await tx.get(`select value from settings where name = $1 ${rowLock(db, 'for update')}`, [readsSetting]);
  const stored = await storedChanges(tx);
  const missing = [...logged].filter(([at, value]) => stored.get(at) !== value);
  for (const [at, value] of missing)
    await tx.run(
      `insert into setting_changes (name, at, value) values ($1, $2, $3)
       on conflict (name, at) do update set value = excluded.value`,
      [readsSetting, at, value],
    );
  return missing.length > 0;
}
