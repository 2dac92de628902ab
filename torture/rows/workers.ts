/** Kills worker processes under load, as the kernel does when memory runs out. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { childrenOf } from '../crash/cluster.ts';
import { brokenInvariants } from '../crash/invariants.ts';
import { ledgerOf } from '../crash/ledger.ts';
import { firstKey, type KillableNode, startNode } from '../crash/node.ts';
import { runCommand } from '../crash/operator.ts';
import { databaseTimeout, maxAttempts } from '../retry.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const workers: Row = {
  name: 'workers',
  requirement:
    'workers killed under load, as when memory runs out, one or all of them: the others serve every new connection, the killed are replaced, 0 acknowledged changes lost',
  databases: bothDatabases,
  run,
};

const count = 2;
const lanes = 6;
/** New connections that a worker must serve while the other is gone. */
const probes = 20;
/** One in this many rounds kills all workers. */
const all = 4;

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(40, 4);
  const program = [await context.executable()];
  const databaseUrl = await context.freshDatabase();
  const env = { ...databaseTimeout(context), SALLYPORT_WORKERS: String(count), SALLYPORT_LOG_LEVEL: 'debug' };
  const node = await startNode(context, { databaseUrl, command: program, env });
  const key = firstKey(context);
  const ledger = ledgerOf(context);
  const failures: string[] = [];
  let [stopped, killed, served] = [false, 0, 0];
  const writing = ledger.write(node.url, lanes, () => stopped);
  for (let round = 1; round <= rounds && failures.length === 0; round++) {
    await ledger.more(1 + context.random.below(context.sized(40, 10)));
    const running = childrenOf(node.pid);
    const chosen = round % all === 0 ? running : [context.random.one(running)];
    for (const pid of chosen) process.kill(pid, 'SIGKILL');
    killed += chosen.length;
    // The sockets of a killed process stay open until it is reaped.
    while (childrenOf(node.pid).some((pid) => chosen.includes(pid))) await Bun.sleep(1);
    for (let probe = 0; chosen.length < count && probe < probes; probe++) {
      const problem = await probeOnce(node, key);
      if (problem) failures.push(`a new connection to the worker that was left: ${problem}`);
      else served++;
    }
    if (!(await areReplaced(context, node))) failures.push('a killed worker was not replaced in 30 s');
  }
  stopped = true;
  await writing;
  if (failures.length === 0) {
    await ledger.settle(node.url);
    failures.push(...(await ledger.broken(node.url, 'all')), ...ledger.wrong);
  }
  await node.stop();
  failures.push(...(await brokenInvariants(databaseUrl)));
  const verify = [...program, 'audit', 'verify', '--database'];
  const { code, out, err } = await runCommand(context, databaseUrl, verify);
  if (code !== 0) failures.push(`audit verify ended with ${code}: ${out}${err}`);
  return {
    figures: {
      'workers killed': killed,
      'changes acknowledged': ledger.answered,
      'cut off': ledger.unanswered,
      'new connections served': served,
      'acknowledged changes lost, or not replaced': failures.length,
    },
    failures: failures.slice(0, 10),
  };
}

async function probeOnce({ url }: KillableNode, key: string): Promise<string | undefined> {
  try {
    const headers = { 'SVC-API-KEY': key };
    const { status } = await fetch(`${url}/applications/key`, { headers, keepalive: false });
    // The database may be busy with the load.
    return status === 200 || status === 503 ? undefined : `status ${status}`;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Waits until all workers listen. */
async function areReplaced(context: Context, { pid }: KillableNode): Promise<boolean> {
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const said = readFileSync(join(context.folder, 'said.log'), 'utf8');
    const listening = childrenOf(pid).filter((worker) =>
      new RegExp(`listening.*"pid":${worker}\\b`).test(said),
    );
    if (listening.length === count) return true;
    await Bun.sleep(100);
  }
  return false;
}
