import { then } from '../domain/awaitable.ts';
import { alive, toText } from './applications.ts';
import { keepRow, type Moment, type Room } from './db.ts';
import type { Authorized, Sessions } from './store.ts';

export function sessions(db: Room): Sessions {
  return {
    create: async (tenant, session) => {
      const made = await db.run(
        `insert into sessions (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules,
           created_at, expires_at)
         select a.tenant_id, a.id, $3, $4, $5, '[]', '[]', $6, $7
         from applications a where a.tenant_id = $1 and a.id = $2 and ${alive('a')} ${keepRow(db, 'a')}`,
        [
          tenant,
          session.applicationId,
          session.id,
          session.key,
          session.nonce,
          session.createdAt,
          session.expiresAt,
        ],
      );
      return made > 0;
    },

    waiting: (tenant, application, most) => {
      const some = `select 1 from sessions s where s.tenant_id = $1 and s.application_id = $2
        and s.authorized_at is null and s.expires_at > (select :now) limit $3`;
      const sql = `select count(*) as count from (${some}) s`;
      return then(db.get<{ count: Moment }>(sql, [tenant, application, most]), (row) => Number(row?.count));
    },

    authorize: async (tenant, nonce, { ceiling, expiresAt, longest, by, ...grants }) => {
      const spend = `update sessions as s set permissions = $3, rules = $4, authorized_at = :now,
           authorized_by = $5, authorizer_digest = $6, expires_at = coalesce($7, s.expires_at)
         where s.nonce_digest = $1 and s.tenant_id = $2 and s.authorized_at is null and s.expires_at > :now
           and (cast($7 as bigint) is null or $7 <= ${latest('s')})
         returning id`;
      const params = [nonce, tenant, ...toText(grants), by, ceiling ?? null, expiresAt ?? null, longest];
      const spent = await db.transaction(async (tx) => tx.get<{ id: string }>(spend, params));
      return spent ? { outcome: 'authorized', session: spent.id } : refusal(tenant, nonce, longest);
    },
  };

  /** Why nothing was spent, read afterwards. */
  async function refusal(tenant: string, nonce: Uint8Array, longest: number): Promise<Authorized> {
    const row = await db.get<{ authorized_at: Moment | null; latest: Moment }>(
      `select s.authorized_at, ${latest('s', '$3')} as latest from sessions s
       where s.nonce_digest = $1 and s.tenant_id = $2 and s.expires_at > :now`,
      [nonce, tenant, longest],
    );
    if (!row) return { outcome: 'unknown' };
    if (row.authorized_at !== null) return { outcome: 'used' };
    return { outcome: 'too_long', latest: Number(row.latest) };
  }
}

/** The latest moment at which a Session may end: after the longest lifetime, or with its Application. */
function latest(alias: string, longest = '$8'): string {
  const application = `select a.expires_at from applications a
    where a.tenant_id = ${alias}.tenant_id and a.id = ${alias}.application_id`;
  const lifetime = `${alias}.created_at + ${longest}`;
  return `(select case when a.expires_at < ${lifetime} then a.expires_at else ${lifetime} end
    from (${application}) a)`;
}
