/** What is done to a database that was put back to an earlier state, before anybody is served from it. */
import { type Entry, restoreOperation } from '../domain/audit.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Grants } from '../domain/grant.ts';
import { isNarrower, type Revocation, revocations, type Told, takesAway } from '../domain/revocation.ts';
import { type ApplicationRow, alive, applicationColumns, toGrants, toText } from './applications.ts';
import { insertEntries } from './audit.ts';
import type { ChainKeys } from './chain.ts';
import type { Db, Queries } from './db.ts';
import type { MasterKeys } from './keyring.ts';
import { type Verdict, verifyExport } from './verify.ts';
import { Params } from './where.ts';

/** An Application that can do again what was taken away from it. */
export interface Revived {
  readonly tenant_id: string;
  readonly application_id: string;
  readonly name: string;
  /** Whether the whole Application was deleted. */
  readonly deleted: boolean;
  /** The keys that were taken away and work again. */
  readonly keys: readonly { readonly id: string; readonly ending: string }[];
  /** What its grants were in the end, where they let it do less. */
  readonly grants?: Grants;
}

export interface Recovered {
  readonly sessions: number;
  readonly replies: number;
}

export interface Recovery {
  /**
   * Reads an export of the audit log, and answers what it tells of that this database does not know: what was
   * taken away since, and is back. Nothing is read out of an export that is not sound, or of another log.
   */
  revived(lines: AsyncIterable<string>): Promise<{ verdict: Verdict; revived: Revived[] }>;
  /**
   * Ends every Session, and with them every nonce, and forgets every answer that was kept for a repeated
   * request; takes out what is named; and tells the audit log. All of it, or nothing.
   */
  recover(at: number, story: Entry['difference'], takeOut: readonly Revived[]): Promise<Recovered>;
}

export function recovery(db: Db, masters: MasterKeys, chainKeys: () => Awaitable<ChainKeys>): Recovery {
  return {
    revived: async (lines) => {
      const told: Told[] = [];
      const verdict = await verifyExport(lines, {
        masters,
        log: await chainKeys(),
        onRow: (row) => {
          if (takesAway(row)) told.push(row);
        },
      });
      if (!verdict.ok) return { verdict, revived: [] };
      const found: Revived[] = [];
      for (const one of revocations(await unknownTo(db, told))) {
        const revived = await lookUp(db, one);
        if (revived) found.push(revived);
      }
      return { verdict, revived: found };
    },

    recover: async (at, story, takeOut) => {
      const keys = await chainKeys();
      return db.exclusively(async (tx) => {
        const sessions = await tx.run('delete from sessions');
        const replies = await tx.run('delete from idempotency');
        const what = {
          operation: restoreOperation,
          result: 'success' as const,
          ...(story && { difference: story }),
        };
        await insertEntries(tx, keys, [{ at, ...operator, ...what }]);
        for (const one of takeOut) await remove(tx, keys, at, one);
        return { sessions, replies };
      });
    },
  };
}

const operator = { actor: { kind: 'operator' as const }, from: {} };
const several = 500;

/** Those that this audit log has no row of. Every change has one, so what it does not know has not happened here. */
async function unknownTo(db: Db, told: readonly Told[]): Promise<Told[]> {
  const known = new Set<string>();
  for (let start = 0; start < told.length; start += several) {
    const params = new Params();
    const ids = params.list(told.slice(start, start + several).map(({ id }) => id));
    const rows = await db.all<{ id: string }>(`select id from audit where id in ${ids}`, params.values);
    for (const { id } of rows) known.add(id);
  }
  return told.filter(({ id }) => !known.has(id));
}

async function lookUp(db: Db, revocation: Revocation): Promise<Revived | undefined> {
  const { tenant, application, deleted, grants } = revocation;
  const row = await db.get<ApplicationRow>(
    `select ${applicationColumns('a')} from applications a
     where a.tenant_id = $1 and a.id = $2 and ${alive('a')}`,
    [tenant, application],
  );
  if (!row) return undefined;
  const there = await db.all<{ id: string; ending: string }>(
    'select id, ending from application_keys where tenant_id = $1 and application_id = $2 order by id',
    [tenant, application],
  );
  const all = deleted || revocation.keys === 'all';
  const keys = there.filter(({ id }) => all || revocation.keys.includes(id));
  const now = toGrants(row);
  const narrower = !deleted && isNarrower(now, grants);
  if (!deleted && keys.length === 0 && !narrower) return undefined;
  const named = { tenant_id: tenant, application_id: application, name: row.name, deleted, keys };
  return narrower ? { ...named, grants: { ...now, ...grants } } : named;
}

async function remove(tx: Queries, chain: ChainKeys, at: number, revived: Revived): Promise<void> {
  const { tenant_id: tenantId, application_id: id, deleted, keys, grants } = revived;
  const entity = { kind: 'application', id };
  const record = (operation: string, difference?: Entry['difference']) =>
    insertEntries(tx, chain, [
      { tenantId, at, ...operator, operation, entity, result: 'success', ...(difference && { difference }) },
    ]);
  if (deleted) {
    await tx.run('delete from applications where tenant_id = $1 and id = $2', [tenantId, id]);
    return record('application.delete');
  }
  for (const { id: key, ending } of keys) {
    await tx.run('delete from application_keys where tenant_id = $1 and application_id = $2 and id = $3', [
      tenantId,
      id,
      key,
    ]);
    await record('application.key.delete', { keys: { from: { id: key, ending } } });
  }
  if (!grants) return;
  await tx.run('update applications set permissions = $3, rules = $4 where tenant_id = $1 and id = $2', [
    tenantId,
    id,
    ...toText(grants),
  ]);
  const to = JSON.parse(JSON.stringify(grants));
  await record('application.update', { permissions: { to: to.permissions }, rules: { to: to.rules } });
}
