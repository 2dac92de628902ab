import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Db, Queries } from '../../src/db/db.ts';
import { migrate, newestSchema } from '../../src/db/migrate.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { leaseDuration, withLease } from '../../src/db/postgres/postgres-lease.ts';
import { fewConnections, generousTimeout, openTestServer, postgres } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';
import { until } from '../support/until.ts';

const functions = ['pg_advisory_xact_lock', 'pg_try_advisory_xact_lock'];

/** Replaces the functions by some that fail like those of YugabyteDB before 2025.1. */
async function shadowFunctions(url: string): Promise<string> {
  for (const name of functions)
    await runSql(
      url,
      `create function ${name}(bigint) returns boolean language plpgsql as
       $$ begin raise 'advisory locks are not supported' using errcode = '0A000'; end $$`,
    );
  await runSql(url, `alter database ${nameOf(url)} set search_path = public, pg_catalog`);
  return url;
}

/** Returns the URL of a role that owns the database, but may not call one of the functions. */
async function revokeFunction(url: string, name: string): Promise<string> {
  const role = `role_${crypto.randomUUID().slice(0, 8)}`;
  await runSql(url, `create role ${role} login`);
  await runSql(url, `alter database ${nameOf(url)} owner to ${role}`);
  await runSql(url, `revoke execute on function ${name}(bigint) from public`);
  return url.replace('postgres@', `${role}@`);
}

const nameOf = (url: string) => new URL(url).pathname.slice(1);

const cases: [reason: string, prepare: (url: string) => Promise<string>][] = [
  ['the database does not support them', shadowFunctions],
  ['the role may not call one function', (url) => revokeFunction(url, functions[0] as string)],
  ['the role may not call the other function', (url) => revokeFunction(url, functions[1] as string)],
];

describe.each(cases)('without advisory locks, because %s', (reason, prepare) => {
  let url: string;
  let nodes: [Db, Db];
  const open = () => openPostgres(url, undefined, generousTimeout, 4);
  beforeEach(async () => {
    url = await prepare(await postgres.createEmpty(''));
    nodes = [open(), open()];
  });
  afterEach(async () => {
    for (const node of nodes) await node.close();
  });

  test('exclusive work of two nodes does not overlap', async () => {
    await nodes[0].run('create table sums (sum integer)');
    await nodes[0].run('insert into sums values (0)');
    const raise = async (tx: Queries) => {
      const row = await tx.get<{ sum: number }>('select sum from sums');
      await tx.run('update sums set sum = $1', [Number(row?.sum) + 1]);
    };
    await Promise.all(Array.from({ length: 20 }, (_, at) => (nodes[at % 2] as Db).exclusively(raise)));
    expect(await nodes[0].get<object>('select sum from sums')).toEqual({ sum: 20 });
  });

  // Nodes do the same, whichever function they may not call.
  if (reason.includes('the other function')) return;

  test('two nodes that start at the same time migrate once', async () => {
    const migrated = await Promise.all(nodes.map((node) => migrate(node)));
    expect(migrated.filter(({ from }) => from === 0)).toHaveLength(1);
    expect(migrated.map(({ to }) => to)).toEqual([newestSchema, newestSchema]);
    expect(await runSql<object>(url, 'select 1 from maintenance_lock')).toEqual([]);
  });

  test('concurrent requests with the same idempotency key create one token', async () => {
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

describe('the lease of the maintenance lock', () => {
  const start = Date.parse('2030-01-01T00:00:00Z');
  let url: string;
  let now: number;
  /** How often a node has read the clock: at least once per attempt to take the lock. */
  let reads: number;
  const opened: Db[] = [];
  beforeEach(async () => {
    url = await shadowFunctions(await postgres.createEmpty(''));
    now = start;
    reads = 0;
    await runSql(url, 'create table sums (sum integer)');
    await runSql(url, 'insert into sums values (1)');
  });
  afterEach(async () => {
    for (const node of opened.splice(0)) await node.close();
  });

  function connect(clock: () => number): Db {
    const node = openPostgres(url, clock, generousTimeout, fewConnections);
    opened.push(node);
    return node;
  }
  const movedClock = () => {
    reads++;
    return now;
  };
  const rows = () => runSql<{ sum: number }>(url, 'select sum from sums order by sum');
  const lease = async () =>
    Number(
      (await runSql<{ until: string }>(url, 'select lease_until as until from maintenance_lock'))[0]?.until,
    );

  test('another node takes the lock of a killed one when the lease has expired', async () => {
    const script = join(import.meta.dirname, '../support/hold-lock.ts');
    const holder = Bun.spawn([process.execPath, '--no-env-file', script, url, String(start)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await holder.stdout.getReader().read();
    holder.kill('SIGKILL');
    await holder.exited;
    now = start + leaseDuration - 1;
    let isTaken = false;
    const taking = connect(movedClock).exclusively(async (tx) => {
      isTaken = true;
      return tx.run('insert into sums values (2)');
    });
    await until('three attempts to take the lock', async () => (await lease()) > 0 && reads >= 3);
    expect(isTaken).toBe(false);
    now++;
    expect(await taking).toBe(1);
    expect(await rows()).toEqual([{ sum: 1 }, { sum: 2 }]);
  });

  test('the changes of a node that has lost the lock are rolled back', async () => {
    const [stalled, other] = [connect(() => start), connect(() => start + leaseDuration)];
    const working = stalled.exclusively(async (tx) => {
      await tx.run('insert into sums values (2)');
      await other.exclusively(async (tx) => tx.run('insert into sums values (3)'));
    });
    await expect(working).rejects.toThrow('another one has taken it');
    expect(await rows()).toEqual([{ sum: 1 }, { sum: 3 }]);
    expect(await other.exclusively(async (tx) => tx.run('delete from sums'))).toBe(2);
  });

  test('a node renews its lease while it works, and releases the lock if the work fails', async () => {
    const node = connect(movedClock);
    const working = withLease(
      node.transaction,
      Number.POSITIVE_INFINITY,
      async () => {
        expect(await lease()).toBe(start + leaseDuration);
        now += 1000;
        await until('the lease is renewed', async () => (await lease()) === now + leaseDuration);
        throw new Error('failed');
      },
      1,
    );
    await expect(working).rejects.toThrow('failed');
    expect(await runSql<object>(url, 'select 1 from maintenance_lock')).toEqual([]);
  });

  test('the error names the functions to grant if the role may not create the table either', async () => {
    const role = `role_${crypto.randomUUID().slice(0, 8)}`;
    await runSql(url, `create role ${role} login`);
    await runSql(url, 'revoke create on schema public from public');
    const node = openPostgres(
      url.replace('postgres@', `${role}@`),
      undefined,
      generousTimeout,
      fewConnections,
    );
    opened.push(node);
    const working = node.exclusively(async (tx) => tx.get('select 1'));
    await expect(working).rejects.toThrow('grant it execute on the functions');
  });
});
