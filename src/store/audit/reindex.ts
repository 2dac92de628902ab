/** Rebuilds the index of a chain from its entries. */
import { byOperator } from '../../domain/audit.ts';
import type { Awaitable } from '../../domain/awaitable.ts';
import { type Db, type DbTime, type Queries, rowLock } from '../engine/db.ts';
import { type ChainKeys, expectedMac, isKnownFormat, systemTenant } from './hash-chain.ts';
import { blockOf, blockSize, type IndexedEntry, replaceRows, rowsFor, storedRows } from './index-blocks.ts';
import { reindexOperation } from './log-entries.ts';
import {
  type Chain,
  type ChainedRow,
  chainOf,
  latestBefore,
  type StoredRow,
  storedColumns,
  toChainedRow,
} from './rows.ts';
import { indexTerms } from './terms.ts';
import { restoreSettings, type SettingChange, settingChangeOf } from './verify-settings.ts';
import { insertEntries } from './write.ts';

export interface Reindexed {
  readonly entries: number;
  /** Entries in blocks whose index was wrong. If one row of a block's index was wrong, all its entries count. */
  readonly corrected: number;
  /** Entries without a valid MAC. They are not in the index. */
  readonly invalid: number;
}

/**
 * Rebuilds the index block by block, and calls `between` after each. Each block has its own transaction, so that the
 * service can write between two blocks. Index rows that belong to no entry are not deleted: a search reads the entry
 * and ignores them. For the system chain, the table `setting_changes` is restored too. Writes an audit entry if
 * something was wrong. Returns undefined if the tenant has no chain.
 */
export async function reindex(
  db: Db,
  chainKeys: () => Awaitable<ChainKeys>,
  tenantId: string,
  between: () => Promise<void> = async () => {},
): Promise<Reindexed | undefined> {
  const keys = await chainKeys();
  const chain = await chainOf(db, tenantId);
  if (!chain) return undefined;
  const total = { entries: 0, corrected: 0, invalid: 0 };
  const times: Times = { latest: await latestBefore(db, chain), maxDelay: 0 };
  const settings: SettingChange[] = [];
  for (let block = blockOf(chain.baseSeq + 1); block <= blockOf(chain.seq); block++) {
    const done = await db.transaction((tx) => reindexBlock(tx, db, keys, tenantId, block, times, settings));
    total.entries += done.entries;
    total.corrected += done.corrected;
    total.invalid += done.invalid;
    await between();
  }
  const corrected = await db.transaction(async (tx) => {
    const isSetting = await restoreSettings(tx, db, settings);
    return (await correctDelay(tx, db, tenantId, times)) || isSetting;
  });
  if (corrected) total.corrected = total.entries;
  if (total.corrected > 0) await recordReindex(db, keys, chain, total);
  return total;
}

interface Times {
  latest: number;
  maxDelay: number;
}

type BlockRow = StoredRow & { readonly request: number | null };

/** Locks the chain, so that no entry is added or deleted during the transaction. */
async function reindexBlock(
  tx: Queries,
  db: Db,
  keys: ChainKeys,
  tenantId: string,
  block: number,
  times: Times,
  settings: SettingChange[],
): Promise<Reindexed> {
  const chain = await chainOf(tx, tenantId, rowLock(db, 'for update'));
  if (!chain) return { entries: 0, corrected: 0, invalid: 0 };
  const rows = await tx.all<BlockRow>(
    `select ${storedColumns}, request from audit where chain = $1 and seq > $2 and seq >= $3 and seq < $4 and seq <= $5
     order by seq`,
    [chain.number, chain.baseSeq, block * blockSize, (block + 1) * blockSize, chain.seq],
  );
  const entries: IndexedEntry[] = [];
  const requests: { seq: number; request: number | null }[] = [];
  for (const { request: stored, ...row } of rows) {
    const chained = toChainedRow(tenantId, row);
    const { seq, at, entryText } = chained;
    times.latest = Math.max(times.latest, at);
    times.maxDelay = Math.max(times.maxDelay, times.latest - at);
    const isValid = hasValidMac(keys, chained);
    const { terms, request } = isValid ? indexTerms(entryText) : { terms: new Set<number>(), request: null };
    if (isValid) entries.push({ seq, terms });
    const setting = isValid && tenantId === systemTenant ? settingChangeOf(at, entryText) : undefined;
    if (setting) settings.push(setting);
    if (request !== stored) requests.push({ seq, request });
  }
  const expected = rowsFor(entries);
  const stored = await storedRows(
    tx,
    chain.number,
    block,
    expected.map(({ term }) => term),
  );
  const wrong = expected.filter(({ term, offsets }) => {
    const before = stored.get(term);
    return before === undefined || Buffer.compare(before, offsets) !== 0;
  });
  await replaceRows(tx, db.dialect, chain.number, wrong);
  for (const { seq, request } of requests)
    await tx.run('update audit set request = $3 where chain = $1 and seq = $2', [chain.number, seq, request]);
  const corrected = wrong.length + requests.length > 0 ? rows.length : 0;
  return { entries: rows.length, corrected, invalid: rows.length - entries.length };
}

function hasValidMac(keys: ChainKeys, row: ChainedRow): boolean {
  const mac = row.mac ?? new Uint8Array();
  return isKnownFormat(row.format) && Buffer.compare(expectedMac(keys, row, mac), mac) === 0;
}

/**
 * Raises the chain's `max_delay` if it is too low, and returns whether it was. A higher value is not wrong: it may be
 * due to deleted entries.
 */
async function correctDelay(tx: Queries, db: Db, tenantId: string, { maxDelay }: Times): Promise<boolean> {
  const chain = await chainOf(tx, tenantId, rowLock(db, 'for update'));
  if (!chain || chain.maxDelay >= maxDelay) return false;
  await tx.run('update audit_chains set max_delay = $2 where number = $1', [chain.number, maxDelay]);
  return true;
}

async function recordReindex(db: Db, keys: ChainKeys, chain: Chain, total: Reindexed): Promise<void> {
  const { tenantId } = chain;
  const now = Number((await db.get<{ now: DbTime }>('select :now as now'))?.now);
  const difference = {
    entries: { from: chain.baseSeq + 1, to: chain.seq },
    corrected: { to: total.corrected },
  };
  await db.transaction((tx) =>
    insertEntries(tx, db.dialect, keys, [
      { ...byOperator, tenantId, at: now, operation: reindexOperation, difference },
    ]),
  );
}
