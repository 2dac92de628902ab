import { type DbTime, type Executor, type Queries, rowLock } from '../db/db.ts';
import { decrypt, encrypt } from '../db/keys/cipher.ts';
import type { Keyring } from '../db/keys/keyring.ts';
import { includes, numberIn } from '../db/sql.ts';
import { all, clause, type Lookup, list, lookup, none, raw, sql } from '../db/statement.ts';
import {
  bytes,
  defaulted,
  integer,
  optional,
  type RowOf,
  shown,
  shownJson,
  shownTime,
  table,
  text,
  uuid,
} from '../db/table.ts';
import { Id } from '../domain/common-fields.ts';
import type { Destination, DestinationRequest } from '../domain/destination.ts';
import { Secret } from '../domain/key.ts';
import { lazy } from '../domain/lazy.ts';
import { modificationTime } from '../domain/row-version.ts';
import { isSame } from './credentials.ts';
import { listRows } from './lists/rows.ts';
import type { DestinationFields, DestinationSecrets, Destinations, StoredDestination } from './store.ts';

/** A column reaches responses only if it is `shown`. */
export const destinationTable = table('destinations', {
  id: shown(uuid),
  tenant_id: shown(uuid),
  name: shown(text),
  origin: shown(text),
  requests: shownJson<DestinationRequest[]>(),
  header_names: shownJson<string[]>(),
  certificate: optional(text),
  ca: optional(shown(text)),
  timeout: shown(integer),
  max_in_flight: shown(integer),
  ignored_headers: shownJson<string[]>(),
  stops: defaulted(integer),
  secrets: bytes,
  created_by: optional(shown(uuid)),
  created_at: shownTime,
  modified_by: optional(shown(uuid)),
  modified_at: optional(shownTime),
});
type Row = RowOf<typeof destinationTable.columns>;

const columns = destinationTable.select('d');
const lookupBy = (column: string, type: 'uuid' | 'text') =>
  lookup<Row>(
    type,
    (key, tenant, table) => clause`
      select ${raw(`d.${column}`)} as key, ${columns} from ${table('destinations')} d
      where ${raw(`d.${column}`)} = ${key} and d.tenant_id = ${tenant}`,
  );
const [byId, byName] = [lookupBy('id', 'uuid'), lookupBy('name', 'text')];
const selectById = (tenant: string, id: string, lock = none) =>
  sql`select ${columns} from destinations d where d.tenant_id = ${tenant} and d.id = ${id} ${lock}`;

async function isTaken(tx: Queries, tenant: string, id: string, name: string): Promise<boolean> {
  const other = sql`select 1 as one from destinations where tenant_id = ${tenant} and name = ${name} and id <> ${id}`;
  return (await tx.get(other)) !== undefined;
}

export function destinations(db: Executor, dataKey: Keyring['dataKey']): Destinations {
  const one = (by: Lookup<Row>) => async (tenant: string, value: string) => {
    const key = await dataKey(tenant);
    const row = await db.lookup(by, value, tenant);
    return row && known(row, key);
  };
  /** Until the transaction ends, no other one creates or renames a destination of the tenant. */
  const lockNames = (tx: Queries, tenant: string) =>
    tx.get(sql`select 1 as one from tenants where id = ${tenant} ${rowLock(db, 'for no key update')}`);

  return {
    create: async (tenant, id, fields, { by, at }, max) => {
      const key = await dataKey(tenant);
      return db.transaction(async (tx) => {
        await lockNames(tx, tenant);
        const stored = sql`select count(*) as value from destinations where tenant_id = ${tenant}`;
        if ((await numberIn(tx, stored)) >= max) return 'too_many';
        if (await isTaken(tx, tenant, id, fields.name)) return 'name_taken';
        const row = { tenant_id: tenant, id, origin: fields.origin, modified_at: null };
        const secrets = encryptSecrets(key, row, fields.secrets);
        const created = { ...row, created_by: by, created_at: at, secrets, ...changeable(fields) };
        await tx.run(destinationTable.insert(created));
        return toStored((await tx.get<Row>(selectById(tenant, id))) as Row, key);
      });
    },

    get: one(byId),

    named: one(byName),

    locate: (tenant, references) => locate(db, tenant, references),

    list: (tenant, filter, window) =>
      listRows<Row, Destination>(
        db,
        { ...filtered(tenant, filter), selected: () => destinationTable.select('r'), parse: toDestination },
        window,
      ),

    update: async (tenant, id, { by, at }, revise) => {
      const key = await dataKey(tenant);
      return db.transaction(async (tx) => {
        await lockNames(tx, tenant);
        const old = await tx.get<Row>(selectById(tenant, id, rowLock(db, 'for update')));
        if (!old) return undefined;
        const fields = revise(toStored(old, key));
        const modified_at = modificationTime(old.modified_at, at);
        if (await isTaken(tx, tenant, id, fields.name)) return 'name_taken';
        const secrets = encryptSecrets(key, { ...old, modified_at }, fields.secrets);
        const changes = { modified_by: by, modified_at, secrets, ...changeable(fields) };
        await tx.run(destinationTable.update({ tenant_id: tenant, id }, changes));
        forget(old, key);
        return toStored((await tx.get<Row>(selectById(tenant, id))) as Row, key);
      });
    },

    delete: (tenant, id, check) =>
      db.transaction(async (tx) => {
        const row = await tx.get<Row>(selectById(tenant, id, rowLock(db, 'for update')));
        if (!row) return undefined;
        const destination = toDestination(row);
        check(destination);
        await tx.run(sql`delete from destinations where tenant_id = ${tenant} and id = ${id}`);
        // Without the data key, the row was not decrypted.
        const key = await dataKey(tenant).catch(() => undefined);
        if (key) forget(row, key);
        return destination;
      }),

    ...stopsIn(db),
  };
}

/** Each method locks the destination, so that its count of stops is right. */
function stopsIn(db: Executor): Pick<Destinations, 'stop' | 'isStopped' | 'allow'> {
  const lock = (tx: Queries, tenant: string, id: string) =>
    tx.get<Row>(selectById(tenant, id, rowLock(db, 'for update')));
  const count = (tx: Queries, tenant: string, id: string, change: number) =>
    tx.run(sql`update destinations set stops = stops + ${change} where tenant_id = ${tenant} and id = ${id}`);
  return {
    stop: (tenant, id, application, tokens, at) =>
      db.transaction(async (tx) => {
        if (!(await lock(tx, tenant, id))) return;
        let added = 0;
        for (const token of tokens)
          added += await tx.run(sql`
            insert into destination_stops (tenant_id, destination_id, application_id, token_id, stopped_at)
              values (${tenant}, ${id}, ${application}, ${token}, ${at}) on conflict do nothing`);
        await count(tx, tenant, id, added);
      }),

    isStopped: async (tenant, id, application, tokens) => {
      const stop = await db.get(sql`
        select 1 as one from destination_stops where tenant_id = ${tenant} and destination_id = ${id}
          and application_id = ${application} and token_id in ${list(tokens)}`);
      return stop !== undefined;
    },

    allow: (tenant, id, application, token) =>
      db.transaction(async (tx) => {
        if (!(await lock(tx, tenant, id))) return undefined;
        const removed = await tx.run(sql`
          delete from destination_stops where tenant_id = ${tenant} and destination_id = ${id}
            and application_id = ${application} and token_id = ${token}`);
        await count(tx, tenant, id, -removed);
        return removed > 0;
      }),
  };
}

async function locate(
  db: Pick<Executor, 'all'>,
  tenant: string,
  references: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const ids = references.filter((text) => Id.safeParse(text).success);
  const rows = await db.all<Pick<Row, 'id' | 'name'>>(sql`
    select d.id, d.name from destinations d where d.tenant_id = ${tenant}
       and (d.id in ${list(ids)} or d.name in ${list(references)})`);
  return new Map(rows.flatMap(({ id, name }) => [[id, id] as const, [name, id] as const]));
}

function filtered(tenant: string, { ids, name }: Parameters<Destinations['list']>[1]) {
  return {
    table: 'destinations',
    largest: 'requests',
    columns: 'r.name',
    tenant,
    ids,
    filter: all('1 = 1', name !== undefined && includes('x.name', name.toLowerCase())),
  };
}

/** The columns that both `create` and `update` write. */
function changeable({
  name,
  requests,
  secrets,
  certificate,
  ca,
  timeout,
  max_in_flight,
  ignored_headers,
}: Omit<DestinationFields, 'origin'>) {
  const names = Object.keys(secrets.headers).sort();
  const lists = { requests, header_names: names, ignored_headers };
  const texts = Object.entries(lists).map(([column, list]) => [column, JSON.stringify(list)] as const);
  const columns = Object.fromEntries(texts) as Record<keyof typeof lists, string>;
  return { name, ...columns, certificate, ca, timeout, max_in_flight };
}

type Owner = Pick<Row, 'tenant_id' | 'id' | 'origin' | 'modified_at'>;

/**
 * Binds the secrets to their destination, its origin and its version: someone with access to the database cannot have
 * them sent elsewhere, or bring old ones back.
 */
function contextOf({ tenant_id, id, origin, modified_at }: Owner): string {
  return `sallyport destination ${tenant_id} ${id} ${origin} ${modified_at ?? 0}`;
}

function encryptSecrets(
  key: Uint8Array,
  owner: Owner,
  { headers, privateKey }: DestinationSecrets,
): Uint8Array {
  const values = Object.entries(headers).map(([name, value]) => [name, value.reveal()]);
  const text = JSON.stringify({ headers: Object.fromEntries(values), privateKey: privateKey?.reveal() });
  return encrypt(key, contextOf(owner), text);
}

function decryptSecrets(key: Uint8Array, row: Row): DestinationSecrets {
  const text = decrypt(key, contextOf(row), row.secrets);
  if (!text)
    throw new Error(
      `the secrets of destination ${row.id} cannot be decrypted: another program has changed them`,
    );
  const { headers, privateKey } = JSON.parse(text.toString()) as {
    headers: Record<string, string>;
    privateKey?: string;
  };
  return {
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, new Secret(value)])),
    privateKey: privateKey === undefined ? undefined : new Secret(privateKey),
  };
}

function toStored(row: Row, key: Uint8Array): StoredDestination {
  return { ...toDestination(row), hasStops: row.stops > 0, secrets: lazy(() => decryptSecrets(key, row)) };
}

/** A destination that was read, or the version of one that was updated or deleted. */
type Known = { readonly row: Row; readonly stored: StoredDestination } | { readonly ended: DbTime | null };

/** By the data key of the tenant, so that it is forgotten together with the key, and by id. */
let lastRead = new WeakMap<Uint8Array, Map<string, Known>>();
/** How many were added to `lastRead`. */
let added = 0;
const maxKnown = 1000;

function remember(key: Uint8Array, id: string, known: Known): void {
  if (added++ >= maxKnown) [lastRead, added] = [new WeakMap(), 1];
  lastRead.set(key, (lastRead.get(key) ?? new Map()).set(id, known));
}

/** Like `toStored`. Does not parse and decrypt the same row again, which takes as long as to send a request. */
function known(row: Row, key: Uint8Array): StoredDestination {
  const last = lastRead.get(key)?.get(row.id);
  if (last && 'row' in last && (last.row === row || isSame(last.row, row))) return last.stored;
  const stored = toStored(row, key);
  const hasEnded = last && 'ended' in last && last.ended === row.modified_at;
  if (!hasEnded) remember(key, row.id, { row, stored });
  return stored;
}

/** Drops the secrets of a row that is being updated or deleted. Reads that see it until the commit do not cache it. */
function forget({ id, modified_at }: Row, key: Uint8Array): void {
  remember(key, id, { ended: modified_at });
}

function toDestination(row: Row): Destination {
  const { certificate } = row;
  return {
    ...destinationTable.view(row),
    ...(certificate !== null && { client_certificate: certificate }),
  };
}
