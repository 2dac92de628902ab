/**
 * The condition that a database is in, for an operator. Changes nothing that it holds, not even an old schema. A
 * SQLite database is opened as the service opens it, with its log and lock beside it: what is told of how it is written
 * is how the service writes it.
 */
import { newId } from '../domain/key.ts';
import { checkpointText, type SignedCheckpoint, signatureCheck } from '../store/audit/hash-chain.ts';
import { headOf } from '../store/audit/log.ts';
import { bindMasterKey, type MasterKeys, openChainKeys, sealedChainKeys } from '../store/crypto/keyring.ts';
import type { Db, DbTime } from '../store/engine/db.ts';
import { newestSchema, schemaOf } from '../store/engine/migrate.ts';
import { openPostgres } from '../store/engine/postgres.ts';
import { openSqlite } from '../store/engine/sqlite.ts';
import { readGauges } from '../store/gauges.ts';

export interface Engine {
  readonly kind: 'sqlite' | 'postgres';
  readonly version: string;
  /** By the clock that decides. */
  readonly now: number;
  /** 0 if there is none yet. */
  readonly schema: number;
}

/** As far as the schema is this program's. */
export interface Health {
  /** Why the master key does not open everything. */
  readonly master: string | undefined;
  /** Seconds for which the oldest expired row has waited for the sweep. */
  readonly sweepLag: number;
  /** The application that has stored the most bytes of tokens. */
  readonly fullest: Fullest | undefined;
  readonly unchained: number;
  /** Milliseconds for which the oldest of them has waited. */
  readonly unchainedFor: number;
  readonly head: SignedCheckpoint | undefined;
  /** Whether the last checkpoint was signed with the keys of the chain; undefined if nobody can tell. */
  readonly headSigned: boolean | undefined;
  /** Whether the row that the last checkpoint signs is there, with the link that it had. */
  readonly headKept: boolean;
  /** When the newest audit entry was made, by the clock of that time. */
  readonly newestEntry: number | undefined;
  /** Whether the clock had leapt ahead when that was made, and was put back since. */
  readonly leapt: boolean;
}

export interface Fullest {
  readonly application: string;
  readonly bytes: number;
}

export interface SqliteState {
  readonly journal: string;
  readonly synchronous: number;
  readonly flaws: readonly string[];
}

export interface PostgresState {
  readonly number: number;
  readonly standby: boolean;
  /** Whether a transaction may only read, unless it says otherwise. */
  readonly readOnly: boolean;
  readonly encoding: string;
  readonly fsync: string;
  readonly fullPageWrites: string;
  readonly synchronousCommit: string;
  /** Connections that an ordinary user may still open. */
  readonly left: number;
}

export interface Diagnosis {
  readonly engine: Engine;
  readonly sqlite?: SqliteState;
  readonly postgres?: PostgresState;
  readonly health?: Health;
}

/** `now` is the machine's clock, which decides for SQLite. */
export async function diagnose(
  { databaseUrl: url, databaseTimeout }: { databaseUrl: string; databaseTimeout: number },
  masters: MasterKeys,
  now: () => number,
): Promise<Diagnosis> {
  const path = url.startsWith('sqlite:') ? url.slice('sqlite:'.length) : undefined;
  const db = path === undefined ? openPostgres(url, undefined, databaseTimeout) : openSqlite(path, now);
  try {
    const engine = await engineOf(db);
    const own =
      db.dialect === 'sqlite' ? { sqlite: await sqliteState(db) } : { postgres: await postgresState(db) };
    if (engine.schema !== newestSchema) return { engine, ...own };
    return { engine, ...own, health: await healthOf(db, masters, engine.now) };
  } finally {
    await db.close();
  }
}

async function engineOf(db: Db): Promise<Engine> {
  const version =
    db.dialect === 'sqlite' ? 'sqlite_version()' : "split_part(current_setting('server_version'), ' ', 1)";
  const row = await db.get<{ version: string; now: DbTime }>(`select ${version} as version, :now as now`);
  return {
    kind: db.dialect,
    version: row?.version as string,
    now: Number(row?.now),
    schema: await schemaOf(db),
  };
}

async function sqliteState(db: Db): Promise<SqliteState> {
  const journal = await db.get<{ journal_mode: string }>('pragma journal_mode');
  const synchronous = await db.get<{ synchronous: number }>('pragma synchronous');
  const checked = await db.all<{ quick_check: string }>('pragma quick_check(10)');
  return {
    journal: journal?.journal_mode ?? '',
    synchronous: synchronous?.synchronous ?? 0,
    flaws: checked.map(({ quick_check }) => quick_check).filter((text) => text !== 'ok'),
  };
}

async function postgresState(db: Db): Promise<PostgresState> {
  const setting = (name: string) => `current_setting('${name}')`;
  const row = await db.get<PostgresState>(
    `select ${setting('server_version_num')}::int as number, pg_is_in_recovery() as standby,
       ${setting('default_transaction_read_only')} = 'on' as "readOnly",
       ${setting('server_encoding')} as encoding, ${setting('fsync')} as fsync,
       ${setting('full_page_writes')} as "fullPageWrites",
       ${setting('synchronous_commit')} as "synchronousCommit",
       (${setting('max_connections')}::int - ${setting('superuser_reserved_connections')}::int -
         (select count(*) from pg_stat_activity where backend_type = 'client backend'))::int as left`,
  );
  return row as PostgresState;
}

async function healthOf(db: Db, masters: MasterKeys, now: number): Promise<Health> {
  const master = await masterProblem(db, masters);
  const { sweepLag, unchained } = await readGauges(db);
  const waiting = await db.get<{ at: DbTime | null }>('select min(at) as at from audit where seq is null');
  const newest = await db.get<{ at: DbTime }>('select at from audit order by id desc limit 1');
  const head = await headOf(db);
  return {
    master,
    sweepLag,
    fullest: await fullestApplication(db),
    unchained,
    unchainedFor: unchained === 0 ? 0 : now - Number(waiting?.at),
    head,
    headSigned: head && (await isSigned(db, masters, head)),
    headKept: head === undefined || (await isKept(db, head)),
    newestEntry: newest && Number(newest.at),
    leapt: newest !== undefined && (await hasLeapt(db, now, Number(newest.at))),
  };
}

async function fullestApplication(db: Db): Promise<Fullest | undefined> {
  const row = await db.get<{ application_id: string; bytes: DbTime }>(
    `select application_id, sum(bytes) as bytes from application_storage
     group by tenant_id, application_id order by 2 desc limit 1`,
  );
  return row && { application: row.application_id, bytes: Number(row.bytes) };
}

/** A database that was never started with a master key takes the first that comes. */
async function masterProblem(db: Db, masters: MasterKeys): Promise<string | undefined> {
  if (!(await db.get('select 1 as one from master_key'))) return undefined;
  try {
    await bindMasterKey(db, masters);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

async function isSigned(db: Db, masters: MasterKeys, head: SignedCheckpoint): Promise<boolean | undefined> {
  const kept = await sealedChainKeys(db);
  const master = kept && masters.find(kept.master_id);
  if (!master) return undefined;
  const keys = openChainKeys(master, kept.sealed);
  return keys !== undefined && signatureCheck(keys)(checkpointText(head), head.signature);
}

async function isKept(db: Db, { seq, hash }: SignedCheckpoint): Promise<boolean> {
  return (await db.get('select 1 as one from audit where seq = $1 and hash = $2', [seq, hash])) !== undefined;
}

/** As many entries of the future as are looked at. */
const mostAhead = 100_000;

/**
 * Goes by the chain, which is in the order in which entries came. A clock that is behind now has the entries of its
 * future one after the other; one that was ahead has a leap before them that is longer than they are ahead, and the
 * last entry is of the past again.
 */
async function hasLeapt(db: Db, now: number, newest: number): Promise<boolean> {
  const at = async (where: string, params: readonly number[] = []) =>
    Number((await db.get<{ at: DbTime }>(`select at from audit where ${where}`, params))?.at ?? Number.NaN);
  const ahead = await db.get<{ first: DbTime | null }>(
    `select min(seq) as first from
       (select seq from audit where id > $1 and seq is not null limit ${mostAhead}) as ahead`,
    [newId(now)],
  );
  if (ahead?.first == null) return false;
  const first = Number(ahead.first);
  const last = await at('seq is not null order by seq desc limit 1');
  const leap = (await at('seq = $1', [first])) - (await at('seq < $1 order by seq desc limit 1', [first]));
  return last <= now && leap >= newest - now;
}
