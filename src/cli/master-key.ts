import { byOperator } from '../domain/audit.ts';
import { rotation } from '../master-key.ts';
import { newMasterKey } from '../store/cipher.ts';
import type { Rotated } from '../store/rotation.ts';
import type { NewEntry } from '../store/store.ts';
import type { Invocation } from './command.ts';
import { withStore } from './open.ts';

/** For a fleet, whose nodes are all given the same key. */
export async function printMasterKey({ print, json }: Pick<Invocation, 'print' | 'json'>): Promise<number> {
  const key = Buffer.from(newMasterKey().bytes).toString('base64');
  print(json ? JSON.stringify({ key }) : key);
  return 0;
}

export async function rotate({
  config,
  print,
  json,
}: Pick<Invocation, 'config' | 'print' | 'json'>): Promise<number> {
  const wanted = rotation(config);
  return withStore({ config }, async (store) => {
    const rotated = await store.rotateMasterKey(wanted);
    if (rotated.from !== rotated.to) await store.audit.write([entryOf(rotated)]);
    print(json ? JSON.stringify(rotated) : told(rotated));
  });
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
