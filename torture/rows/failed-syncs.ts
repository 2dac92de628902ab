/** Syncs to disk fail: the process ends before it acknowledges anything, and the next start writes a new log. */
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '../client.ts';
import { brokenInvariants } from '../crash/invariants.ts';
import { ledgerOf } from '../crash/ledger.ts';
import { environmentOf, firstKey, startNode } from '../crash/node.ts';
import { operatorChecks } from '../crash/operator.ts';
import { failingSyncs, hasStrace } from '../crash/trace.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const failedSyncs: Row = {
  name: 'failed-syncs',
  requirement:
    'a sync of the log or of a checkpoint fails, once or for ever: the process ends at once, the next start writes a new log, 0 acknowledged changes lost',
  databases: ['SQLite'],
  run,
};

const calls = 'fsync,fdatasync';
const lanes = 4;
/** Milliseconds after which a process that should have ended is reported. */
const longestLife = 30_000;

async function run(context: Context): Promise<Outcome> {
  if (!hasStrace()) {
    const failures = ['strace is not installed: apt-get install strace'];
    return { figures: { 'changes acknowledged': 0 }, failures };
  }
  const kinds = {
    once: () => failingSyncs(calls, '15'),
    'for ever': () => failingSyncs(calls, '15+'),
    'in a checkpoint': (file: string) => [...failingSyncs(calls, '1+'), '-P', file],
  };
  const failures: string[] = [];
  let answered = 0;
  for (const [kind, fault] of Object.entries(kinds)) {
    const folder = join(context.folder, kind.replaceAll(' ', '-'));
    mkdirSync(folder);
    const seen = await failSyncs({ ...context, folder }, fault, kind === 'in a checkpoint');
    failures.push(...seen.wrong.map((each) => `${kind}: ${each}`));
    answered += seen.answered;
  }
  return {
    figures: {
      processes: Object.keys(kinds).length,
      'changes acknowledged': answered,
      wrong: failures.length,
    },
    failures: failures.slice(0, 10),
  };
}

async function failSyncs(
  context: Context,
  fault: (file: string) => string[],
  inCheckpoint: boolean,
): Promise<{ answered: number; wrong: string[] }> {
  const wrong: string[] = [];
  const program = await context.executable();
  const databaseUrl = await context.freshDatabase();
  const path = databaseUrl.slice('sqlite:'.length);
  const start = (command: readonly string[]) => startNode(context, { databaseUrl, command });
  await (await start([program])).stop();
  const node = await start([...fault(path), program]);
  const ledger = ledgerOf(context);
  let hasEnded = false;
  const ended = node.exited.then((code) => {
    hasEnded = true;
    return code;
  });
  const writing = ledger.write(node.url, lanes, () => hasEnded);
  const filling = inCheckpoint ? fillLog(context, node.url, () => hasEnded) : undefined;
  const late = Bun.sleep(longestLife).then(() => 'late');
  const outcome = await Promise.race([ended, late]);
  if (outcome === 'late') wrong.push('the process goes on after a failed sync');
  await node.kill();
  hasEnded = true;
  await Promise.all([writing, filling]);
  if (ledger.answered === 0) wrong.push('no change was acknowledged before');
  // A file that another one replaces keeps its number until it is gone.
  const log = () => (existsSync(`${path}-wal`) ? statSync(`${path}-wal`).ino : undefined);
  const before = log();
  await startWhileFailing(context, databaseUrl, [...failingSyncs(calls, '1+'), program]);
  const again = await start([program]);
  if (log() === before) wrong.push('the log is the one that was not synced');
  await ledger.settle(again.url);
  wrong.push(...(await ledger.broken(again.url, 'all')), ...ledger.wrong);
  wrong.push(...(await brokenInvariants(databaseUrl)));
  await again.kill();
  wrong.push(...(await operatorChecks(context, databaseUrl, [program])));
  return { answered: ledger.answered, wrong };
}

/** Writes large tokens until the log is large enough for a checkpoint. */
async function fillLog(context: Context, url: string, isOver: () => boolean): Promise<void> {
  const client = new Client(url);
  const key = firstKey(context);
  for (let number = 0; !isOver(); number++) {
    const body = { id: `large-${number}`, data: 'x'.repeat(500_000) };
    await client.call('POST', '/tokens', { key, body }).catch(() => Bun.sleep(5));
  }
  client.close();
}

/** The service either does not start, or ends at its first change. */
async function startWhileFailing(
  context: Context,
  databaseUrl: string,
  command: readonly string[],
): Promise<void> {
  const child = Bun.spawn([...command, 'serve'], {
    cwd: context.folder,
    env: environmentOf(context.folder, databaseUrl),
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  await Promise.race([child.exited, Bun.sleep(1000)]);
  child.kill('SIGKILL');
  await child.exited;
}
