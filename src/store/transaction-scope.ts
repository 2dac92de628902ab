/** Repositories bound to one transaction. */
import { type Awaitable, then } from '../domain/awaitable.ts';
import { applications } from './applications.ts';
import { insertEntries } from './audit/log.ts';
import type { DataKey, Keyring } from './crypto/keyring.ts';
import type { Db, Entity, Executor, Queries, Transaction } from './engine/db.ts';
import { idempotency } from './idempotency.ts';
import { applicationKeys } from './keys.ts';
import type { Tenants } from './maintenance.ts';
import { sessions } from './sessions.ts';
import type {
  Applications,
  Idempotency,
  Keys,
  NewEntry,
  Sessions,
  StoreTransaction,
  Tokens,
} from './store.ts';
import { tenants } from './tenants.ts';
import { tokens } from './tokens.ts';

/** See `Store.change`. Without a tenant, tokens and idempotency records cannot be used. */
export type TransactionRunner = <T>(
  tenant: string | undefined,
  work: (scope: TransactionScope) => Awaitable<T>,
  entity?: Entity,
) => Promise<T>;

export function transactionRunner(db: Db, keys: Keyring): TransactionRunner {
  async function writeEntries(tx: Queries, entries: readonly NewEntry[]): Promise<void> {
    await insertEntries(tx, db.dialect, await keys.ofChain(), entries);
  }

  return <T>(
    tenant: string | undefined,
    work: (scope: TransactionScope) => Awaitable<T>,
    entity?: Entity,
  ): Promise<T> => {
    const run = (dataKey: DataKey) =>
      db.change((tx) => work(new TransactionScope(db.dialect, tx, dataKey, writeEntries)), entity);
    const prepared = then(keys.ofChain(), () => (tenant === undefined ? noDataKey : keys.prepare(tenant)));
    return then(prepared, run) as Promise<T>;
  };
}

const noDataKey: DataKey = () => {
  throw new Error('this transaction was started without a tenant');
};

type WriteEntries = (tx: Queries, entries: readonly NewEntry[]) => Promise<void>;

/** Creates each repository on first use, since most changes need only one. */
class TransactionScope implements StoreTransaction {
  readonly #executor: Executor;
  readonly #dataKey: DataKey;
  readonly #writeEntries: WriteEntries;
  #applications: Applications | undefined;
  #keys: Keys | undefined;
  #sessions: Sessions | undefined;
  #tokens: Tokens | undefined;
  #tenants: Tenants | undefined;
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

  get applications(): Applications {
    this.#applications ??= applications(this.#executor);
    return this.#applications;
  }

  get keys(): Keys {
    this.#keys ??= applicationKeys(this.#executor);
    return this.#keys;
  }

  get sessions(): Sessions {
    this.#sessions ??= sessions(this.#executor);
    return this.#sessions;
  }

  get tokens(): Tokens {
    this.#tokens ??= tokens(this.#executor, { of: this.#dataKey });
    return this.#tokens;
  }

  get tenants(): Tenants {
    this.#tenants ??= tenants(this.#executor);
    return this.#tenants;
  }

  get idempotency(): Idempotency {
    this.#idempotency ??= idempotency(this.#executor, this.#dataKey);
    return this.#idempotency;
  }
}
