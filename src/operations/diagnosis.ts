/**
 * Reads the state of a database for `doctor`. Writes no data and does not migrate. A SQLite database is opened like the
 * service opens it, so that the reported settings are those of the service.
 */
import { newId } from '../domain/key.ts';
import { checkpointText, type SignedCheckpoint, signatureCheck } from '../store/audit/hash-chain.ts';
import { headOf } from '../store/audit/log.ts';
import {
  bindMasterKey,
  type MasterKeys,
  unwrapChainKeys,
  wrappedChainKeys,
} from '../store/crypto/keyring.ts';
import type { Db, DbTime } from '../store/engine/db.ts';
import {
  appliedMigrations,
  findSchemaProblem,
  type IncompatibleSchema,
  newestSchema,
  versionOf,
} from '../store/engine/migrate.ts';
import { openPostgres } from '../store/engine/postgres.ts';
import { openSqlite } from '../store/engine/sqlite.ts';
import { readGauges } from '../store/gauges.ts';

export interface Engine {
  readonly kind: 'sqlite' | 'postgres';
  readonly version: string;
  /** The current time by the clock that decides on expiry. */
  readonly now: number;
  /** 0 if the database is empty. */
  readonly schema: number;
  /** The database has applied other migrations than this program. */
  readonly schemaProblem?: IncompatibleSchema | undefined;
}

/** Known only if the schema is that of this version. */
export interface Health {
  /** Why the master key cannot unwrap every data key. */
  readonly master: string | undefined;
  /** Seconds since the oldest row that the sweep has not removed yet expired. */
  readonly sweepLag: number;
  /** The application that stores the most bytes. */
  readonly fullest: Fullest | undefined;
  readonly unchained: number;
  /** Age of the oldest of them in milliseconds. */
  readonly unchainedFor: number;
  readonly head: SignedCheckpoint | undefined;
  /** Whether the signature of the last checkpoint is valid; undefined without the master key. */
  readonly headSigned: boolean | undefined;
  /** Whether the row of the last checkpoint exists with the signed hash. */
  readonly headKept: boolean;
  /** The time of the newest audit entry. */
  readonly newestEntry: number | undefined;
  /** Whether that time is in the future because the clock was ahead for a while. */
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
  /** Whether transactions are read-only by default. */
  readonly readOnly: boolean;
  readonly encoding: string;
  readonly fsync: string;
  readonly fullPageWrites: string;
  readonly synchronousCommit: string;
  /** Free connections for users who are not superusers. */
  readonly left: number;
}

export interface Diagnosis {
  readonly engine: Engine;
  readonly sqlite?: SqliteState;
  readonly postgres?: PostgresState;
  readonly health?: Health;
}

/** `now` is the machine's clock, which decides on expiry on SQLite. */
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
    if (engine.schema !== newestSchema || engine.schemaProblem) return { engine, ...own };
    return { engine, ...own, health: await healthOf(db, masters, engine.now) };
  } finally {
    await db.close();
  }
}

async function engineOf(db: Db): Promise<Engine> {
  const version =
    db.dialect === 'sqlite' ? 'sqlite_version()' : "split_part(current_setting('server_version'), ' ', 1)";
  const row = await db.get<{ version: string; now: DbTime }>(`select ${version} as version, :now as now`);
  const applied = await appliedMigrations(db);
  return {
    kind: db.dialect,
    version: row?.version as string,
    now: Number(row?.now),
    schema: versionOf(applied),
    schemaProblem: await findSchemaProblem(db, applied),
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

/** A database without a master key accepts any. */
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
  const kept = await wrappedChainKeys(db);
  const master = kept && masters.find(kept.master_id);
  if (!master) return undefined;
  const keys = unwrapChainKeys(master, kept.wrapped);
  return keys !== undefined && signatureCheck(keys)(checkpointText(head), head.signature);
}

async function isKept(db: Db, { seq, hash }: SignedCheckpoint): Promise<boolean> {
  return (await db.get('select 1 as one from audit where seq = $1 and hash = $2', [seq, hash])) !== undefined;
}

/** Entries with a time in the future that are examined at most. */
const maxAhead = 100_000;

/**
 * Tells a clock that is slow now from one that was fast for a while. The hash chain has the entries in the order in which
 * they were written. If the clock was fast, the time jumps before the first entry in the future, by at least as much as
 * the newest is ahead, and the last entry is in the past again.
 */
async function hasLeapt(db: Db, now: number, newest: number): Promise<boolean> {
  const at = async (where: string, params: readonly number[] = []) =>
    Number((await db.get<{ at: DbTime }>(`select at from audit where ${where}`, params))?.at ?? Number.NaN);
  const ahead = await db.get<{ first: DbTime | null }>(
    `select min(seq) as first from
       (select seq from audit where id > $1 and seq is not null limit ${maxAhead}) as ahead`,
    [newId(now)],
  );
  if (ahead?.first == null) return false;
  const first = Number(ahead.first);
  const last = await at('seq is not null order by seq desc limit 1');
  const leap = (await at('seq = $1', [first])) - (await at('seq < $1 order by seq desc limit 1', [first]));
  return last <= now && leap >= newest - now;
}
