/** The repositories of a change, bound to its transaction. */
import { type Awaitable, then } from '../domain/awaitable.ts';
import { applications } from './applications.ts';
import { insertEntries } from './audit/log.ts';
import type { DataKey, Keyring } from './crypto/keyring.ts';
import type { Db, Entity, Executor, Queries, Transaction } from './engine/db.ts';
import { idempotency } from './idempotency.ts';
import { applicationKeys } from './keys.ts';
import { sessions } from './sessions.ts';
import type { Idempotency, NewEntry, Store, StoreTransaction } from './store.ts';
import { tenants } from './tenants.ts';
import { tokens } from './tokens.ts';

export function changes(db: Db, keys: Keyring): Store['change'] {
  async function writeEntries(tx: Queries, entries: readonly NewEntry[]): Promise<void> {
    await insertEntries(tx, db.dialect, await keys.ofChain(), entries);
  }

  return <T>(
    tenant: string | undefined,
    work: (tx: StoreTransaction) => Awaitable<T>,
    entity?: Entity,
  ): Promise<T> => {
    const run = (dataKey: DataKey) =>
      db.change((tx) => work(new TransactionScope(db.dialect, tx, dataKey, writeEntries)), entity);
    const prepared = then(keys.ofChain(), () => (tenant === undefined ? noDataKey : keys.prepare(tenant)));
    return then(prepared, run) as Promise<T>;
  };
}

const noDataKey: DataKey = () => {
  throw new Error('this change was started without a tenant');
};

type WriteEntries = (tx: Queries, entries: readonly NewEntry[]) => Promise<void>;

/** Creates each repository on first use, since most changes need only one. */
class TransactionScope implements StoreTransaction {
  readonly #executor: Executor;
  readonly #dataKey: DataKey;
  readonly #writeEntries: WriteEntries;
  #applications: StoreTransaction['applications'] | undefined;
  #keys: StoreTransaction['keys'] | undefined;
  #sessions: StoreTransaction['sessions'] | undefined;
  #tokens: StoreTransaction['tokens'] | undefined;
  #tenants: StoreTransaction['tenants'] | undefined;
  #idempotency: Idempotency | undefined;

  constructor(dialect: Db['dialect'], tx: Transaction, dataKey: DataKey, writeEntries: WriteEntries) {
    const { get, all, run, defer } = tx;
    const transaction = <T>(work: (tx: Queries) => Awaitable<T>) => work(tx) as Promise<T>;
    this.#executor = { dialect, get, all, run, defer, transaction };
    this.#dataKey = dataKey;
    this.#writeEntries = writeEntries;
  }

  record(entry: NewEntry): void {
    this.#executor.defer(this.#writeEntries, entry);
  }

  get applications() {
    this.#applications ??= applications(this.#executor);
    return this.#applications;
  }

  get keys() {
    this.#keys ??= applicationKeys(this.#executor);
    return this.#keys;
  }

  get sessions() {
    this.#sessions ??= sessions(this.#executor);
    return this.#sessions;
  }

  get tokens() {
    this.#tokens ??= tokens(this.#executor, { of: this.#dataKey });
    return this.#tokens;
  }

  get tenants() {
    this.#tenants ??= tenants(this.#executor);
    return this.#tenants;
  }

  get idempotency() {
    this.#idempotency ??= idempotency(this.#executor, this.#dataKey);
    return this.#idempotency;
  }
}
