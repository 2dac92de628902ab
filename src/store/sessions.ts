import { type DbTime, type Executor, type Queries, rowLock } from '../db/db.ts';
import { all, type Clause, clause, Param, type Piece, raw, sql, type TableName } from '../db/statement.ts';
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
  time,
  uuid,
} from '../db/table.ts';
import { then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import { fail } from '../domain/error.ts';
import { longestSession, type Session } from '../domain/session.ts';
import { notExpired, toText } from './applications.ts';
import { listRows } from './lists/rows.ts';
import type {
  Authorization,
  Authorized,
  CountedSessions,
  NewDelegation,
  NewSession,
  SessionFilter,
  Sessions,
} from './store.ts';

/**
 * Joins a session `s` with its application `a`, the application `c` that authorized it, and the key `k` of `c` that is
 * its ceiling. Without a ceiling, `k` is null and `c` may be expired. A session whose ceiling is invalid is invalid, too.
 * `tenant` is the parameter with the tenant. In subqueries, too, each table is compared with it and not with the
 * `tenant_id` of the session, because a Citus cluster would otherwise ask all servers.
 */
export const ownerAndAuthorizer = (tenant: Piece, table: TableName = raw) => clause`
  join ${table('applications')} a on a.tenant_id = ${tenant} and a.id = s.application_id
  left join ${table('application_keys')} k on k.tenant_id = ${tenant} and k.digest = s.authorizer_digest and ${notExpired('k')}
  left join ${table('applications')} c on c.tenant_id = ${tenant} and c.id = s.authorized_by`;
export const isValid = (tenant: Piece, table?: TableName) => clause`
  s.expires_at > :now and ${notExpired('a')} and (s.authorizer_digest is null
    or (k.application_id = c.id and ${notExpired('k')} and ${notExpired('c')})) and ${notEnded('s', tenant, table)}`;
/** A column of the authorizer, or null if the session has no ceiling. */
export const ofCeiling = (column: string) => raw(`case when k.id is not null then c.${column} end`);

const oneValid = (tenant: Param, id: string) => clause`
  select s.id from sessions s ${ownerAndAuthorizer(tenant)}
  where s.tenant_id = ${tenant} and s.id = ${id} and ${isValid(tenant)}`;
/**
 * Makes the sessions of a subject invalid without changing them, so that the cost does not depend on their number. A
 * session has the `ended_at` that its authorization read, in `subject_since`, so no clock decides which came first.
 */
async function endSubject(db: Executor, tenant: string, subject: string): Promise<void> {
  const some = sql`select 1 as one from sessions s where s.tenant_id = ${tenant} and s.subject = ${subject} limit 1`;
  // A separate statement: with `insert … select`, Citus would wait while any shard moves.
  if (!(await db.get(some))) return;
  await db.run(sql`insert into ended_subjects (tenant_id, subject, ended_at, expires_at)
    values (${tenant}, ${subject}, :now, :now + ${raw(String(longestSession))})
    on conflict (tenant_id, subject) do update set expires_at = excluded.expires_at,
      ended_at = case when excluded.ended_at > ended_subjects.ended_at then excluded.ended_at
        else ended_subjects.ended_at + 1 end`);
}

/** The application of a session is public, so it cannot authorize the session. That of a delegation is its issuer. */
export function kindOf(row: {
  application_id: string;
  authorized_by: string | null;
}): 'session' | 'delegation' {
  return row.authorized_by === row.application_id ? 'delegation' : 'session';
}

/** A column reaches responses only if it is `shown`. */
export const sessionTable = table('sessions', {
  id: shown(uuid),
  tenant_id: shown(uuid),
  application_id: shown(uuid),
  subject: optional(shown(text)),
  permissions: shownJson<Session['permissions']>(),
  rules: shownJson<Session['rules']>(),
  created_at: shownTime,
  authorized_at: optional(shownTime),
  authorized_by: optional(shown(uuid)),
  quarantined_at: optional(shownTime),
  expires_at: time,
  max_uses: optional(integer),
  uses: optional(integer),
  key_digest: bytes,
  nonce_digest: bytes,
  authorizer_digest: optional(bytes),
  unlimited_by: optional(bytes),
  unlimited_trust: optional(bytes),
  jkt: optional(text),
  subject_since: defaulted(time),
});

const read = [...sessionTable.shown, 'max_uses', 'uses'] as const;

type SessionRow = Ends &
  Pick<RowOf<typeof sessionTable.columns>, 'max_uses' | 'uses'> &
  Parameters<typeof sessionTable.view>[0] &
  Readonly<Record<'ceiling' | 'bound', number | boolean>>;

const columns = (tenant: Piece, alias = 's') => clause`
  ${sessionTable.select(alias, read)}, ${endsOf(alias, tenant)},
  ${raw(alias)}.authorizer_digest is not null as ceiling, ${raw(alias)}.jkt is not null as bound`;

/** The foreign key fails if the application does not exist. */
const newSessions = sessionTable.target([
  ...(['tenant_id', 'application_id', 'id', 'key_digest', 'nonce_digest'] as const),
  ...(['permissions', 'rules', 'created_at', 'expires_at', 'jkt'] as const),
]);

const insertSessions = async (tx: Queries, rows: readonly ReturnType<typeof rowOf>[]) => {
  await tx.insert(newSessions, rows);
};

function rowOf(tenant: string, { applicationId, id, key, nonce, jkt, createdAt, expiresAt }: NewSession) {
  return {
    tenant_id: tenant,
    application_id: applicationId,
    id,
    key_digest: key,
    nonce_digest: nonce,
    permissions: '[]',
    rules: '[]',
    created_at: createdAt,
    expires_at: expiresAt,
    jkt: jkt ?? null,
  };
}

export function sessions(db: Executor): Sessions {
  return {
    create: (tenant, session) => db.defer(insertSessions, rowOf(tenant, session)),

    delegate: (tenant, delegation) => db.transaction((tx) => insertDelegation(tx, tenant, delegation)),

    count: (tenant, application, counted, max) => {
      const statement = sql`select count(*) as count from (select 1 from sessions s where s.tenant_id = ${tenant}
        and ${countedBy[counted](application)} and s.expires_at > (select :now) limit ${max}) s`;
      return then(db.get<{ count: DbTime }>(statement), (row) => Number(row?.count));
    },

    authorize: (tenant, nonce, authorization) => {
      const spent = db.transaction((tx) => tx.returning<SpentRow>(spend(tenant, nonce, authorization)));
      return then(spent, ([row]) =>
        row
          ? { outcome: 'authorized' as const, session: row.id, expiresAt: endOf(row) }
          : failure(tenant, nonce, authorization.maxLifetime),
      );
    },

    list: (tenant, filter, window) =>
      listRows<SessionRow, Session>(
        db,
        { ...filtered(tenant, filter), selected: (owner) => columns(owner, 'r'), parse: toSession },
        window,
      ),

    end: async (tenant, id) => {
      const owner = new Param(tenant);
      const [row] = await db.returning<Parameters<typeof kindOf>[0]>(sql`
        delete from sessions where tenant_id = ${owner} and id in (${oneValid(owner, id)})
          returning application_id, authorized_by`);
      return row && kindOf(row);
    },

    spendUse: async (tenant, id) => {
      const open = await db.get<{ now: DbTime }>(sql`select :now as now from data_keys
        where tenant_id = ${tenant} and frozen = 0 ${rowLock(db, 'for key share')}`);
      if (!open) throw fail('unavailable', { expected: true });
      // The last use makes the delegation expire, so that it is absent everywhere. Citus accepts no `:now` in `case`.
      const spent = sql`update sessions set uses = uses + 1,
          expires_at = case when uses + 1 < max_uses then expires_at else ${Number(open.now)} end
        where tenant_id = ${tenant} and id = ${id} and uses < max_uses and expires_at > :now`;
      return (await db.run(spent)) > 0;
    },

    endAll: (tenant, subject) => endSubject(db, tenant, subject),

    setQuarantine: (tenant, id, at) => db.transaction((tx) => setQuarantine(tx, tenant, id, at)),
  };

  /** Finds out why the nonce was not spent. */
  async function failure(tenant: string, nonce: Uint8Array, longest: number): Promise<Authorized> {
    const owner = new Param(tenant);
    const row = await db.get<{ authorized_at: DbTime | null; latest: DbTime }>(sql`
      select sessions.authorized_at, ${latest(owner, new Param(longest))} as latest from sessions
        where ${byNonce(owner, nonce)} and sessions.expires_at > :now`);
    if (!row) return { outcome: 'unknown' };
    if (row.authorized_at !== null) return { outcome: 'used' };
    return { outcome: 'too_long', latest: Number(row.latest) };
  }
}

/**
 * The application is checked in a scalar subquery, so that PostgreSQL starts with the index of the nonce even while its
 * statistics are out of date.
 */
const byNonce = (tenant: Param, nonce: Uint8Array) =>
  clause`sessions.tenant_id = ${tenant} and sessions.nonce_digest = ${nonce} and (select 1 from applications a
    where a.tenant_id = ${tenant} and a.id = sessions.application_id and ${notExpired('a')}) = 1`;

/**
 * Spends the nonce. Without `expiresAt`, it has no condition about the expiry, because PostgreSQL would plan a statement with
 * an optional one again each time. `sessions` has no alias, because SQLite does not accept one in `returning`.
 */
function spend(tenant: string, nonce: Uint8Array, authorization: Authorization) {
  const { ceiling, unlimitedBy, trust, expiresAt, latest: end, maxLifetime, by } = authorization;
  const [permissions, rules] = toText(authorization);
  const [owner, subject] = [new Param(tenant), new Param(authorization.subject ?? null)];
  const [expiry, last] = [new Param(expiresAt ?? null), new Param(end ?? null)];
  const isSet = expiresAt !== undefined;
  const set = isSet
    ? clause`, expires_at = ${expiry}`
    : end !== undefined &&
      clause`, expires_at = case when sessions.expires_at < ${last} then sessions.expires_at else ${last} end`;
  return sql`update sessions set permissions = ${permissions}, rules = ${rules}, authorized_at = :now,
      authorized_by = ${by}, authorizer_digest = ${ceiling}, unlimited_by = ${unlimitedBy},
      unlimited_trust = ${trust}, subject = ${subject},
      subject_since = coalesce((select e.ended_at from ended_subjects e
        where e.tenant_id = ${owner} and e.subject = ${subject}), 0)${set}
    where ${byNonce(owner, nonce)} and sessions.authorized_at is null and sessions.expires_at > :now
      ${isSet && clause`and ${expiry} <= ${latest(owner, new Param(maxLifetime))}`}
    returning id, ${endsOf('sessions', owner)}`;
}

function expiryOf(session: string, application: string, tenant: Piece): Clause {
  return clause`select a.expires_at from applications a
    where a.tenant_id = ${tenant} and a.id = ${raw(`${session}.${application}`)}`;
}

/** The columns from which `endOf` computes the end of a session. */
function endsOf(session: string, tenant: Piece): Clause {
  const digest = raw(`${session}.authorizer_digest`);
  return clause`${raw(session)}.expires_at, (${expiryOf(session, 'application_id', tenant)}) as application_end,
    case when ${digest} is not null
      then (${expiryOf(session, 'authorized_by', tenant)}) end as authorizer_end,
    (select k.expires_at from application_keys k
      where k.tenant_id = ${tenant} and k.digest = ${digest}) as key_end`;
}

interface Ends {
  expires_at: DbTime;
  application_end: DbTime | null;
  authorizer_end: DbTime | null;
  key_end: DbTime | null;
}

interface SpentRow extends Ends {
  id: string;
}

/** The condition of the last one is that of its index. */
const countedBy: Record<CountedSessions, (application: string) => Clause> = {
  pending: (id) => clause`s.application_id = ${id} and s.authorized_at is null`,
  active: (id) => clause`s.application_id = ${id} and s.authorized_at is not null`,
  'long-rules': (id) => clause`s.authorized_by = ${id} and octet_length(s.rules) > 4096`,
};

/** A session ends with its application and, if it has a ceiling, with its authorizer and the key of the authorizer. */
export function endOf({ expires_at, application_end, authorizer_end, key_end }: Ends): number {
  const ends = [expires_at, application_end, authorizer_end, key_end].filter((end) => end !== null);
  return Math.min(...ends.map(Number));
}

async function setQuarantine(tx: Queries, tenant: string, id: string, at: number | undefined) {
  const owner = new Param(tenant);
  const row = await tx.get<SessionRow>(sql`
    select ${columns(owner)} from sessions s where s.tenant_id = ${owner} and s.id in (${oneValid(owner, id)})
      ${rowLock(tx, 'for no key update')}`);
  if (!row) return undefined;
  const before = toSession(row);
  if ((before.quarantined_at !== undefined) === (at !== undefined)) return { before, after: before };
  const quarantined_at = at ?? null;
  await tx.run(sessionTable.update({ tenant_id: tenant, id }, { quarantined_at }));
  return { before, after: toSession({ ...row, quarantined_at }) };
}

async function insertDelegation(tx: Queries, tenant: string, delegation: NewDelegation): Promise<number> {
  const { id, by, ceiling, subject, maxUses } = delegation;
  const since = await tx.get<{ ended_at: DbTime }>(sql`
    select ended_at from ended_subjects where tenant_id = ${tenant} and subject = ${subject ?? ''}`);
  const [permissions, rules] = toText(delegation);
  await tx.run(
    sessionTable.insert({
      ...rowOf(tenant, { ...delegation, applicationId: by }),
      ...{ permissions, rules, authorized_at: delegation.createdAt, authorized_by: by },
      ...{ authorizer_digest: ceiling, subject, subject_since: since?.ended_at ?? 0 },
      ...{ max_uses: maxUses, uses: maxUses === undefined ? null : 0 },
    }),
  );
  const owner = new Param(tenant);
  const ends = sql`select ${endsOf('s', owner)} from sessions s where s.tenant_id = ${owner} and s.id = ${id}`;
  return endOf((await tx.get<Ends>(ends)) as Ends);
}

export function toSession(row: SessionRow): Session {
  return {
    ...sessionTable.view(row),
    kind: kindOf(row),
    state: row.authorized_at === null ? 'pending' : 'active',
    ceiling: Boolean(row.ceiling),
    ...(row.max_uses !== null && { max_uses: row.max_uses, uses: Number(row.uses) }),
    bound: Boolean(row.bound),
    expires_at: timestamp(endOf(row)),
  };
}

/** Selects sessions whose key is valid. Uses subqueries instead of joins, so that no database scans whole tables. */
function filtered(tenant: string, { ids, application, authorizer, kind, state, subject }: SessionFilter) {
  const own = new Param(tenant);
  const owner = clause`select 1 from applications a where a.tenant_id = ${own} and a.id = x.application_id
    and ${notExpired('a')}`;
  const ceiling = clause`select 1 from application_keys k
    join applications c on c.tenant_id = ${own} and c.id = k.application_id
    where k.tenant_id = ${own} and k.digest = x.authorizer_digest and ${notExpired('k')} and ${notExpired('c')}`;
  return {
    table: 'sessions',
    valid: raw('r.expires_at > :now'),
    columns:
      'r.application_id, r.authorized_by, r.authorized_at, r.authorizer_digest, r.unlimited_by, r.unlimited_trust, r.subject, r.subject_since, r.expires_at',
    tenant,
    ids,
    ...(subject !== undefined && {
      index: {
        sql: clause`select i.id from sessions i where i.tenant_id = ${tenant} and i.subject = ${subject}`,
        id: 'i.id',
      },
    }),
    filter: all(
      'x.expires_at > :now',
      application && clause`x.application_id = ${application}`,
      authorizer && clause`x.authorized_by = ${authorizer}`,
      kind && `(x.authorized_by = x.application_id) is ${kind === 'delegation' ? '' : 'not '}true`,
      state && `x.authorized_at is ${state === 'pending' ? '' : 'not '}null`,
      notEnded('x', own),
    ),
    common: {
      columns: 'x.application_id, x.authorizer_digest',
      filter: clause`(${owner}) = 1 and (x.authorizer_digest is null or (${ceiling}) = 1)`,
    },
  };
}

/**
 * An SQL condition: the key in `unlimited_by` was not revoked as leaked, the issuer in `unlimited_trust` is trusted since
 * the session was authorized, and the sessions of the subject were not ended. `leaked_keys` expire a fixed time after
 * the end.
 */
function notEnded(session: string, tenant: Piece, table: TableName = raw): Clause {
  const column = (name: string) => raw(`${session}.${name}`);
  const leaked = (selected: string, digest: string) => clause`
    (select ${raw(`l.${selected}`)} from ${table('leaked_keys')} l
    where l.tenant_id = ${tenant} and l.digest = ${column(digest)})`;
  const subjectEnd = clause`(select e.ended_at from ${table('ended_subjects')} e
    where e.tenant_id = ${tenant} and e.subject = ${column('subject')})`;
  const lastUse = clause`${column('authorized_at')} + ${raw(String(longestSession))}`;
  return clause`${leaked('digest', 'unlimited_by')} is null
    and coalesce(${leaked('expires_at', 'unlimited_trust')} < ${lastUse}, true)
    and coalesce(${subjectEnd} <= ${column('subject_since')}, true)`;
}

/**
 * SQL for the latest expiry that a session may have: the end of its maximum lifetime, or the expiry of its application
 * if that is earlier.
 */
function latest(tenant: Param, longest: Param): Clause {
  const application = expiryOf('sessions', 'application_id', tenant);
  const lifetime = clause`sessions.created_at + ${longest}`;
  return clause`(select case when a.expires_at < ${lifetime} then a.expires_at else ${lifetime} end
    from (${application}) a)`;
}
