import type { Config } from '../../config.ts';
import { byOperator } from '../../domain/audit.ts';
import { keysInFile, rotation } from '../../operations/master-key.ts';
import { newMasterKey } from '../../store/crypto/cipher.ts';
import type { Rotated } from '../../store/crypto/key-rotation.ts';
import type { NewEntry } from '../../store/store.ts';
import type { Invocation, Option } from '../command.ts';
import { UsageError } from '../errors.ts';
import { confirmed } from '../terminal/confirm.ts';
import { mustBeThere, withStore } from '../terminal/open-store.ts';
import { shortPath } from '../terminal/paths.ts';

/** For a fleet, whose nodes are all given the same key. */
export async function printMasterKey({ print, json }: Pick<Invocation, 'print' | 'json'>): Promise<number> {
  const key = Buffer.from(newMasterKey().bytes).toString('base64');
  print(json ? JSON.stringify({ key }) : key);
  return 0;
}

export const dropOldOption: Option = {
  name: 'drop-old',
  sentence: 'Remove the old key from the key file once no row needs it.',
};

type Rotating = Pick<Invocation, 'config' | 'options' | 'terminal' | 'print' | 'json'>;

export async function rotate(invocation: Rotating): Promise<number> {
  const { config, options, print, json } = invocation;
  const dropOld = options.on(dropOldOption.name);
  if (dropOld && config.masterKey)
    throw new UsageError(
      '--drop-old is for a key file',
      'take the old key out of SALLYPORT_MASTER_KEY when the rotation is done',
    );
  mustBeThere(config);
  const wanted = rotation(config, dropOld);
  if (dropOld && !(await confirmed(invocation, dropQuestion(config)))) return 1;
  return withStore(invocation, async (maintenance, store) => {
    const rotated = await maintenance.rotateMasterKey(wanted);
    if (rotated.from !== rotated.to) await store.audit.write([entryOf(rotated)]);
    const kept = config.masterKey || dropOld ? [] : [keptIn(config.masterKeyFile)];
    print(json ? JSON.stringify(rotated) : [told(rotated), ...kept].join('\n'));
  });
}

function dropQuestion(config: Config): string {
  const holds = `${shortPath(config.masterKeyFile)} holds ${keysInFile(config).join(', ')}.`;
  return `${holds} After this it holds the new key alone, and the others are gone for ever: backups and audit exports from before need them. Go on?`;
}

function keptIn(file: string): string {
  return `the old key stays in ${shortPath(file)}, below the new one: backups and audit exports from before need it`;
}

/** Fingerprints, which tell nothing about the keys. */
function entryOf({ from, to }: Rotated): NewEntry {
  return {
    at: Date.now(),
    ...byOperator,
    operation: 'master-key.rotate',
    difference: { master_key: { from, to } },
  };
}

function told({ from, to, resealed }: Rotated): string {
  const anew = `${resealed} ${resealed === 1 ? 'key' : 'keys'} sealed anew`;
  if (from !== to) return `master key ${from} → ${to}, ${anew}`;
  if (resealed > 0) return `master key ${to}: finished what was begun, ${anew}`;
  return `master key ${to} is in use already: nothing to do`;
}
