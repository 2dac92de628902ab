/** Repositories bound to one transaction. */
import type { EntryWriter } from '../audit/log.ts';
import { type Awaitable, then } from '../domain/awaitable.ts';
import { applications } from './applications.ts';
import type { Keyring } from './crypto/keyring.ts';
import type { Db, Entity, Executor, Queries, Transaction } from './engine/db.ts';
import { idempotency } from './idempotency.ts';
import { applicationKeys } from './keys.ts';
import type { TenantTransaction } from './maintenance.ts';
import { sessions } from './sessions.ts';
import { settings } from './settings.ts';
import type { StoreTransaction } from './store.ts';
import { tenants } from './tenants.ts';
import { tokens } from './tokens.ts';

type TransactionScope = StoreTransaction & TenantTransaction;

/** See `Store.change`. Without a tenant, tokens and idempotency records cannot be used. */
export type TransactionRunner = <T>(
  tenant: string | undefined,
  work: (scope: TransactionScope) => Awaitable<T>,
  entity?: Entity,
) => Promise<T>;

export function transactionRunner(db: Db, keys: Keyring, writeEntries: EntryWriter): TransactionRunner {
  const { dialect } = db;

  function scopeOf(tx: Transaction, dataKey: (tenant: string) => Uint8Array): TransactionScope {
    const { get, all, run, defer } = tx;
    const transaction = <T>(work: (tx: Queries) => Awaitable<T>) => work(tx) as Promise<T>;
    const lookup: Executor['lookup'] = (sql, key, params) =>
      get(sql.replace(':key', '$$1'), [key, ...params]);
    const executor: Executor = { dialect, get, all, run, lookup, defer, transaction };
    // Repositories are created on access, because most changes need only one of them.
    return {
      get applications() {
        return applications(executor);
      },
      get keys() {
        return applicationKeys(executor);
      },
      get sessions() {
        return sessions(executor);
      },
      get tokens() {
        return tokens(executor, dataKey);
      },
      get tenants() {
        return tenants(executor);
      },
      get settings() {
        return settings(executor);
      },
      get idempotency() {
        return idempotency(executor, dataKey);
      },
      record: (entry) => {
        defer(writeEntries, entry);
      },
    };
  }

  return <T>(
    tenant: string | undefined,
    work: (scope: TransactionScope) => Awaitable<T>,
    entity?: Entity,
  ): Promise<T> => {
    const run = (key: (() => Uint8Array) | undefined) => {
      const dataKey = (requested: string) => {
        if (!key || requested !== tenant) throw new Error('this change was started for another tenant');
        return key();
      };
      return db.change((tx) => work(scopeOf(tx, dataKey)), entity, tenant);
    };
    const prepared = then(keys.chainKeys(), () =>
      tenant === undefined ? undefined : keys.prepareDataKey(tenant),
    );
    return then(prepared, run) as Promise<T>;
  };
}
