import type { ApplicationKey } from '../domain/application.ts';
import { then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/common-fields.ts';
import { insertKey, type KeyRow, lockApplication, notExpired } from './applications.ts';
import type { DbTime, Executor } from './engine/db.ts';
import type { Keys } from './store.ts';

const columns = 'id, ending, created_by, created_at, last_used_at';
const ofApplication = 'application_keys where tenant_id = $1 and application_id = $2';

export function applicationKeys(db: Executor): Keys {
  const lock = lockApplication(db);

  return {
    list: (tenant, application) =>
      then(
        db.all<KeyRow>(
          `select ${columns} from ${ofApplication}
             and exists (select 1 from applications a where a.tenant_id = $1 and a.id = $2 and ${notExpired('a')})
           order by id desc`,
          [tenant, application],
        ),
        (rows) => rows.map(toKey),
      ),

    create: (tenant, application, change, make) =>
      db.transaction(async (tx) => {
        const owner = await lock(tx, tenant, application);
        if (!owner) return undefined;
        const counted = await tx.get<{ count: DbTime }>(`select count(*) as count from ${ofApplication}`, [
          tenant,
          application,
        ]);
        const key = make(owner, Number(counted?.count));
        return { created: toKey(await insertKey(tx, tenant, application, key, change)), key };
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
  };
}
