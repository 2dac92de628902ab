/** The audit log as the store and the maintenance interface offer it. */
import type { Awaitable } from '../../domain/awaitable.ts';
import { nextTurn } from '../../domain/steps.ts';
import type { MasterKeys } from '../crypto/keyring.ts';
import type { Db } from '../engine/db.ts';
import type { AuditChain } from '../maintenance.ts';
import type { AuditFilter, AuditLog, LogPage, LogWindow } from '../store.ts';
import { chainAppender } from './chain.ts';
import { countEntries } from './counts.ts';
import { deleteDelivered } from './delivered.ts';
import { exportedParts } from './export.ts';
import { gapsOf } from './gaps.ts';
import { type ChainKeys, genesis, systemTenant } from './hash-chain.ts';
import { recordHeads } from './heads.ts';
import { reindex } from './reindex.ts';
import {
  allChains,
  type Chain,
  chainOf,
  checkpointsAfter,
  latestTimes,
  rowsAfter,
  toLogEntry,
} from './rows.ts';
import { search } from './search.ts';
import type { EntryWriter } from './write.ts';

type Append = ReturnType<typeof chainAppender>;

/** Limits for chaining pending entries before the log is read: entries per transaction, and number of transactions. */
const readerBatch = { size: 100, count: 100 };

/** Chains the pending entries of the tenant, so that a reader finds them, and returns the chain. */
async function currentChain(db: Db, append: Append, tenantId: string): Promise<Chain | undefined> {
  const { size, count } = readerBatch;
  for (let batch = 0; batch < count && (await append(size, tenantId)) > 0; batch++) await nextTurn();
  return chainOf(db, tenantId);
}

/** The chain of a tenant that has no entries yet. */
const emptyChain: Omit<Chain, 'tenantId'> = {
  number: 0,
  seq: 0,
  hash: genesis,
  maxDelay: 0,
  baseSeq: 0,
  baseHash: genesis,
};

function lister(db: Db, chainKeys: () => Awaitable<ChainKeys>, append: Append) {
  return async (tenantId: string, filter: AuditFilter, window: LogWindow): Promise<LogPage> => {
    const chain = await currentChain(db, append, tenantId);
    const page = chain ? await search(db, chainKeys, chain, filter, window) : { entries: [] };
    const isFirst = window.before === undefined && window.after === undefined;
    return isFirst ? { ...page, gaps: await gapsOf(db, chain, filter) } : page;
  };
}

export function auditLog(db: Db, chainKeys: () => Awaitable<ChainKeys>, writeEntries: EntryWriter): AuditLog {
  const append = chainAppender(db, chainKeys);
  return {
    // A unique symbol as the entity, so that these writes do not wait for other changes.
    write: (entries) =>
      db.change(
        async (tx) => {
          for (const entry of entries) await tx.defer(writeEntries, entry);
        },
        Symbol('audit entries'),
        entries[0]?.tenantId,
      ),
    list: lister(db, chainKeys, append),
    count: async (tenantId, filter, now) => {
      const chain = await currentChain(db, append, tenantId);
      const counts = await countEntries(db, chainKeys, chain ?? { tenantId, ...emptyChain }, filter, now);
      return { ...counts, gaps: await gapsOf(db, chain, filter) };
    },
  };
}

/** Maximum characters of JSON that `range` returns. A single entry may be larger. */
const maxRangeBytes = 4 * 1024 * 1024;

export function auditChain(db: Db, chainKeys: () => Awaitable<ChainKeys>, masters: MasterKeys): AuditChain {
  const append = chainAppender(db, chainKeys);
  const list = lister(db, chainKeys, append);

  return {
    append: (limit, tenant) => append(limit, tenant === null ? systemTenant : tenant),
    list: (tenant = systemTenant, filter, window) => list(tenant, filter, window),

    heads: async () => {
      const times = await latestTimes(db);
      return (await allChains(db)).map(({ number, tenantId, seq, hash, baseSeq }) => ({
        tenantId: tenantId === systemTenant ? undefined : tenantId,
        seq,
        hash,
        at: times.get(number) ?? 0,
        baseSeq,
      }));
    },

    range: async (tenant = systemTenant, { after, upTo = Number.MAX_SAFE_INTEGER }, limit) => {
      const chain = await chainOf(db, tenant);
      if (!chain) return { entries: [] };
      const rows = await rowsAfter(db, chain, { after, upTo }, limit);
      let bytes = 0;
      const tooMany = rows.findIndex(({ entryText }) => {
        bytes += entryText.length;
        return bytes > maxRangeBytes;
      });
      const some = tooMany > 0 ? rows.slice(0, tooMany) : rows;
      const entries = some.map((row) => ({ ...toLogEntry(row), seq: row.seq }));
      const isAll = some.length === rows.length && rows.length < limit;
      return { entries, ...(!isAll && { end: some.at(-1)?.seq }) };
    },

    checkpoints: async (tenant = systemTenant, afterSeq, limit) => {
      const chain = await chainOf(db, tenant);
      return chain ? checkpointsAfter(db, chain, afterSeq, limit) : [];
    },

    recordHeads: (which) => recordHeads(db, chainKeys, which === 'all'),
    reindex: (tenant, between) => reindex(db, chainKeys, tenant, between),
    deleteDelivered: (retention) => deleteDelivered(db, chainKeys, masters, retention),
    export: (at, tenant) => exportedParts(db, chainKeys, at, tenant),
  };
}
