/** Labels of applications. Applications contain them as JSON; the table application_labels is an index of them. */
import type { Labels } from '../domain/labels.ts';
import type { Filtered } from './bounded-list.ts';
import type { Executor, Queries } from './engine/db.ts';
import { inserter, type Params } from './engine/sql.ts';

/** Sorted by name. No labels are stored as null. */
export function labelText(labels: Labels = {}): string | null {
  const entries = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.length > 0 ? JSON.stringify(Object.fromEntries(entries)) : null;
}

const insertRows = inserter<ReturnType<typeof rowsOf>[number]>('application_labels', {
  tenant_id: 'uuid',
  name: 'text',
  value: 'text',
  application_id: 'uuid',
});

function rowsOf(tenant: string, application: string, labels: Labels = {}) {
  return Object.entries(labels).map(([name, value]) => ({
    tenant_id: tenant,
    name,
    value,
    application_id: application,
  }));
}

export function labelIndex({ dialect }: Pick<Executor, 'dialect'>) {
  return {
    /** Replaces the index entries of an application whose row is locked. */
    replace: async (
      tx: Queries,
      tenant: string,
      application: string,
      before: Labels | undefined,
      after: Labels | undefined,
    ): Promise<void> => {
      if (labelText(before) === labelText(after)) return;
      const sql = 'delete from application_labels where tenant_id = $1 and application_id = $2';
      if (before) await tx.run(sql, [tenant, application]);
      await insertRows[dialect](tx, rowsOf(tenant, application, after));
    },
  };
}

type Label = readonly [name: string, value: string];

/** The index of the applications with this label, for `boundedList`. */
export function withLabel(tenant: string, [name, value]: Label): Filtered<unknown>['index'] {
  return {
    sql: (params) => `select l.application_id from application_labels l
      where l.tenant_id = ${params.add(tenant)} and l.name = ${params.add(name)} and l.value = ${params.add(value)}`,
    id: 'l.application_id',
  };
}

/** A condition on the application `x`. */
export function hasLabel(params: Params, [name, value]: Label): string {
  return `(select 1 from application_labels l where l.tenant_id = x.tenant_id and l.name = ${params.add(name)}
    and l.value = ${params.add(value)} and l.application_id = x.id) = 1`;
}
