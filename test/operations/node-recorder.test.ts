import { beforeEach, describe, expect, test } from 'bun:test';
import { nodesWithoutKey } from '../../src/cli/commands/master-key.ts';
import type { Db } from '../../src/db/db.ts';
import { type NodeRecorder, nodeRecorder } from '../../src/operations/node-recorder.ts';
import { type Nodes, nodeLifetime } from '../../src/store/nodes.ts';
import { type Log, makeLog } from '../../src/telemetry/log.ts';
import { freePort } from '../support/postgres.ts';
import { databases, openTestServer, testMasterKey } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

describe.each(databases)('the record of a node on %s', async (_, database) => {
  let ids: string[];
  let listening: { url?: string };
  let others: readonly string[];
  /** Milliseconds by which the clock of the node is ahead. */
  let ahead: number;
  let lines: string[];
  let log: Log;
  let node: NodeRecorder;
  let jumps: string[];
  /** Milliseconds for which each record waits for the database, before and after the database reads its clock. */
  let delays: [before: number, after: number];
  const data = await openTestStore(database);
  beforeEach(async () => {
    await data.runSql('delete from nodes');
    [ids, listening, others, ahead, lines, jumps, delays] = [['old'], {}, [], 0, [], [], [0, 0]];
    const now = () => data.clock.now() + ahead;
    log = makeLog({ level: 'info', asText: false, now, write: (line) => lines.push(line) });
    node = recorder({ ids: () => ids }, now);
  });
  const active = () => data.maintenance.nodes.active();
  /** Waits for the database as `delays` say. */
  const slow = (): Nodes => ({
    ...data.maintenance.nodes,
    record: async (record) => {
      data.clock.advance(delays[0]);
      const time = await data.maintenance.nodes.record(record);
      data.clock.advance(delays[1]);
      return time;
    },
  });
  const recorder = (masters: { ids(): string[] }, now = data.clock.now) =>
    nodeRecorder(slow(), masters, {
      config: { databaseUrl: 'sqlite:', witness: undefined, memory: 2 ** 28, workers: 1 },
      log,
      now,
      clock: data.clock.monotonic,
      observer: { clockJumped: (direction) => jumps.push(direction) },
      listening,
      positions: {
        setNodes: (urls) => {
          others = urls;
        },
      },
    });

  test.each(['PORT', 'SALLYPORT_METRICS_PORT'])('is removed if %s is in use', async (variable) => {
    const running = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    const { nodes } = running.app.maintenance;
    const before = await nodes.active();
    const { port } = new URL(running.url);
    const second = openTestServer(running.config.databaseUrl, { [variable]: port });
    await expect(second).rejects.toThrow(`${variable}: cannot listen on 127.0.0.1:${port}`);
    expect([before.length, await nodes.active()]).toEqual([1, before]);
  });

  test('is removed and the database is closed, at every part of the start that fails', async () => {
    const running = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    const { nodes } = running.app.maintenance;
    const before = await nodes.active();
    const failed = new Error('cannot be read');
    /** Opens a second server, whose call number `at` of the database fails. Returns the number of calls. */
    const open = async (at: number) => {
      let [calls, isClosed] = [0, false];
      const through = (db: Db): Db => {
        const failing = (name: 'all' | 'change' | 'transaction' | 'exclusively') => {
          const method = db[name] as (...input: unknown[]) => unknown;
          return (...input: unknown[]) => {
            if (++calls === at) throw failed;
            return method(...input);
          };
        };
        const names = ['all', 'change', 'transaction', 'exclusively'] as const;
        const close = () => {
          isClosed = true;
          return db.close();
        };
        return { ...db, ...Object.fromEntries(names.map((name) => [name, failing(name)])), close };
      };
      const opening = openTestServer(
        running.config.databaseUrl,
        { SALLYPORT_MASTER_KEY: testMasterKey },
        through,
      );
      const opened = await opening.catch((error: unknown) => expect(error).toBe(failed));
      const counted = calls;
      await opened?.close();
      expect([at, isClosed, await nodes.active()]).toEqual([at, true, before]);
      return counted;
    };
    const steps = await open(0);
    for (let at = 1; at <= steps; at++) await open(at);
  });

  test('has its name and master keys, is renewed in time, and expires', async () => {
    const start = data.clock.now();
    await node.record();
    expect(await active()).toMatchObject([
      { name: expect.stringContaining(`(process ${process.pid})`), masterKeys: ['old'], seenAt: start },
    ]);
    data.clock.advance(14_999);
    await node.record();
    expect(await active()).toMatchObject([{ seenAt: start }]);
    data.clock.advance(1);
    await node.record();
    expect(await active()).toMatchObject([{ seenAt: start + 15_000 }]);
    data.clock.advance(nodeLifetime);
    expect(await active()).toHaveLength(1);
    data.clock.advance(1);
    expect(await active()).toEqual([]);
    const rows = () => data.runSql('select name from nodes');
    await recorder({ ids: () => [] }).record();
    expect(await rows()).toHaveLength(2);
    data.clock.advance(86_400_000);
    await recorder({ ids: () => [] }).record();
    expect(await rows()).toHaveLength(2);
  });

  test('has its URL as soon as it listens, and other nodes get to know it', async () => {
    await node.record();
    listening.url = 'http://10.0.0.5:8080';
    await node.record();
    await recorder({ ids: () => [] }).record();
    expect(others).toEqual([listening.url]);
  });

  test('has its URL before the node listens, so that an old primary knows each node that served', async () => {
    const server = await openTestServer(database, { PORT: String(freePort()) });
    expect(await server.app.maintenance.nodes.active()).toMatchObject([{ url: server.url }]);
  });

  test('has new master keys immediately, and none if they cannot be read', async () => {
    await node.record();
    ids = ['new', 'old'];
    await node.record();
    expect(await active()).toMatchObject([{ masterKeys: ['new', 'old'] }]);
    const broken = {
      ids: () => {
        throw new Error('cannot be read');
      },
    };
    await recorder(broken).record();
    expect((await active()).map(({ masterKeys }) => masterKeys)).toContainEqual([]);
  });

  test('of a stopped node delays a rotation until it expires, which is reported', async () => {
    await node.record();
    data.clock.advance(5000);
    const waits: unknown[] = [];
    const lacking = await nodesWithoutKey(data.maintenance.nodes, 'new', (nodes, seconds) => {
      waits.push([nodes.map(({ masterKeys }) => masterKeys), seconds]);
      data.clock.advance(nodeLifetime);
    });
    expect(lacking).toEqual([]);
    expect(waits).toEqual([[[['old']], (nodeLifetime - 5000) / 1000]]);
  });

  test('is removed when the node stops', async () => {
    await node.record();
    await node.remove();
    expect(await active()).toEqual([]);
  });

  test('says when the clock of the machine is off, once, and when it is correct again', async () => {
    for (const offset of [0, 2000, -5000, -7000, 1000]) {
      ahead = offset;
      data.clock.advance(60_000);
      await node.record();
      expect(node.clockOffset()).toBe(offset / 1000);
    }
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      {
        level: 'warn',
        message: 'the clock of this machine differs from that of the database',
        seconds_ahead: -5,
      },
      { level: 'info', message: 'the clock of this machine is correct again', seconds_ahead: 1 },
    ]);
  });

  test('says when the clock that decides on expiry was set, in both directions, but not if the database is slow', async () => {
    await node.record();
    for (const [jump, delay] of [
      [0, [0, 0]],
      [2000, [0, 0]],
      [0, [60_000, 0]],
      [0, [0, 60_000]],
      [10_000, [0, 0]],
      [-3_600_000, [0, 500]],
    ] as const) {
      data.clock.advance(15_000);
      data.clock.jump(jump);
      delays = [...delay];
      await node.record();
    }
    expect(lines.filter((line) => line.includes('differs from'))).toEqual([]);
    const logged = lines.map((line) => JSON.parse(line)).filter(({ message }) => message.includes('was set'));
    expect(logged).toMatchObject([
      { level: 'warn', message: 'the clock was set forward', seconds: 10 },
      { level: 'warn', message: 'the clock was set back', seconds: 3600 },
    ]);
    expect(jumps).toEqual(['forward', 'back']);
  });
});
