/** Changes as units of work: the rooms of the store, in which everything happens within one transaction. */
import { type Awaitable, then } from '../domain/awaitable.ts';
import { applications } from './applications.ts';
import { insertEntries } from './audit.ts';
import type { Db, Manner, Queries, Room, Shared } from './db.ts';
import { idempotency } from './idempotency.ts';
import type { Keyring } from './keyring.ts';
import { applicationKeys } from './keys.ts';
import { sessions } from './sessions.ts';
import type { Idempotency, NewEntry, Store, Unit } from './store.ts';
import { tenants } from './tenants.ts';
import { tokens } from './tokens.ts';

/** Where those who share a transaction are handed the same one, as on SQLite, they have one unit. */
export function changes(db: Db, keys: Keyring): Store['change'] {
  const units = new WeakMap<Shared, Unit>();

  async function write(tx: Queries, entries: readonly NewEntry[]): Promise<void> {
    await insertEntries(tx, db.dialect, await keys.ofChain(), entries);
  }

  function unitOf(tx: Shared): Unit {
    const known = units.get(tx);
    if (known) return known;
    const unit = new Inside(db.dialect, tx, keys, (entry) => {
      tx.leave(write, entry);
    });
    units.set(tx, unit);
    return unit;
  }

  return <T>(work: (unit: Unit) => Awaitable<T>, manner?: Manner) =>
    then(keys.ofChain(), () => db.change((tx) => work(unitOf(tx)), manner)) as Promise<T>;
}

/** Each room is made when it is entered, since most changes need one of them. */
class Inside implements Unit {
  readonly #room: Room;
  readonly #dataKey: Keyring['opened'];
  readonly record: Unit['record'];
  #applications: Unit['applications'] | undefined;
  #keys: Unit['keys'] | undefined;
  #sessions: Unit['sessions'] | undefined;
  #tokens: Unit['tokens'] | undefined;
  #tenants: Unit['tenants'] | undefined;
  #idempotency: Idempotency | undefined;

  constructor(dialect: Db['dialect'], tx: Shared, keys: Keyring, record: Unit['record']) {
    const { get, all, run, leave } = tx;
    const transaction = <T>(work: (tx: Queries) => Awaitable<T>) => work(tx) as Promise<T>;
    this.#room = { dialect, get, all, run, leave, transaction };
    this.#dataKey = keys.opened;
    this.record = record;
  }

  get applications() {
    this.#applications ??= applications(this.#room);
    return this.#applications;
  }

  get keys() {
    this.#keys ??= applicationKeys(this.#room);
    return this.#keys;
  }

  get sessions() {
    this.#sessions ??= sessions(this.#room);
    return this.#sessions;
  }

  get tokens() {
    this.#tokens ??= tokens(this.#room, { of: this.#dataKey });
    return this.#tokens;
  }

  get tenants() {
    this.#tenants ??= tenants(this.#room);
    return this.#tenants;
  }

  get idempotency() {
    this.#idempotency ??= idempotency(this.#room, this.#dataKey);
    return this.#idempotency;
  }
}
