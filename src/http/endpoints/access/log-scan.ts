/** Reads many entries of the audit log, without blocking other requests. */
import type { LogEntry, LogGap } from '../../../domain/audit.ts';
import { nextTurn, type Reserve } from '../../../domain/steps.ts';
import type { AuditFilter, Store } from '../../../store/store.ts';

export interface LogPages {
  readonly size: number;
  readonly max: number;
  /** Reserves memory for all entries, if they stay in memory. */
  readonly reserve?: Reserve;
}

export interface LogScan {
  /** False if there are more entries than `max` pages can contain. */
  readonly complete: boolean;
  readonly gaps: readonly LogGap[];
}

/** Calls `take` for each page, newest first. */
export async function scanLog(
  { audit }: Pick<Store, 'audit'>,
  tenantId: string,
  filter: AuditFilter,
  pages: LogPages,
  take: (entries: readonly LogEntry[]) => Promise<void> | void,
): Promise<LogScan> {
  let before: string | undefined;
  let gaps: readonly LogGap[] = [];
  for (let page = 0; page < pages.max; page++) {
    const found = await audit.list(tenantId, filter, { limit: pages.size, before, reserve: pages.reserve });
    if (page === 0) gaps = found.gaps ?? [];
    await take(found.entries);
    await nextTurn();
    if (found.next === undefined) return { complete: true, gaps };
    before = found.next;
  }
  return { complete: false, gaps };
}
