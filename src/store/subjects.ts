/** Finds the grants of applications and sessions by id or name, for decisions and access reviews without their key. */

import type { DbTime, Executor } from '../db/db.ts';
import { Params } from '../db/sql.ts';
import { timestamp } from '../domain/common-fields.ts';
import { lazy } from '../domain/lazy.ts';
import { notExpired, toEffectiveGrants, toGrants } from './applications.ts';
import { isValid, kindOf, ofCeiling, ownerAndAuthorizer } from './sessions.ts';
import type { Subject, SubjectBatch, Subjects } from './store.ts';

interface ApplicationRow {
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

const hasUniqueName = (
  tenant: string,
) => `not exists (select 1 from applications o where o.tenant_id = ${tenant}
  and o.name = a.name and o.id <> a.id and ${notExpired('o')})`;

const sessionColumns = `s.id, s.application_id, s.authorized_by, s.subject, a.name, s.permissions, a.quarantined_at,
  s.quarantined_at as session_quarantined_at, ${ofCeiling('permissions')} as ceiling_permissions,
  ${ofCeiling('rules')} as ceiling_rules, c.id as authorizer_id, c.name as authorizer_name`;
const authorizerQuarantine = 'c.quarantined_at as authorizer_quarantined_at';

export function subjects(db: Executor): Subjects {
  return {
    applications: async (tenant, ids) => {
      const params = new Params();
      const sql = `select a.id, a.name, a.permissions, a.quarantined_at, a.rules from applications a
        where a.tenant_id = ${params.add(tenant)} and a.id in ${params.list(ids)} and ${notExpired('a')}`;
      return (await db.all<ApplicationRow>(sql, params.values)).flatMap(toApplicationSubject);
    },

    named: async (tenant, names) => {
      const params = new Params();
      const owner = params.add(tenant);
      const sql = `select a.id, a.name, a.permissions, a.quarantined_at, a.rules from applications a
        where a.tenant_id = ${owner} and a.name in ${params.list(names)} and ${notExpired('a')}
          and ${hasUniqueName(owner)}`;
      return (await db.all<ApplicationRow>(sql, params.values)).flatMap(toApplicationSubject);
    },

    sessions: async (tenant, ids) => {
      const params = new Params();
      const owner = params.add(tenant);
      const sql = `select ${sessionColumns}, ${authorizerQuarantine}, s.rules
        from sessions s ${ownerAndAuthorizer(owner)}
        where s.tenant_id = ${owner} and s.id in ${params.list(ids)} and ${isValid(owner)}`;
      return (await db.all<SessionRow>(sql, params.values)).flatMap(toSessionSubject);
    },

    scan: async (tenant, kind, { permission, limitedBy, before, limit, uniqueNames }) => {
      const sql = kind === 'application' ? scanApplications(uniqueNames) : scanSessions(limitedBy);
      // For `like`, an underscore in a permission matches any character. So the query may find too many rows, but not
      // too few.
      const pattern = permission === undefined ? '%' : `%"${permission}"%`;
      const values = [tenant, before, limit, pattern, ...(limitedBy === undefined ? [] : [limitedBy])];
      return toBatch(kind, await db.all<SessionRow>(sql, values), limit);
    },

    lastUses: async (tenant, applications, permission, container) => {
      const params = new Params();
      // Includes containers above, because uses of many containers are recorded for a container above them.
      const below = params.add(container);
      const sql = `select application_id, max(last_used_at) as last_used_at from application_uses
        where tenant_id = ${params.add(tenant)} and application_id in ${params.list(applications)}
          and permission = ${params.add(permission)} and (substr(container, 1, length(${below})) = ${below}
            or substr(${below}, 1, length(container)) = container)
        group by application_id`;
      const rows = await db.all<{ application_id: string; last_used_at: DbTime }>(sql, params.values);
      return new Map(rows.map((row) => [row.application_id, timestamp(Number(row.last_used_at))]));
    },
  };
}

/** `rules` is null if the application has expired, or if neither its permissions nor its rules match the pattern $4. */
const scanApplications = (uniqueNames = false) => `
  select a.id, a.name, a.permissions, a.quarantined_at, case when ${notExpired('a')}
      and (a.permissions like $4 or a.rules like $4) ${uniqueNames ? `and ${hasUniqueName('$1')}` : ''}
    then a.rules end as rules, octet_length(a.rules) as size
  from applications a where a.tenant_id = $1 and a.id < $2 order by a.id desc limit $3`;

const scanSessions = (limitedBy: string | undefined) => `
  select ${sessionColumns}, ${limitedBy === undefined ? authorizerQuarantine : 'null as authorizer_quarantined_at'},
    case when ${isValid('$1')} and s.authorized_at is not null
      and (s.permissions like $4 or s.rules like $4) ${limitedBy === undefined ? '' : 'and k.application_id = $5'}
    then s.rules end as rules, octet_length(s.rules) as size
  from (select * from sessions where tenant_id = $1 and id < $2 order by id desc limit $3) s
  ${ownerAndAuthorizer('$1')} order by s.id desc`;

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
  const { id, name, permissions, quarantined_at, rules } = row;
  if (rules === null) return [];
  const grants = lazy(() => toEffectiveGrants({ permissions, rules, quarantined_at }));
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
      : toGrants({ permissions: ceiling_permissions, rules: ceiling_rules }),
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
