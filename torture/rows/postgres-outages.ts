/** Outages of PostgreSQL under load: no connections left, no space for WAL, and a failover behind PgBouncer. */
import { cpSync, mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { SQL } from 'bun';
import { pgbouncers, startPgbouncer } from '../../test/support/pgbouncer.ts';
import { Client } from '../client.ts';
import { Cluster, changeOwner } from '../crash/cluster.ts';
import { mountDisk } from '../crash/disk.ts';
import { brokenInvariants } from '../crash/invariants.ts';
import { type Ledger, ledgerOf } from '../crash/ledger.ts';
import { firstKey, type KillableNode, startNode } from '../crash/node.ts';
import { operatorChecks } from '../crash/operator.ts';
import { databaseTimeout } from '../retry.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const postgresOutages: Row = {
  name: 'postgres-outages',
  requirement:
    'PostgreSQL without free connections, without space for WAL, and failing over behind PgBouncer, under load: only 503 during the outage, served again without a restart of the node, 0 acknowledged changes lost',
  databases: ['PostgreSQL'],
  run,
};

const lanes = 4;

/** A database, and what happens to it. */
interface Outage {
  readonly databaseUrl: string;
  /** Begins the outage, and waits until it affects the node. */
  begin(node: KillableNode, ledger: Ledger): Promise<void>;
  end(): Promise<void>;
}

interface Seen {
  readonly answered: number;
  readonly refused: number;
  readonly wrong: readonly string[];
}

async function run(context: Context): Promise<Outcome> {
  const failures: string[] = [];
  const skipped: string[] = [];
  let [outaged, acknowledged, cutOff] = [0, 0, 0];
  for (const [name, prepare] of Object.entries(outages)) {
    const own = { ...context, folder: join(context.folder, name.replaceAll(' ', '-')) };
    const outage = await prepare(own);
    if (typeof outage === 'string') {
      skipped.push(`${name}, because ${outage}`);
      continue;
    }
    const { answered, refused, wrong } = await survive(own, outage);
    outaged += 1;
    acknowledged += answered;
    cutOff += refused;
    failures.push(...wrong.map((each) => `${name}: ${each}`));
  }
  return {
    figures: {
      outages: outaged,
      'changes acknowledged': acknowledged,
      'cut off or refused': cutOff,
      'acknowledged changes lost, or wrong responses': failures.length,
      ...(skipped.length > 0 && { 'not tried': skipped.join('; ') }),
    },
    failures: failures.slice(0, 10),
  };
}

/** Each prepares an outage in its own folder, or returns why it cannot. */
const outages: Record<string, (context: Context) => Promise<Outage | string>> = {
  'no connections left': withoutConnections,
  'no space for WAL': withoutWal,
  'failover behind PgBouncer': behindPgbouncer,
};

async function survive(context: Context, { databaseUrl, begin, end }: Outage): Promise<Seen> {
  const program = [await context.executable()];
  const node = await startNode(context, { databaseUrl, command: program, env: databaseTimeout(context) });
  const key = firstKey(context);
  const ledger = ledgerOf(context);
  let stopped = false;
  const writing = ledger.write(node.url, lanes, () => stopped);
  await ledger.more(context.sized(400, 40));
  await begin(node, ledger);
  const wrong = await askMeanwhile(node, key);
  await end();
  await ledger.more(context.sized(400, 40));
  stopped = true;
  await writing;
  await ledger.settle(node.url);
  wrong.push(...(await ledger.broken(node.url, 'all')), ...ledger.wrong);
  await node.stop();
  wrong.push(...(await brokenInvariants(databaseUrl)));
  wrong.push(...(await operatorChecks(context, databaseUrl, program)));
  return { answered: ledger.answered, refused: ledger.unanswered, wrong };
}

/** Requests during the outage. `/livez` must succeed, and no key may be accepted. */
async function askMeanwhile({ url }: KillableNode, key: string): Promise<string[]> {
  const client = new Client(url);
  const expected = { '/livez': 200, '/readyz': 503, '/applications/key': 503 };
  const wrong: string[] = [];
  for (const [path, status] of Object.entries(expected)) {
    // On a slow machine, the connection is closed before the time limit of the database has passed.
    const answer = await client.call('GET', path, { key }).catch(() => undefined);
    const isCut = answer === undefined && path !== '/livez';
    if (!isCut && answer?.status !== status) wrong.push(`${path} returned ${answer?.status}, not ${status}`);
  }
  client.close();
  return wrong;
}

/** Waits until this many more changes were refused. */
async function refused(ledger: Ledger, count: number): Promise<void> {
  const end = ledger.unanswered + count;
  while (ledger.unanswered < end) await Bun.sleep(5);
}

/** Other programs take every connection when the server has closed those of the node. */
async function withoutConnections(context: Context): Promise<Outage> {
  const cluster = await openCluster(context, 'cluster', { max_connections: '20' });
  const others: SQL[] = [];
  const release = () => Promise.all(others.splice(0).map((each) => each.close()));
  context.defer(release);
  const take = async () => {
    const sql = new SQL(cluster.url(), { max: 1 });
    const pid = await sql.unsafe('select pg_backend_pid() as pid').then(
      ([row]) => row.pid as number,
      () => undefined,
    );
    if (pid === undefined) await sql.close();
    else others.push(sql);
    return pid;
  };
  return {
    databaseUrl: cluster.url(),
    begin: async ({ pid }, ledger) => {
      const own = await take();
      // The node could otherwise be faster than the other programs.
      process.kill(pid, 'SIGSTOP');
      const close = `select pg_terminate_backend(pid, 5000) from pg_stat_activity
        where backend_type = 'client backend' and pid <> ${own}`;
      await others[0]?.unsafe(close);
      while ((await take()) !== undefined);
      process.kill(pid, 'SIGCONT');
      await refused(ledger, context.sized(100, 20));
    },
    end: async () => void (await release()),
  };
}

/** The server stops itself when it cannot write WAL. It is started again when there is space. */
async function withoutWal(context: Context): Promise<Outage | string> {
  mkdirSync(context.folder);
  const cluster = await Cluster.make(join(context.folder, 'cluster'));
  const disk = mountDisk(context, join(context.folder, 'small'), 32_768);
  if (!disk) return 'only root can mount a small disk';
  const wal = join(cluster.data, 'pg_wal');
  cpSync(wal, join(disk.folder, 'wal'), { recursive: true });
  renameSync(wal, `${wal}-before`);
  symlinkSync(join(disk.folder, 'wal'), wal);
  changeOwner(disk.folder);
  context.defer(() => cluster.kill());
  await cluster.start();
  return {
    databaseUrl: cluster.url(),
    begin: async (_, ledger) => {
      disk.leave(1024);
      while (!cluster.said.includes('PANIC')) await Bun.sleep(5);
      await refused(ledger, context.sized(100, 20));
    },
    end: async () => {
      disk.grow(process.pid);
      await cluster.kill();
      await cluster.start();
    },
  };
}

/** The primary is killed, its synchronous standby promoted, and PgBouncer pointed to it. */
async function behindPgbouncer(context: Context): Promise<Outage | string> {
  const path = pgbouncers[0]?.[1];
  if (!path) return 'PgBouncer is not installed';
  const primary = await openCluster(context, 'primary');
  const standby = await primary.copy(join(context.folder, 'standby'));
  context.defer(() => standby.kill());
  await standby.start();
  await primary.waitForStandby();
  const pooler = await startPgbouncer(path, primary.port, { server_login_retry: '1' });
  context.defer(() => pooler.stop());
  return {
    databaseUrl: `postgres://postgres@127.0.0.1:${pooler.port}/postgres`,
    begin: async (_, ledger) => {
      await primary.kill();
      await refused(ledger, context.sized(20, 4));
    },
    end: async () => {
      await standby.promote();
      pooler.setServer(standby.port);
    },
  };
}

async function openCluster(context: Context, name: string, settings = {}): Promise<Cluster> {
  mkdirSync(context.folder);
  const cluster = await Cluster.make(join(context.folder, name));
  context.defer(() => cluster.kill());
  await cluster.start(settings);
  return cluster;
}
