import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { Db, Queries } from '../../../src/store/engine/db.ts';
import { migrate, newestSchema } from '../../../src/store/engine/migrate.ts';
import { openPostgres } from '../../../src/store/engine/postgres.ts';
import { generousTimeout, openTestServer, postgres } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

/** Replaces the advisory lock functions with functions that fail like those of YugabyteDB before 2025.1. */
async function withoutAdvisoryLocks(url: string): Promise<string> {
  for (const name of ['pg_advisory_xact_lock', 'pg_advisory_xact_lock_shared', 'pg_try_advisory_xact_lock'])
    await runSql(
      url,
      `create function ${name}(bigint) returns boolean language plpgsql as
       $$ begin raise 'advisory locks are not supported' using errcode = '0A000'; end $$`,
    );
  const database = new URL(url).pathname.slice(1);
  await runSql(url, `alter database ${database} set search_path = public, pg_catalog`);
  return url;
}

describe('on a database without advisory locks', () => {
  let nodes: [Db, Db];
  beforeEach(async () => {
    const url = await withoutAdvisoryLocks(await postgres.createEmpty(''));
    nodes = [openPostgres(url, undefined, generousTimeout), openPostgres(url, undefined, generousTimeout)];
  });
  afterEach(async () => {
    for (const node of nodes) await node.close();
  });

  test('two nodes that start at the same time migrate once', async () => {
    const migrated = await Promise.all(nodes.map((node) => migrate(node)));
    expect(migrated.map(({ from }) => from).sort()).toEqual([0, newestSchema]);
  });

  test('exclusive work of two nodes does not overlap', async () => {
    await nodes[0].run('create table sums (sum integer)');
    await nodes[0].run('insert into sums values (0)');
    const raise = async (tx: Queries) => {
      const row = await tx.get<{ sum: number }>('select sum from sums');
      await tx.run('update sums set sum = $1', [Number(row?.sum) + 1]);
    };
    await Promise.all(Array.from({ length: 40 }, (_, at) => (nodes[at % 2] as Db).exclusively(raise)));
    expect(await nodes[0].get<object>('select sum from sums')).toEqual({ sum: 40 });
  });

  test('concurrent requests with the same idempotency key create one token', async () => {
    const url = await withoutAdvisoryLocks(await postgres.createMigrated(''));
    const servers = [await openTestServer(url), await openTestServer(url)] as const;
    const { key } = await servers[0].tenant();
    const request = { body: { container: '/c/', data: 'x' }, headers: { 'Idempotency-Key': 'same' } };
    const created = await Promise.all(
      Array.from({ length: 10 }, (_, at) =>
        servers[(at % 2) as 0 | 1].call('POST', '/tokens', { key, ...request }),
      ),
    );
    const ids = created
      .filter(({ status }) => status !== 409)
      .map(({ status, body }) => `${status} ${body.id}`);
    expect(new Set(ids)).toEqual(new Set([expect.stringMatching(/^201 /)]));
    expect(await runSql<object>(url, 'select count(*)::int as tokens from tokens')).toEqual([{ tokens: 1 }]);
    for (const server of servers) await server.close();
  });
});
