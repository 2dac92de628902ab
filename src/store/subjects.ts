/** Finds the grants of applications and sessions by id or name, for decisions and access reviews without their key. */

import type { DbTime, Executor } from '../db/db.ts';
import { type Clause, clause, list, Param, raw, sql } from '../db/statement.ts';
import { timestamp } from '../domain/common-fields.ts';
import { lazy } from '../domain/lazy.ts';
import { notExpired, type ReadAt, toEffectiveGrants, toGrants } from './applications.ts';
import type { SubjectScan } from './records.ts';
import { isValid, kindOf, ofCeiling, ownerAndAuthorizer } from './sessions.ts';
import type { Subject, SubjectBatch, Subjects } from './store.ts';

interface ApplicationRow extends ReadAt {
  id: string;
  name: string;
  permissions: string;
  quarantined_at: DbTime | null;
  /** Null if the row was filtered out. */
  rules: string | null;
  /** In scans: bytes of the rules that the statement compared. */
  size?: DbTime;
}

interface SessionRow extends ApplicationRow {
  application_id: string;
  authorized_by: string | null;
  subject: string | null;
  session_quarantined_at: DbTime | null;
  authorizer_quarantined_at: DbTime | null;
  ceiling_permissions: string | null;
  ceiling_rules: string | null;
  authorizer_id: string | null;
  authorizer_name: string | null;
}

const hasUniqueName = (tenant: Param) => clause`
  not exists (select 1 from applications o where o.tenant_id = ${tenant}
  and o.name = a.name and o.id <> a.id and ${notExpired('o')})`;

const sessionColumns = clause`:now as now, s.id, s.application_id, s.authorized_by, s.subject, a.name, s.permissions, a.quarantined_at,
  s.quarantined_at as session_quarantined_at, ${ofCeiling('permissions')} as ceiling_permissions,
  ${ofCeiling('rules')} as ceiling_rules, c.id as authorizer_id, c.name as authorizer_name`;
const authorizerQuarantine = raw('c.quarantined_at as authorizer_quarantined_at');

export function subjects(db: Executor): Subjects {
  return {
    applications: async (tenant, ids) => {
      const statement = sql`select a.id, a.name, a.permissions, a.quarantined_at, a.rules, :now as now from applications a
        where a.tenant_id = ${tenant} and a.id in ${list(ids)} and ${notExpired('a')}`;
      return (await db.all<ApplicationRow>(statement)).flatMap(toApplicationSubject);
    },

    named: async (tenant, names) => {
      const owner = new Param(tenant);
      const statement = sql`select a.id, a.name, a.permissions, a.quarantined_at, a.rules, :now as now from applications a
        where a.tenant_id = ${owner} and a.name in ${list(names)} and ${notExpired('a')}
          and ${hasUniqueName(owner)}`;
      return (await db.all<ApplicationRow>(statement)).flatMap(toApplicationSubject);
    },

    sessions: async (tenant, ids) => {
      const owner = new Param(tenant);
      const statement = sql`select ${sessionColumns}, ${authorizerQuarantine}, s.rules
        from sessions s ${ownerAndAuthorizer(owner)}
        where s.tenant_id = ${owner} and s.id in ${list(ids)} and ${isValid(owner)}`;
      return (await db.all<SessionRow>(statement)).flatMap(toSessionSubject);
    },

    scan: async (tenant, kind, scan) => {
      const statement = kind === 'application' ? scanApplications(tenant, scan) : scanSessions(tenant, scan);
      return toBatch(kind, await db.all<SessionRow>(statement), scan.limit);
    },

    lastUses: async (tenant, applications, permission, container) => {
      // Includes containers above, because uses of many containers are recorded for a container above them.
      const below = new Param(container);
      const statement = sql`select application_id, max(last_used_at) as last_used_at from application_uses
        where tenant_id = ${tenant} and application_id in ${list(applications)}
          and permission = ${permission} and (substr(container, 1, length(${below})) = ${below}
            or substr(${below}, 1, length(container)) = container)
        group by application_id`;
      const rows = await db.all<{ application_id: string; last_used_at: DbTime }>(statement);
      return new Map(rows.map((row) => [row.application_id, timestamp(Number(row.last_used_at))]));
    },
  };
}

/**
 * Whether permissions or rules may name the permission. For `like`, an underscore in it matches any character. So the query
 * may find too many rows, but not too few.
 */
function mayName(alias: string, permission: string | undefined): Clause {
  const pattern = new Param(permission === undefined ? '%' : `%"${permission}"%`);
  return clause`(${raw(alias)}.permissions like ${pattern} or ${raw(alias)}.rules like ${pattern})`;
}

/** `rules` is null if the application has expired, or if it cannot have the permission. */
function scanApplications(tenant: string, { permission, before, limit, uniqueNames }: SubjectScan) {
  const owner = new Param(tenant);
  return sql`select :now as now, a.id, a.name, a.permissions, a.quarantined_at, case when ${notExpired('a')}
      and ${mayName('a', permission)} ${uniqueNames === true && clause`and ${hasUniqueName(owner)}`}
    then a.rules end as rules, octet_length(a.rules) as size
  from applications a where a.tenant_id = ${owner} and a.id < ${before} order by a.id desc limit ${limit}`;
}

function scanSessions(tenant: string, { permission, limitedBy, before, limit }: SubjectScan) {
  const owner = new Param(tenant);
  const isLimited = limitedBy !== undefined && clause`and k.application_id = ${limitedBy}`;
  return sql`select ${sessionColumns}, ${isLimited ? raw('null as authorizer_quarantined_at') : authorizerQuarantine},
    case when ${isValid(owner)} and s.authorized_at is not null and ${mayName('s', permission)} ${isLimited}
    then s.rules end as rules, octet_length(s.rules) as size
  from (select * from sessions where tenant_id = ${owner} and id < ${before} order by id desc limit ${limit}) s
  ${ownerAndAuthorizer(owner)} order by s.id desc`;
}

function toBatch(kind: Subject['kind'], rows: SessionRow[], limit: number): SubjectBatch {
  const toSubject = kind === 'application' ? toApplicationSubject : toSessionSubject;
  return {
    subjects: rows.flatMap(toSubject),
    examined: rows.length,
    characters: rows.reduce(
      (sum, { size, ceiling_rules }) => sum + Number(size) + (ceiling_rules?.length ?? 0),
      0,
    ),
    next: rows.length < limit ? undefined : rows.at(-1)?.id,
  };
}

/** Parses the grants when they are needed: those of 100 rows take up to 50 ms, and the caller pauses between rows. */
function toApplicationSubject(row: ApplicationRow): Subject[] {
  const { id, name, permissions, quarantined_at, rules, now } = row;
  if (rules === null) return [];
  const grants = lazy(() => toEffectiveGrants({ permissions, rules, quarantined_at, now }));
  return [
    {
      kind: 'application',
      id,
      applicationId: id,
      name,
      get grants() {
        return grants();
      },
      ceiling: undefined,
      authorizer: undefined,
    },
  ];
}

function toSessionSubject(row: SessionRow): Subject[] {
  const { id, name, rules, authorizer_id, authorizer_name } = row;
  if (rules === null) return [];
  const { ceiling_permissions, ceiling_rules } = row;
  const kind = kindOf(row);
  const grants = lazy(() => toEffectiveGrants({ ...row, kind, rules }));
  const ceiling = lazy(() =>
    ceiling_permissions === null || ceiling_rules === null
      ? undefined
      : toGrants({ permissions: ceiling_permissions, rules: ceiling_rules, now: row.now }),
  );
  return [
    {
      kind,
      id,
      applicationId: row.application_id,
      name,
      subject: row.subject ?? undefined,
      get grants() {
        return grants();
      },
      get ceiling() {
        return ceiling();
      },
      authorizer:
        authorizer_id !== null && authorizer_name !== null
          ? { id: authorizer_id, name: authorizer_name }
          : undefined,
    },
  ];
}
