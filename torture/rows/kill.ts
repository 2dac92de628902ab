/** kill -9 in the middle of writes. On PostgreSQL, now and then the database as well. */
import { join } from 'node:path';
import { Cluster } from '../crash/cluster.ts';
import { Ledger } from '../crash/ledger.ts';
import { firstKey, type MortalNode, startNode } from '../crash/node.ts';
import { complaints } from '../crash/operator.ts';
import { halfDone } from '../crash/soundness.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const kill: Row = {
  name: 'kill',
  must: 'kill -9 in the middle of writes: 0 acknowledged writes lost, 0 half-applied, integrity check clean',
  databases: bothDatabases,
  run,
};

/** Of the kills on PostgreSQL, one in so many takes the database, too. */
const withDatabase = 20;
const lanes = 6;
/** A kill comes after fewer answers than this. */
const mostAnswers = 16;
/** After so many kills everything written since is looked at. */
const between = 10;

async function run(context: Context): Promise<Outcome> {
  const kills = context.sized(200, 4);
  const program = [await context.executable()];
  const { url: databaseUrl, crash } = await mortalDatabase(context);
  const start = () => startNode(context, { databaseUrl, command: program });
  let node = await start();
  const ledger = new Ledger(firstKey(context), context.secrets, context.random);
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
    halves.push(...(await halfDone(databaseUrl)));
  }
  lost.push(...(await ledger.broken(node.url, 'all')));
  halves.push(...(await halfDone(databaseUrl)));
  await node.kill();
  unsound.push(...(await complaints(context, databaseUrl, program)));
  return {
    figures: {
      kills,
      'writes acknowledged': ledger.answered,
      'cut off': ledger.unanswered,
      'acknowledged writes lost': lost.length,
      'half-applied': halves.length,
      'integrity complaints': unsound.length,
    },
    shortfalls: [...lost, ...halves, ...unsound, ...ledger.wrong].slice(0, 10),
  };
}

interface MortalDatabase {
  readonly url: string;
  /** Kills it, if it is a process, and starts it again. */
  crash(): Promise<void>;
}

async function mortalDatabase(context: Context): Promise<MortalDatabase> {
  if (context.database.name === 'SQLite')
    return { url: await context.freshDatabase(), crash: async () => {} };
  const cluster = await Cluster.make(join(context.folder, 'cluster'));
  context.defer(() => cluster.kill());
  await cluster.start();
  return {
    url: cluster.url(),
    crash: async () => {
      await cluster.kill();
      await cluster.start();
    },
  };
}

async function killWhileWriting(node: MortalNode, ledger: Ledger, answers: number): Promise<void> {
  let dead = false;
  const writing = ledger.write(node.url, lanes, () => dead);
  await ledger.more(answers);
  await node.kill();
  dead = true;
  await writing;
}
