/** Kills the node during writes with SIGKILL. On PostgreSQL, sometimes kills the database, too. */
import { join } from 'node:path';
import { Cluster } from '../crash/cluster.ts';
import { brokenInvariants } from '../crash/invariants.ts';
import { type Ledger, ledgerOf } from '../crash/ledger.ts';
import { type KillableNode, startNode } from '../crash/node.ts';
import { operatorChecks } from '../crash/operator.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const kill: Row = {
  name: 'kill',
  requirement: 'kill -9 during writes: 0 acknowledged writes lost, 0 half-applied, integrity check clean',
  databases: allDatabases,
  run,
};

/** On PostgreSQL, one in this many kills includes the database. */
const withDatabase = 20;
const lanes = 6;
/** The node is killed after fewer responses than this. */
const mostAnswers = 16;
/** Kills between two checks of what was written since the last check. */
const between = 10;

async function run(context: Context): Promise<Outcome> {
  const kills = context.sized(200, 4);
  const program = [await context.executable()];
  const { url: databaseUrl, crash } = await mortalDatabase(context);
  const start = () => startNode(context, { databaseUrl, command: program });
  let node = await start();
  const ledger = ledgerOf(context);
  const lost: string[] = [];
  const halves: string[] = [];
  const unsound: string[] = [];
  for (let killed = 1; killed <= kills; killed++) {
    await killWhileWriting(node, ledger, context.random.below(mostAnswers));
    if (killed % withDatabase === 0) await crash();
    node = await start();
    await ledger.settle(node.url);
    if (killed % between !== 0) continue;
    lost.push(...(await ledger.broken(node.url, 'new')));
    halves.push(...(await brokenInvariants(databaseUrl)));
  }
  lost.push(...(await ledger.broken(node.url, 'all')));
  halves.push(...(await brokenInvariants(databaseUrl)));
  await node.kill();
  unsound.push(...(await operatorChecks(context, databaseUrl, program)));
  return {
    figures: {
      kills,
      'writes acknowledged': ledger.answered,
      'cut off': ledger.unanswered,
      'acknowledged writes lost': lost.length,
      'half-applied': halves.length,
      'integrity complaints': unsound.length,
    },
    failures: [...lost, ...halves, ...unsound, ...ledger.wrong].slice(0, 10),
  };
}

export interface MortalDatabase {
  readonly url: string;
  /** Kills the database server, or one of those of a Citus cluster, and restarts it. */
  crash(): Promise<void>;
}

/** `before` is a command prefix of the server until its first crash. */
export async function mortalDatabase(
  context: Context,
  before: readonly string[] = [],
): Promise<MortalDatabase> {
  if (context.database.name === 'SQLite')
    return { url: await context.freshDatabase(), crash: async () => {} };
  const distributed = await context.citus();
  if (distributed) {
    const { coordinator, workers } = distributed;
    return { url: coordinator.url(), crash: () => restart(context.random.one([coordinator, ...workers])) };
  }
  const cluster = await Cluster.make(join(context.folder, 'cluster'));
  context.defer(() => cluster.kill());
  await cluster.start({}, before);
  return { url: cluster.url(), crash: () => restart(cluster) };
}

async function restart(cluster: Cluster): Promise<void> {
  await cluster.kill();
  await cluster.start();
}

async function killWhileWriting(node: KillableNode, ledger: Ledger, answers: number): Promise<void> {
  let dead = false;
  const writing = ledger.write(node.url, lanes, () => dead);
  await ledger.more(answers);
  await node.kill();
  dead = true;
  await writing;
}
