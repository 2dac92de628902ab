import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { rmSync } from 'node:fs';
import { SQL } from 'bun';
import { type Db, DbUnavailable, type Queries, type Transaction } from '../../src/db/db.ts';
import { groupCommit } from '../../src/db/group-commit.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { openSqlite } from '../../src/db/sqlite/sqlite.ts';
import { fail } from '../../src/domain/error.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { type Database, databases, generousTimeout, postgres } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';

let folder: string;
let url: string;
let db: Db;

async function open(database: Database, timeout = generousTimeout): Promise<void> {
  folder = temporaryFolder();
  url = await database.createMigrated(folder);
  db = url.startsWith('sqlite:') ? openSqlite(url.slice(7), Date.now) : openPostgres(url, undefined, timeout);
  await db.run('create table things (name text primary key, count integer not null)');
}

async function close(): Promise<void> {
  await db.close();
  rmSync(folder, { recursive: true, force: true });
}

const add = (tx: Queries, name: string) => tx.run(['insert into things values ($1, 0)', [name]]);
const names = async () =>
  (await runSql<{ name: string }>(url, 'select name from things order by name')).map(({ name }) => name);
const refused = new Error('refused');

describe.each(databases)('on %s, changes that wait at the same time', (_name, database) => {
  beforeEach(() => open(database));
  afterEach(close);

  test.each([
    ['one after the other', false],
    ['concurrently', true],
  ])('are all committed when they resolve, %s', async (_how, alongside) => {
    const made = Array.from({ length: 200 }, (_, at) => {
      const work = async (tx: Transaction) => (await add(tx, `n${at}`)) && at;
      return db.change(work, alongside ? Symbol('new') : undefined);
    });
    expect(await Promise.all(made)).toEqual(Array.from({ length: 200 }, (_, at) => at));
    expect(await names()).toHaveLength(200);
  });

  test('see earlier changes, so that no update is lost', async () => {
    await db.change((tx) => Promise.resolve(add(tx, 'sum')));
    const raise = async (tx: Transaction) => {
      const locked = db.dialect === 'postgres' ? 'for update' : '';
      const row = await tx.get<{ count: number }>(`select count from things where name = 'sum' ${locked}`);
      await tx.run(["update things set count = $1 where name = 'sum'", [Number(row?.count) + 1]]);
    };
    await Promise.all(Array.from({ length: 50 }, () => db.change(raise)));
    const rows = await runSql<{ count: number }>(url, 'select count from things');
    expect(rows.map(({ count }) => count)).toEqual([50]);
  });

  test.each([
    ['an error', async () => Promise.reject(refused)],
    ['a failed statement', async (tx: Queries) => add(tx, 'taken')],
    [
      'an error after a failed statement',
      async (tx: Queries) => {
        await Promise.resolve()
          .then(() => add(tx, 'taken'))
          .catch(() => {});
        throw refused;
      },
    ],
  ])('are rolled back alone after %s, and the others are committed', async (_what, last) => {
    await db.change(async (tx) => add(tx, 'taken'));
    const outcomes = await Promise.allSettled([
      db.change(async (tx) => add(tx, 'before')),
      db.change(async (tx) => {
        await add(tx, 'half');
        return last(tx);
      }),
      db.change(async (tx) => add(tx, 'half')),
      db.change(async (tx) => add(tx, 'after'), Symbol('new')),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect(await names()).toEqual(['after', 'before', 'half', 'taken']);
  });

  test('run once if the failed ones have changed nothing', async () => {
    let runs = 0;
    const make = async (tx: Transaction) => {
      runs++;
      return add(tx, 'one');
    };
    const look = async (tx: Transaction) => {
      await tx.all('select name from things');
      await tx.run("delete from things where name = 'unknown'");
      throw fail('not_found');
    };
    const changes = [db.change(make), db.change(look), db.change(look, Symbol('new'))];
    const outcomes = await Promise.allSettled(changes);
    expect(outcomes).toMatchObject([{ value: 1 }, { status: 'rejected' }, { status: 'rejected' }]);
    expect(runs).toBe(1);
  });

  test('are rolled back if they fail while one of their statements may still change data', async () => {
    const both = async (tx: Transaction) => {
      await Promise.all([tx.get('select count(*) as count from things'), add(tx, 'half')]);
      throw refused;
    };
    await Promise.allSettled([db.change(both), db.change(async (tx) => add(tx, 'one'))]);
    expect(await names()).toEqual(['one']);
  });

  test('deferred writes are flushed in one batch before the commit', async () => {
    const written: string[][] = [];
    const write = async (tx: Queries, all: readonly string[]) => {
      written.push([...all]);
      for (const name of all) await tx.run(['update things set count = 1 where name = $1', [name]]);
    };
    const change = async (tx: Transaction, name: string) => {
      await add(tx, name);
      tx.defer(write, name);
    };
    await Promise.all(['one', 'two', 'three'].map((name) => db.change((tx) => change(tx, name))));
    expect(written).toEqual([['one', 'two', 'three']]);
    expect(await runSql(url, 'select name from things where count = 1')).toHaveLength(3);
  });

  test('drop their deferred writes if they fail, even without other writes', async () => {
    const write = async (tx: Queries, all: readonly string[]) => {
      for (const name of all) await add(tx, name);
    };
    const outcomes = await Promise.allSettled([
      db.change(async (tx) => tx.defer(write, 'left by one')),
      db.change(async (tx) => {
        tx.defer(write, 'left by two');
        throw refused;
      }),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(await names()).toEqual(['left by one']);
  });

  test('are rolled back if a deferred write fails, and the others are committed', async () => {
    const write = async (tx: Queries, all: readonly string[]) => {
      for (const name of all) await add(tx, name);
    };
    const change = (name: string, left: string) =>
      db.change(async (tx) => {
        await add(tx, name);
        tx.defer(write, left);
      });
    await db.change(async (tx) => add(tx, 'taken'));
    const outcomes = await Promise.allSettled([
      change('one', 'left by one'),
      change('two', 'taken'),
      change('three', 'left by three'),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(await names()).toEqual(['left by one', 'left by three', 'one', 'taken', 'three']);
  });
});

describe('on PostgreSQL, changes that wait at the same time', () => {
  beforeEach(() => open(postgres));
  afterEach(close);

  const transaction = async (tx: Queries) =>
    (await tx.get<{ id: string }>('select txid_current()::text as id'))?.id;

  test('share a transaction', async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => db.change(transaction)));
    expect(new Set(ids).size).toBeLessThan(5);
  });

  test.each([
    ['the one that failed comes last', Symbol('new'), ['a', 'c', 'b']],
    ['those of the same entity come last', 'entity', ['c', 'a', 'b']],
  ])('run one after another when they are repeated after a rollback, and %s', async (_, entity, order) => {
    const steps: string[] = [];
    const change = (name: string) =>
      db.change(
        async (tx) => {
          await add(tx, name);
          steps.push(`${name} begins`);
          await tx.get('select count(*) as count from things');
          steps.push(`${name} ends`);
          if (name === 'b') throw refused;
        },
        name === 'b' || (name === 'a' && entity === 'entity') ? entity : Symbol('new'),
      );
    const outcomes = await Promise.allSettled(['a', 'b', 'c'].map(change));
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    const repeated = order.flatMap((name) => [`${name} begins`, `${name} ends`]);
    expect(steps.slice(-6)).toEqual(repeated);
  });

  test('share no transaction with changes of another tenant', async () => {
    const tenants = Array.from({ length: 30 }, (_, at) => `tenant ${at % 15}`);
    const ids = await Promise.all(tenants.map((tenant) => db.change(transaction, Symbol('new'), tenant)));
    expect(new Set(ids).size).toBe(15);
    expect(ids.slice(15)).toEqual(ids.slice(0, 15));
  });

  test('do not deadlock, in any order of locks', async () => {
    const other = openPostgres(url, undefined, generousTimeout);
    const rows = Array.from({ length: 8 }, (_, at) => `row ${at}`);
    for (const row of rows) await db.change(async (tx) => add(tx, row));
    let runs = 0;
    const raise = (on: Db, row: string) =>
      on.change((tx) => {
        runs++;
        return tx.run(['update things set count = count + 1 where name = $1', [row]]);
      }, row);
    const both = [...rows, ...rows.toReversed()];
    const asked = Array.from({ length: 400 }, (_, at) =>
      raise(at % 2 === 0 ? db : other, both[(at * 7) % 16] as string),
    );
    expect(await Promise.all(asked)).toEqual(Array(400).fill(1));
    expect(runs).toBe(400);
    const [{ sum }] = (await runSql<{ sum: string }>(url, 'select sum(count) as sum from things')) as [
      { sum: string },
    ];
    expect(Number(sum)).toBe(400);
    await other.close();
  });
});

describe('on PostgreSQL, changes that time out', () => {
  afterEach(close);

  test('are not delayed for long by one that waits for a lock', async () => {
    await open(postgres, 6000);
    await db.change(async (tx) => add(tx, 'held'));
    const other = new SQL(url, { max: 1 });
    const outcomes = await other.begin(async (held) => {
      await held.unsafe("select 1 from things where name = 'held' for update");
      return Promise.allSettled([
        db.change(async (tx) => tx.run("update things set count = 1 where name = 'held'")),
        ...['one', 'two', 'three'].map((name) => db.change(async (tx) => add(tx, name))),
      ]);
    });
    await other.close();
    expect(outcomes).toMatchObject([
      { status: 'rejected', reason: expect.any(DbUnavailable) },
      { value: 1 },
      { value: 1 },
      { value: 1 },
    ]);
    expect(await names()).toEqual(['held', 'one', 'three', 'two']);
  });

  /** Starts as many transactions as may run at a time. They end when `gate` resolves, so later changes wait. */
  async function fillLanes(change: Db['change'], gate: Promise<void>): Promise<Promise<unknown>[]> {
    const running: Promise<unknown>[] = [];
    for (let lane = 0; lane < 4; lane++) {
      const begun = Promise.withResolvers<void>();
      const work = async () => {
        begun.resolve();
        await gate;
      };
      const ended = change(work).catch(() => {});
      running.push(ended);
      await Promise.race([begun.promise, ended]);
    }
    return running;
  }

  /** Waits until no transaction uses the table. */
  const idle = () => runSql(url, 'alter table things add column idle integer');

  test('a change that waited too long is rejected, and later ones are committed', async () => {
    await open(postgres);
    let now = 0;
    const limits = { maxBatch: 32, maxInFlight: 4, maxQueueTime: 500 };
    const enqueue = groupCommit({
      transaction: db.transaction,
      pipelined: true,
      perTenant: true,
      ...limits,
      now: () => now,
    });
    const change: Db['change'] = (work, entity) => enqueue(work, entity);
    const gate = Promise.withResolvers<void>();
    const running = await fillLanes(change, gate.promise);
    const late = change(async (tx) => add(tx, 'late')).catch((error: unknown) => error);
    now = 300;
    const soon = change(async (tx) => add(tx, 'soon'));
    now = 501;
    gate.resolve();
    expect(await late).toBeInstanceOf(DbUnavailable);
    expect(await soon).toBe(1);
    await Promise.all(running);
    expect(await names()).toEqual(['soon']);
  });

  test('a shared transaction is rolled back if one of its changes times out', async () => {
    await open(postgres, 1000);
    const [gate, givenUp] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const running = await fillLanes(db.change, gate.promise);
    const changes = ['one', 'two'].map((name) =>
      db.change(async (tx) => {
        await add(tx, name);
        await givenUp.promise;
      }),
    );
    gate.resolve();
    for (const { status } of await Promise.allSettled(changes)) expect(status).toBe('rejected');
    givenUp.resolve();
    await Promise.all(running);
    await idle();
    expect(await names()).toEqual([]);
  });

  test('a change that runs alone is rolled back if its deadline passes', async () => {
    await open(postgres, 1000);
    const givenUp = Promise.withResolvers<void>();
    const change = db.transaction(async (tx) => {
      await add(tx, 'late');
      await givenUp.promise;
    });
    await expect(change).rejects.toThrow(DbUnavailable);
    givenUp.resolve();
    await idle();
    expect(await names()).toEqual([]);
  });
});

test.each([
  ['that take long', 4],
  ['during which the clock is set back', -4],
])('changes %s share a transaction for a few milliseconds only, and stay in order', async (_, step) => {
  let [time, transactions] = [0, 0];
  const done: number[] = [];
  const enqueue = groupCommit({
    transaction: async (work) => {
      transactions++;
      return work({} as Queries);
    },
    maxBatch: 100,
    maxInFlight: 1,
    pipelined: false,
    now: () => time,
  });
  const change = (number: number) =>
    enqueue(async () => {
      time += step;
      done.push(number);
    }, undefined);
  await Promise.all(Array.from({ length: 10 }, (_, number) => change(number)));
  expect(done).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(transactions).toBeGreaterThan(3);
  expect(transactions).toBeLessThan(7);
});
