/** Tokens in memory. */
import { newId } from '../../src/domain/key.ts';
import { modificationTime, tokenVersion } from '../../src/domain/row-version.ts';
import { canonicalContainer } from '../../src/domain/rule.ts';
import type { SearchValues } from '../../src/domain/search.ts';
import type { Change, TokenContent, TokenFilter, TokenRevision, Tokens } from '../../src/store/store.ts';
import { toRecord } from '../../src/store/token-row.ts';
import { hasAll, type Memory, type MemoryToken, page } from './memory.ts';

export function tokens(memory: Memory): Tokens {
  const valid = () => [...memory.rows.tokens.values()].filter((row) => memory.isValid(row));
  const bySeq = (a: MemoryToken, b: MemoryToken) => (a.seq < b.seq ? 1 : -1);
  const save = (row: MemoryToken) => {
    memory.rows.tokens.set(row.id, row);
    return toRecord(row);
  };
  const unchanged = {
    modified_by: null,
    modified_at: null,
    content_version: 1,
    search_version: null,
    uses: 0,
  };
  const create = (tenant_id: string, id: string, content: TokenContent, { by, at }: Change) => {
    const row = { tenant_id, seq: newId(at), id, created_by: by, created_at: at, ...unchanged };
    const { data, masked, searchValues = {} } = content;
    return save({ ...row, ...columnsOf(content), data, masked, searchValues });
  };
  return {
    storageUsed: async () => ({ tokens: 0, bytes: 0 }),
    create: async (tenant, id, content, change) =>
      memory.token(id) ? undefined : create(tenant, id, content, change),
    createAll: async (tenant, created, change) => {
      const taken = created.map(({ id }) => id).filter((id) => memory.token(id));
      if (taken.length > 0) return { taken: new Set(taken) };
      return { created: created.map(({ id, content }) => create(tenant, id, content, change)) };
    },
    findEqual: async (_, container, values, writers) => {
      const own = canonicalContainer(container);
      const found = valid()
        .filter((row) => canonicalContainer(row.container).startsWith(own) && hasValues(row, values))
        .filter(
          ({ written_by = '' }) =>
            writers.includes(written_by ?? '') || written_by?.startsWith('management '),
        )
        .sort(bySeq)[0];
      return found && stored(found);
    },
    get: async (_, id) => {
      const row = memory.token(id);
      return row && stored(row);
    },
    version: async (_, id) => {
      const row = memory.token(id);
      return row && tokenVersion(toRecord(row));
    },
    locate: async (_, ids) => valid().filter(({ id }) => ids.includes(id)),
    count: async () => ({ counts: [], next: undefined }),
    list: async (_, { decide, filter, ...window }) => {
      const shown = valid()
        .filter((row) => isSelected(row, filter))
        .map((row) => ({ row, seq: row.seq, verdict: decide(row) }));
      const visible = shown.flatMap(({ verdict, ...each }) => (verdict ? [{ ...each, verdict }] : []));
      return page(
        visible,
        ({ seq }) => seq,
        window,
        ({ row, seq, verdict }) => {
          const { transform } = verdict;
          const data = transform === 'reveal' ? row.data : transform === 'mask' ? row.masked : undefined;
          return { seq, token: toRecord(row).token, data, verdict };
        },
      );
    },
    update: async (_, id, { by, at }, revise) => {
      const row = memory.token(id);
      if (!row) return undefined;
      const locked = { plaintext: async () => row.data, masked: async () => row.masked };
      const revision = await revise({ ...toRecord(row), ...locked });
      const { data, mask, masked, search, searchValues = {} } = revision;
      const contents = data
        ? { data, masked, searchValues }
        : {
            masked: mask === undefined ? undefined : row.masked,
            searchValues: search ? row.searchValues : {},
          };
      const modified_at = modificationTime(row.modified_at, at);
      return save({ ...row, ...columnsOf(revision), ...contents, modified_by: by, modified_at });
    },
    find: async (_, { decide, ...window }) => {
      const seqOf = ({ seq }: MemoryToken) => seq;
      const { rows, next } = page(valid().filter(decide), seqOf, window, seqOf);
      return { seqs: rows, next };
    },
    deleteAll: async (_, seqs, mayDelete) => {
      const deleted = valid().filter((row) => seqs.includes(row.seq) && mayDelete(row));
      for (const { id } of deleted) memory.rows.tokens.delete(id);
      return { deleted, next: undefined };
    },
    // Tokens are used at destinations, which the fake does not have.
    spendUse: async () => undefined,
    delete: async (_, id, check) => {
      const row = memory.token(id);
      if (!row) return false;
      check(toRecord(row));
      return memory.rows.tokens.delete(id);
    },
  };
}

/** The columns of a token that a change replaces. */
function columnsOf(content: Omit<TokenContent | TokenRevision, 'data' | 'masked'>) {
  const { type, container, mask, search, writtenBy, metadata, expiresAt } = content;
  const text = (value: unknown) => (value === undefined ? null : JSON.stringify(value));
  const texts = { mask: text(mask), search: text(search), metadata: text(metadata) };
  const written_by = writtenBy ?? null;
  return {
    type,
    container,
    written_by,
    ...texts,
    max_uses: content.maxUses ?? null,
    expires_at: expiresAt ?? null,
  };
}

function stored(row: MemoryToken) {
  return { ...toRecord(row), plaintext: () => row.data, masked: () => row.masked };
}

function hasValues({ searchValues }: MemoryToken, values: SearchValues): boolean {
  return Object.entries(values).every(([name, value]) => searchValues[name] === value);
}

function isSelected(row: MemoryToken, filter: TokenFilter): boolean {
  const { ids, type, metadata = {}, equals = {} } = filter;
  const { createdAfter = 0, createdBefore = Infinity, expiresBefore, createdBy } = filter;
  const at = Number(row.created_at);
  const isInTime = at >= createdAfter && at < createdBefore;
  if (expiresBefore !== undefined && Number(row.expires_at ?? Infinity) >= expiresBefore) return false;
  if (createdBy && row.created_by !== createdBy) return false;
  if (!isInTime || (ids && !ids.includes(row.id)) || (type && row.type !== type)) return false;
  return hasAll(row.metadata, metadata) && hasValues(row, equals);
}
