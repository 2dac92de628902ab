/** Compares the times when reads were not recorded, which are in a table, with the log. */

import type { Db, DbTime } from '../../db/db.ts';
import { databaseTime } from '../../db/sql.ts';
import { sql } from '../../db/statement.ts';
import { readsOperation, readsSetting } from '../../domain/audit.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { systemTenant } from '../records.ts';

/** Milliseconds. A change that is older than this must have an entry that is sealed or pending. */
const maxUnsealed = 60_000;

/** A change in the table `setting_changes`. Each one is also an entry of the system chain. */
export interface SettingChange {
  readonly at: number;
  readonly value: string;
}

/**
 * Describes how the tables `settings` and `setting_changes` differ from `changes`, which were read from the log.
 * `isComplete`: no entry of the system chain is missing. Changes that are not sealed yet are ignored.
 */
export async function settingDifferences(
  db: Pick<Db, 'all' | 'get'>,
  changes: readonly SettingChange[],
  isComplete: boolean,
): Promise<string[]> {
  // If several changes have the same time, the last one counts.
  const logged = new Map(changes.map(({ at, value }) => [at, value]));
  const rows = await db.all<{ at: DbTime; value: string }>(sql`
    select at, value from setting_changes where name = ${readsSetting} order by at`);
  const stored = new Map(rows.map(({ at, value }) => [Number(at), value]));
  const pending = new Set(
    (await db.all<{ at: DbTime }>(sql`select at from audit_pending where tenant_id = ${systemTenant}`)).map(
      ({ at }) => Number(at),
    ),
  );
  const newest = Math.max(...logged.keys());
  const missing = [...logged].filter(([at, value]) => stored.get(at) !== value);
  const now = await databaseTime(db);
  const isAdded = (at: number) => !logged.has(at) && !pending.has(at) && at < now - maxUnsealed;
  const added = [...stored].filter(([at]) => isComplete && isAdded(at));
  const current = await db.get<{ value: string }>(sql`
    select value from settings where name = ${readsSetting}`);
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
