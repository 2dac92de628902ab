import type { Config } from '../../config.ts';
import { byOperator } from '../../domain/audit.ts';
import { keysInFile, rotation } from '../../operations/master-key.ts';
import { newMasterKey } from '../../store/crypto/cipher.ts';
import type { Rotated } from '../../store/crypto/key-rotation.ts';
import type { NewEntry } from '../../store/store.ts';
import type { Invocation, Option } from '../command.ts';
import { UsageError } from '../errors.ts';
import { confirm } from '../terminal/confirm.ts';
import { requireDatabase, withStore } from '../terminal/open-store.ts';
import { shortPath } from '../terminal/paths.ts';

export async function printMasterKey({ print, json }: Pick<Invocation, 'print' | 'json'>): Promise<number> {
  const key = Buffer.from(newMasterKey().bytes).toString('base64');
  print(json ? JSON.stringify({ key }) : key);
  return 0;
}

export const dropOldOption: Option = {
  name: 'drop-old',
  description: 'Remove the old key from the key file once no row needs it.',
};

type RotateContext = Pick<Invocation, 'config' | 'options' | 'terminal' | 'print' | 'json'>;

export async function rotate(invocation: RotateContext): Promise<number> {
  const { config, options, print, json } = invocation;
  const dropOld = options.on(dropOldOption.name);
  if (dropOld && config.masterKey)
    throw new UsageError(
      '--drop-old works only with a key file',
      'remove the old key from SALLYPORT_MASTER_KEY after the rotation',
    );
  requireDatabase(config);
  const keys = rotation(config, dropOld);
  if (dropOld && !(await confirm(invocation, dropQuestion(config)))) return 1;
  return withStore(invocation, async (maintenance, store) => {
    const rotated = await maintenance.rotateMasterKey(keys);
    if (rotated.from !== rotated.to) await store.audit.write([entryOf(rotated)]);
    const note = config.masterKey || dropOld ? [] : [oldKeyNote(config.masterKeyFile)];
    print(json ? JSON.stringify(rotated) : [formatResult(rotated), ...note].join('\n'));
  });
}

function dropQuestion(config: Config): string {
  const content = `${shortPath(config.masterKeyFile)} contains ${keysInFile(config).join(', ')}.`;
  return `${content} All but the new key will be deleted permanently; older backups and audit exports need them. Continue?`;
}

function oldKeyNote(file: string): string {
  return `the old key stays in ${shortPath(file)}, below the new one; older backups and audit exports need it`;
}

/** The entry has fingerprints, which reveal nothing about the keys. */
function entryOf({ from, to }: Rotated): NewEntry {
  return {
    at: Date.now(),
    ...byOperator,
    operation: 'master-key.rotate',
    difference: { master_key: { from, to } },
  };
}

function formatResult({ from, to, rewrapped }: Rotated): string {
  const count = `rewrapped ${rewrapped} data ${rewrapped === 1 ? 'key' : 'keys'}`;
  if (from !== to) return `rotated master key ${from} to ${to}; ${count}`;
  if (rewrapped > 0) return `finished the rotation to master key ${to}; ${count}`;
  return `master key ${to} is already in use`;
}
