import type { ApplicationKey } from '../domain/application.ts';
import { then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import { lockApplication, notExpired } from './applications.ts';
import type { Executor } from './engine/db.ts';
import { countKeys, expireKeys, insertKey, type KeyRow } from './key-rows.ts';
import type { Keys } from './store.ts';

const columns = 'id, ending, created_by, created_at, last_used_at, expires_at';
const ofApplication = `application_keys as k where k.tenant_id = $1 and k.application_id = $2 and ${notExpired('k')}`;

export function applicationKeys(db: Executor): Keys {
  const lock = lockApplication(db);

  return {
    list: (tenant, application) =>
      then(
        db.all<KeyRow>(
          `select k.id, k.ending, k.created_by, k.created_at, k.last_used_at,
             case when a.expires_at is null or k.expires_at <= a.expires_at then k.expires_at end as expires_at
           from application_keys k
           join applications a on a.tenant_id = k.tenant_id and a.id = k.application_id
           where k.tenant_id = $1 and k.application_id = $2 and ${notExpired('k')} and ${notExpired('a')}
           order by k.id desc`,
          [tenant, application],
        ),
        (rows) => rows.map(toKey),
      ),

    create: (tenant, application, change, make, { expiresAt, oldKeysExpireAt } = {}) =>
      db.transaction(async (tx) => {
        const owner = await lock(tx, tenant, application);
        if (!owner) return undefined;
        const key = make(owner, await countKeys(tx, tenant, application));
        if (oldKeysExpireAt !== undefined) await expireKeys(tx, tenant, application, oldKeysExpireAt);
        return { created: toKey(await insertKey(tx, tenant, application, key, change, expiresAt)), key };
      }),

    delete: (tenant, application, id, check) =>
      db.transaction(async (tx) => {
        const owner = await lock(tx, tenant, application);
        if (!owner) return undefined;
        check(owner);
        const row = await tx.get<KeyRow>(`delete from ${ofApplication} and id = $3 returning ${columns}`, [
          tenant,
          application,
          id,
        ]);
        return row && toKey(row);
      }),
  };
}

function toKey(row: KeyRow): ApplicationKey {
  return {
    id: row.id,
    ending: row.ending,
    ...(row.created_by !== null && { created_by: row.created_by }),
    created_at: timestamp(Number(row.created_at)),
    ...(row.last_used_at !== null && { last_used_at: timestamp(Number(row.last_used_at)) }),
    ...(row.expires_at !== null && { expires_at: timestamp(Number(row.expires_at)) }),
  };
}
