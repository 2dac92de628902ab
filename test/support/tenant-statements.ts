/**
 * Fails on a statement about a tenant's rows that does not name the tenant, unless it is marked with `everyTenant`. All
 * test stores and servers run through this.
 */

import type { Db, Queries } from '../../src/db/db.ts';
import { migrations } from '../../src/db/migrate.ts';
import { everyTenantMark } from '../../src/db/sql.ts';
import { boundOf, type Statement } from '../../src/db/statement.ts';

const schema = migrations.flatMap(({ sql, only }) => [sql, ...Object.values(only ?? {})]).join(';\n');
const tables = Array.from(schema.matchAll(/^create table (\w+) \((.*?)^\)/gms))
  .filter(([, name, columns]) => !name!.startsWith('audit') && /^ {2}tenant_id /m.test(columns!))
  .map(([, name]) => name);
const ofTenant = new RegExp(`\\b(?:from|join|update|into) (?:${tables.join('|')})\\b`, 'g');

/** Each table in a statement is restricted to a tenant, and one of them to the tenant in a parameter. */
function namesTenant(sql: string): boolean {
  if (sql.includes(everyTenantMark)) return true;
  const used = sql.match(ofTenant)?.length ?? 0;
  if (used === 0) return true;
  const compared = sql.match(/\btenant_id\b/g)?.length ?? 0;
  return compared >= used && (/\btenant_id = \$\d/.test(sql) || /\binsert into\b/.test(sql));
}

const checked = new Map<string, boolean>();

function check(statement: Statement): void {
  const [sql] = boundOf(statement);
  const known = checked.get(sql) ?? namesTenant(sql);
  checked.set(sql, known);
  if (!known) throw new Error(`a statement does not name the tenant: ${sql}`);
}

/** A shared transaction does not know that such a statement has changed rows. */
function checkRead(statement: Statement): void {
  const [sql] = boundOf(statement);
  if (/\breturning\b/.test(sql))
    throw new Error(`a statement changes rows, so \`returning\` must run it: ${sql}`);
  check(sql);
}

function checkedQueries<Q extends Queries>(queries: Q): Q {
  return {
    ...queries,
    get: <R>(statement: Statement) => {
      checkRead(statement);
      return queries.get<R>(statement);
    },
    all: <R>(statement: Statement) => {
      checkRead(statement);
      return queries.all<R>(statement);
    },
    run: (statement: Statement) => {
      check(statement);
      return queries.run(statement);
    },
    returning: <R>(statement: Statement) => {
      check(statement);
      return queries.returning<R>(statement);
    },
    lookup: (lookup, ...wanted) => {
      check(lookup.one);
      return queries.lookup(lookup, ...wanted);
    },
  };
}

export function checkTenants(db: Db): Db {
  return {
    ...checkedQueries(db),
    transaction: (work, ...rest) => db.transaction((tx) => work(checkedQueries(tx)), ...rest),
    change: (work, ...rest) => db.change((tx) => work(checkedQueries(tx)), ...rest),
  };
}

/** Wraps the database, and what sends the statements of a tenant to its worker on a Citus cluster. */
export function wrapped(db: Db, wrap: (db: Db) => Db): Db {
  const { of } = db;
  return { ...wrap(db), ...(of && { of: (tenant) => wrapped(of(tenant), wrap) }) };
}
