/** Applications and their keys in memory. */
import type { ApplicationKey } from '../../src/domain/application.ts';
import { timestamp } from '../../src/domain/common-fields.ts';
import { modificationTime } from '../../src/domain/row-version.ts';
import {
  type ApplicationRow,
  columnsOf,
  fold,
  toApplication,
  toStored,
} from '../../src/store/applications.ts';
import type { Applications, Change, Keys, NewApplication } from '../../src/store/store.ts';
import { hasAll, type KeyRow, type Memory, page } from './memory.ts';

export function applications(memory: Memory): Applications {
  const rows = () => memory.rows.applications;
  const read = (row: ApplicationRow) => toApplication({ ...row, now: memory.now() });
  const save = (row: ApplicationRow, changes: Partial<ApplicationRow>, { by, at }: Change) => {
    const modified = { modified_by: by, modified_at: modificationTime(row.modified_at, at) };
    const next = { ...row, ...changes, ...modified };
    rows().set(row.id, next);
    return read(next);
  };
  return {
    create: async (tenant, application, key) => {
      const row = applicationRow(tenant, application);
      rows().set(row.id, row);
      const { createdBy: by, createdAt: at, keyExpiresAt } = application;
      memory.addKey(row.id, key, { by: by ?? null, at }, keyExpiresAt);
      return read(row);
    },
    get: async (_, id) => {
      const row = memory.application(id);
      return row && read(row);
    },
    list: async (_, filter, window) => {
      const { ids, type, name, expiresBefore, usedBefore, labels = {}, keyEnding } = filter;
      const ofKey = [...memory.rows.keys.values()].filter(
        (key) => memory.isValid(key) && key.ending === keyEnding,
      );
      const found = [...rows().values()].filter(
        (row) =>
          memory.isValid(row) &&
          (!ids || ids.includes(row.id)) &&
          (!type || row.type === type) &&
          (!name || fold(row.name).includes(fold(name))) &&
          (expiresBefore === undefined ||
            (row.expires_at !== null && Number(row.expires_at) < expiresBefore)) &&
          (usedBefore === undefined || Number(row.last_used_at ?? row.created_at) < usedBefore) &&
          hasAll(row.labels, labels) &&
          (keyEnding === undefined || ofKey.some((key) => key.application_id === row.id)),
      );
      return page(found, ({ id }) => id, window, read);
    },
    endedSince: async () => [],
    count: async () => [...rows().values()].filter((row) => memory.isValid(row)).length,
    update: async (_, id, change, revise) => {
      const row = memory.application(id);
      if (!row) return undefined;
      return save(row, columnsOf(revise(read(row), toStored(row))), change);
    },
    setQuarantine: async (_, id, change, isQuarantined, check) => {
      const row = memory.application(id);
      if (!row) return undefined;
      const before = read(row);
      check(before);
      if ((row.quarantined_at !== null) === isQuarantined) return { before, after: before };
      return { before, after: save(row, { quarantined_at: isQuarantined ? change.at : null }, change) };
    },
    regenerate: async (_, id, change, rekey, { expiresAt, oldKeysExpireAt } = {}) => {
      const row = memory.application(id);
      if (!row) return undefined;
      const key = rekey(read(row), oldKeysExpireAt === undefined ? 0 : memory.keysOf(id).length);
      memory.expireKeys(id, oldKeysExpireAt ?? 0);
      memory.addKey(id, key, change, expiresAt);
      return { application: save(row, {}, change), key };
    },
    delete: async (_, id, check) => {
      const row = memory.application(id);
      if (!row) return undefined;
      check?.(read(row));
      rows().delete(id);
      memory.expireKeys(id, 0);
      return read(row);
    },
  };
}

export function keys(memory: Memory): Keys {
  return {
    list: async (_, application) => {
      const end = memory.application(application)?.expires_at ?? Number.POSITIVE_INFINITY;
      const keys = memory.keysOf(application).map(([, key]) => key);
      // A key that expires after its application ends with it.
      return keys
        .sort((a, b) => (a.id < b.id ? 1 : -1))
        .map((key) => toKey((key.expires_at ?? 0) <= Number(end) ? key : { ...key, expires_at: null }));
    },
    create: async (_, id, change, make, { expiresAt, oldKeysExpireAt } = {}) => {
      const owner = memory.application(id);
      if (!owner) return undefined;
      const key = make(toApplication({ ...owner, now: memory.now() }), memory.keysOf(id).length);
      if (oldKeysExpireAt !== undefined) memory.expireKeys(id, oldKeysExpireAt);
      return { created: toKey(memory.addKey(id, key, change, expiresAt)), key };
    },
    issue: async () => ({ outcome: 'refused' }),
    renew: async () => {},
    delete: async (_, application, id, check) => {
      const owner = memory.application(application);
      if (!owner) return undefined;
      check(toApplication({ ...owner, now: memory.now() }));
      const [digest, key] = memory.keysOf(application).find(([, each]) => each.id === id) ?? [];
      if (digest !== undefined) memory.rows.keys.delete(digest);
      return key && toKey(key);
    },
  };
}

function applicationRow(tenant_id: string, application: NewApplication): ApplicationRow {
  const { id, type } = application;
  return {
    ...columnsOf(application),
    ...{ tenant_id, id, type },
    created_by: application.createdBy ?? null,
    created_at: application.createdAt,
    expires_at: application.expiresAt ?? null,
    ...{ modified_by: null, modified_at: null, quarantined_at: null, last_used_at: null },
  };
}

function toKey({ id, ending, created_by, created_at, expires_at }: KeyRow): ApplicationKey {
  return {
    id,
    ending,
    ...(created_by !== null && { created_by }),
    created_at: timestamp(created_at),
    ...(expires_at !== null && { expires_at: timestamp(expires_at) }),
  };
}
