/** Checks the running nodes for `doctor`. */

import { timestamp } from '../domain/common-fields.ts';
import { currentMaster } from '../store/crypto/keyring.ts';
import type { Db } from '../store/engine/db.ts';
import { type ActiveNode, nodes } from '../store/nodes.ts';
import { type Check, fail, ok, warn } from './check.ts';
import { masterKeyHint } from './master-key.ts';
import { clockTolerance } from './node-recorder.ts';

/** `now` is the clock of this machine. `inUse`: whether another process uses the SQLite database. */
export async function checkNodes(db: Db, now: () => number, inUse: boolean): Promise<Check[]> {
  const active = await nodes(db).active();
  if (active.length === 0) return [await checkLastNode(db, inUse)];
  const master = await currentMaster(db);
  const problems = active.flatMap((node) => [
    ...checkMasterKey(node, master),
    // On SQLite, the clock of the node decides on expiry, so it is compared with this machine.
    ...checkClock(node.name, db.dialect === 'sqlite' ? Math.max(0, node.seenAt - now()) : node.clockOffset),
  ]);
  if (problems.length > 0) return problems;
  const count = active.length === 1 ? '1 node is' : `${active.length} nodes are`;
  return [ok('nodes', `${count} running, with the master key and a correct clock`)];
}

/** A node that stops deletes its row. A row that has expired is of a node that was killed, or that cannot write. */
async function checkLastNode(db: Db, inUse: boolean): Promise<Check> {
  const last = await nodes(db).latest();
  if (!last)
    return ok(
      'nodes',
      inUse ? 'no node is running; another process uses the database' : 'no node is running',
    );
  const message = `${last.name} has not renewed its record since ${timestamp(last.seenAt)}`;
  return inUse
    ? warn(
        'nodes',
        `${message}, but a process uses the database`,
        'look for errors in the log of that node: it cannot write, for example because the disk is full',
      )
    : warn('nodes', message, 'if that node still runs, look for errors in its log; otherwise start it');
}

function checkMasterKey({ name, masterKeys }: ActiveNode, master: string): Check[] {
  if (masterKeys.includes(master)) return [];
  return [fail('nodes', `${name} does not have the master key ${master}`, `on that node, ${masterKeyHint}`)];
}

function checkClock(name: string, offset: number): Check[] {
  if (Math.abs(offset) <= clockTolerance) return [];
  const seconds = Math.round(Math.abs(offset) / 1000);
  const message = `the clock of ${name} is ${seconds} s ${offset > 0 ? 'ahead' : 'behind'}`;
  const hint =
    'synchronize it with a time server; denials and reads that the node handles have a wrong time in the audit log';
  return [warn('nodes', message, hint)];
}
