import { then } from '../domain/awaitable.ts';
import { timestamp } from '../domain/field.ts';
import { insertApplication } from './applications.ts';
import type { Db, Moment, Queries } from './db.ts';
import type { NewTenant, Tenants } from './store.ts';

export function tenants(db: Db): Tenants {
  return {
    create: (tenant) => db.transaction((tx) => insertTenant(tx, tenant)),

    createFirst: (tenant, prepare) =>
      db.exclusively(async (tx) => {
        if (await tx.get('select 1 from tenants limit 1')) return false;
        prepare?.();
        await insertTenant(tx, tenant);
        return true;
      }),

    list: () =>
      then(
        db.all<{ id: string; name: string; created_at: Moment }>(
          'select id, name, created_at from tenants order by id',
        ),
        (rows) => rows.map((row) => ({ ...row, created_at: timestamp(Number(row.created_at)) })),
      ),
  };
}

async function insertTenant(
  tx: Queries,
  { id, name, createdAt, application, key }: NewTenant,
): Promise<void> {
  await tx.run('insert into tenants (id, name, created_at) values ($1, $2, $3)', [id, name, createdAt]);
  await insertApplication(tx, id, application, key);
}
