import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { Db, Queries } from '../../src/db/db.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { duringTransaction, untilBlocked } from '../support/postgres-locks.ts';
import { generousTimeout, openTestServer, postgres, type TestServer } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';

describe('changes that conflict with other transactions', () => {
  let url: string;
  let db: Db;
  beforeEach(async () => {
    url = await postgres.createEmpty('');
    db = openPostgres(url, undefined, generousTimeout);
    await db.run('create table things (name text primary key, count integer not null)');
    await runSql(url, 'create sequence attempts');
  });
  afterEach(() => db.close());

  const add = async (tx: Queries, name: string) => tx.run(['insert into things values ($1, 0)', [name]]);
  const names = async () =>
    (await runSql<{ name: string }>(url, 'select name from things order by name')).map(({ name }) => name);

  /** Makes the first five inserts of `name` fail with a serialization conflict, or their commits if it is deferred. */
  async function failFirst(name: string, timing: '' | 'deferrable initially deferred'): Promise<void> {
    await runSql(
      url,
      `create function conflict() returns trigger language plpgsql as
       $$ begin if nextval('attempts') <= 5 then raise 'conflict' using errcode = '40001'; end if; return null; end $$`,
    );
    await runSql(
      url,
      `create constraint trigger conflict after insert on things ${timing}
       for each row when (new.name = '${name}') execute function conflict()`,
    );
  }

  test.each([
    ['at a statement', ''],
    ['at the commit', 'deferrable initially deferred'],
  ] as const)('are repeated with the whole shared transaction: a conflict %s', async (_when, timing) => {
    await failFirst('n3', timing);
    let runs = 0;
    const changes = Array.from({ length: 8 }, (_, at) =>
      db.change(async (tx) => {
        runs++;
        await add(tx, `n${at}`);
        return at;
      }, Symbol('new')),
    );
    expect(await Promise.all(changes)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(await names()).toEqual(['n0', 'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7']);
    expect(runs).toBe(6 * 8);
  });

  test('are repeated alone: statements, transactions and exclusive work', async () => {
    await failFirst('x', '');
    const works = [
      async () => db.run("insert into things values ('x', 0)"),
      () => db.transaction((tx) => add(tx, 'x')),
      () => db.exclusively((tx) => add(tx, 'x')),
    ];
    for (const work of works) {
      await runSql(url, "select setval('attempts', 1, false)");
      expect(await work()).toBe(1);
      await runSql(url, 'delete from things');
    }
  });

  test('are repeated after a deadlock', async () => {
    await runSql(url, "insert into things values ('a', 0), ('b', 0)");
    const raise = (name: string) => `update things set count = count + 1 where name = '${name}'`;
    const { change } = await duringTransaction(url, raise('b'), async (run) => {
      // Only the transaction of the change looks for a deadlock.
      await run("set local deadlock_timeout = '1h'");
      const locked = Promise.withResolvers<void>();
      let attempts = 0;
      const change = db.change(async (tx) => {
        await tx.run(raise('a'));
        locked.resolve();
        if (attempts++ === 0) await untilBlocked(url);
        await tx.run(raise('b'));
      });
      await locked.promise;
      await run(raise('a'));
      return { change };
    });
    await change;
    expect(await runSql<object>(url, 'select count from things')).toEqual([{ count: 2 }, { count: 2 }]);
  });
});

test('concurrent changes on two nodes succeed on a database with serializable isolation', async () => {
  const url = await postgres.createMigrated('');
  const name = new URL(url).pathname.slice(1);
  await runSql(url, `alter database ${name} set default_transaction_isolation = serializable`);
  const nodes = [await openTestServer(url), await openTestServer(url)] as const;
  const { key } = await nodes[0].tenant();
  const web = await nodes[0].application(key, { type: 'public', permissions: ['token:create'] });
  const backend = await nodes[0].application(key, { permissions: ['session:authorize', 'token:create'] });
  const changes = async (node: TestServer, at: number) => {
    const session = await node.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: session.body.nonce, permissions: ['token:create'] };
    const authorized = await node.call('POST', '/sessions/authorize', { key: backend.key, body: grant });
    const token = { container: '/c/', data: { at } };
    const created = await node.call('POST', '/tokens', { key: backend.key, body: token });
    const renamed = { name: `name ${at}`, permissions: ['token:create'] };
    const updated = await node.call('PUT', `/applications/${web.id}`, { key, body: renamed });
    return [session, authorized, created, updated].map(({ status }) => status);
  };
  const statuses = await Promise.all(
    Array.from({ length: 100 }, (_, at) => changes(nodes[(at % 2) as 0 | 1], at)),
  );
  expect(new Set(statuses.map(String))).toEqual(new Set(['201,204,201,200']));
  for (const node of nodes) {
    await node.flush();
    await node.close();
  }
});
