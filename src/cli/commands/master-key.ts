import type { Config } from '../../config/settings.ts';
import { newMasterKey } from '../../db/keys/cipher.ts';
import type { Rotated, Rotation } from '../../db/keys/key-rotation.ts';
import { byOperator } from '../../domain/audit.ts';
import { keysInFile, rotation, usesKeyFile } from '../../operations/master-key.ts';
import type { Maintenance } from '../../store/maintenance.ts';
import { type ActiveNode, type Nodes, nodeLifetime } from '../../store/nodes.ts';
import { type Command, type Invocation, option } from '../command.ts';
import { CommandError, UsageError } from '../errors.ts';
import { requireDatabase, shortPath, withStore } from '../terminal/database.ts';
import { confirm, yesOption } from '../terminal/options.ts';

export const commands: readonly Command[] = [
  {
    usage: 'master-key new',
    summary: 'Generate a master key and print it.',
    standalone: true,
    examples: ['(umask 077; sallyport master-key new > master.key)'],
    run: async ({ printResult }) => {
      const key = Buffer.from(newMasterKey().bytes).toString('base64');
      return printResult({ key }, key);
    },
  },
  {
    usage: 'master-key rotate',
    options: [
      option(
        'drop-old',
        'Delete every key that the database no longer uses from the key file. Older backups and audit exports then cannot be verified. Asks for confirmation.',
      ),
      option(
        'force',
        'Rotate even if a running node does not have the new key. It responds with 503 until it has the key. Prints the names of these nodes.',
      ),
      yesOption,
    ],
    summary: 'Rotate the master key while the service runs.',
    details:
      'Generates a master key, writes it above the old one in the key file, and rewraps all data keys with it. The old key stays in the file, because older backups and audit exports need it.\n\nWaits until every running node can use the new key, which takes seconds, and rotates nothing if one cannot. Nodes that share the key file read it themselves. With SALLYPORT_MASTER_KEY, or if every node has its own copy of the key file: create a key with `master-key new`, restart the nodes one by one with NEW,OLD, run this command with the same value, then restart the nodes with NEW. In a key file, NEW is the first line and OLD the second. Store OLD elsewhere. With SALLYPORT_MASTER_KEY_COMMAND, do the same: the command prints NEW and, on the next line, OLD.\n\nIf the rotation is interrupted, all data stays readable. Run it again.',
    examples: ['sallyport master-key rotate'],
    run: rotate,
  },
];

async function rotate(invocation: Invocation): Promise<number> {
  const { config, options, printResult } = invocation;
  const dropOld = options.on('drop-old');
  if (dropOld && !usesKeyFile(config))
    throw new UsageError(
      '--drop-old works only with a key file',
      'remove the old key from SALLYPORT_MASTER_KEY, or from what the command prints, after the rotation',
    );
  requireDatabase(config);
  const keys = rotation(config, dropOld);
  if (dropOld) await confirm(invocation, dropQuestion(config));
  return withStore(invocation, async (maintenance, store) => {
    const checked = options.on('force') ? undefined : await checkNodes(invocation, maintenance, keys);
    const next = (from: string) => {
      if (checked === undefined || from === checked) return keys.next(from);
      throw new CommandError(
        `another process has rotated the master key from ${checked} to ${from}`,
        'run this command again if you want to rotate it once more',
      );
    };
    const rotated = await maintenance.rotateMasterKey({ ...keys, next });
    const { from, to } = rotated;
    // The entry contains fingerprints, which reveal nothing about the keys.
    const difference = { master_key: { from, to } };
    const entry = { at: Date.now(), ...byOperator, operation: 'master-key.rotate', difference };
    if (from !== to) await store.audit.write([entry]);
    if (options.on('force')) await warnOfNodes(invocation, maintenance, to);
    const note = usesKeyFile(config) ? [oldKeyNote(config.masterKeyFile, dropOld)] : [];
    return printResult(rotated, [formatResult(rotated), ...note].join('\n'));
  });
}

/**
 * Waits until all nodes have the new key, and throws if one does not get it. Returns the current key. `keys.next` stores the key before the
 * database needs it, so that nodes with the same key file can read it.
 */
async function checkNodes(
  { config, terminal }: Invocation,
  maintenance: Maintenance,
  keys: Rotation,
): Promise<string> {
  const { current, next } = await maintenance.nextMasterKey(keys);
  if (next === current) return current;
  const lacking = await nodesWithoutKey(maintenance.nodes, next, (nodes, seconds) => {
    const expiry = `if a node has stopped, its record expires within ${seconds} s`;
    terminal.writeError(`waiting for ${namesOf(nodes)} to read the new key; ${expiry}\n`);
  });
  if (lacking.length === 0) return current;
  const variable = config.masterKey ? 'SALLYPORT_MASTER_KEY' : 'SALLYPORT_MASTER_KEY_COMMAND';
  const source = !usesKeyFile(config)
    ? `restart them with the same ${variable}`
    : `copy ${shortPath(config.masterKeyFile)} to them, or restart them with the new key`;
  throw new CommandError(
    `the master key was not rotated: ${namesOf(lacking)} cannot use the new master key ${next}`,
    `${source}, then run this command again. With --force it rotates now, and these nodes respond with 503 until they have the key`,
  );
}

/** Warns about nodes that lack the new key. Used after a rotation with --force, which does not wait for them. */
async function warnOfNodes({ config, terminal }: Invocation, { nodes }: Maintenance, key: string) {
  const lacking = await recordedWithoutKey(nodes, key);
  if (lacking.length === 0) return;
  const todo = usesKeyFile(config)
    ? `Nodes that share ${shortPath(config.masterKeyFile)} read it within seconds; copy it to the others`
    : 'Restart them with the new key';
  terminal.writeError(
    `sallyport: warning: without the master key ${key}, these nodes respond with 503: ${namesOf(lacking)}. ${todo}\n`,
  );
}

function namesOf(nodes: readonly ActiveNode[]): string {
  return nodes.map(({ name }) => name).join(', ');
}

function dropQuestion(config: Config): string {
  const content = `${shortPath(config.masterKeyFile)} contains ${keysInFile(config).join(', ')}.`;
  return `${content} All but the new key will be deleted permanently; older backups and audit exports need them. Continue?`;
}

function oldKeyNote(file: string, dropped: boolean): string {
  if (dropped) return `deleted the old keys from ${shortPath(file)}`;
  return `the old key stays in ${shortPath(file)}, below the new one; older backups and audit exports need it`;
}

function formatResult({ from, to, rewrapped }: Rotated): string {
  const count = `rewrapped ${rewrapped} data ${rewrapped === 1 ? 'key' : 'keys'}`;
  if (from !== to) return `rotated master key ${from} to ${to}; ${count}`;
  if (rewrapped > 0) return `finished the rotation to master key ${to}; ${count}`;
  return `master key ${to} is already in use`;
}

/** Milliseconds between two checks, and the maximum time between reading the key file and writing the record. */
const pause = 200;
const inProgress = 2000;

/**
 * Returns the active nodes that cannot use the master key `id`. A node reads its key file again before it renews its
 * record. The function therefore waits until every record without the key was renewed or has expired. If it waits, it
 * calls `onWait` once, with the nodes and the seconds until the last of their records expires.
 */
export async function nodesWithoutKey(
  nodes: Nodes,
  id: string,
  onWait: (nodes: readonly ActiveNode[], seconds: number) => void,
): Promise<ActiveNode[]> {
  const start = await nodes.now();
  for (let isFirst = true; ; isFirst = false) {
    const lacking = await recordedWithoutKey(nodes, id);
    const due = lacking.filter(({ seenAt }) => seenAt <= start + inProgress);
    if (due.length === 0) return lacking;
    const lastSeen = Math.max(...due.map(({ seenAt }) => seenAt));
    if (isFirst) onWait(due, Math.ceil((lastSeen + nodeLifetime - start) / 1000));
    await Bun.sleep(pause);
  }
}

/** The active nodes whose record does not list the master key `id`. Does not wait for newer records. */
async function recordedWithoutKey(nodes: Nodes, id: string): Promise<ActiveNode[]> {
  return (await nodes.active()).filter(({ masterKeys }) => !masterKeys.includes(id));
}
