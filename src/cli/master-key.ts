import { openDatabase } from '../app.ts';
import { masterKeys, writeMasterKeys } from '../master-key.ts';
import { type MasterKey, newMasterKey, parseMasterKeys } from '../store/cipher.ts';
import { type Invocation, UsageError } from './command.ts';

/** For a fleet, whose nodes are all given the same key. */
export async function printMasterKey({ print, json }: Invocation): Promise<number> {
  const key = Buffer.from(newMasterKey().bytes).toString('base64');
  print(json ? JSON.stringify({ key }) : key);
  return 0;
}

/**
 * A key file holds the new key above the old one until nothing is left on the old: nodes that run meanwhile
 * find either there. From a variable, the first key is the new one.
 */
export async function rotate({ config, print, json }: Invocation): Promise<number> {
  const masters = masterKeys(config);
  const { store } = await openDatabase(config, { masters });
  try {
    const to = config.masterKey ? firstOf(config.masterKey.reveal()) : newMasterKey();
    if (!config.masterKey) writeMasterKeys(config.masterKeyFile, [to, masters.current()]);
    const rotated = await store.rotateMasterKey(to);
    if (!config.masterKey) writeMasterKeys(config.masterKeyFile, [to]);
    print(
      json
        ? JSON.stringify(rotated)
        : `master key ${rotated.from} → ${rotated.to}, ${rotated.resealed} data keys sealed anew`,
    );
    return 0;
  } finally {
    await store.close();
  }
}

function firstOf(text: string): MasterKey {
  const [first, ...older] = parseMasterKeys(text);
  if (first && older.length > 0) return first;
  throw new UsageError('SALLYPORT_MASTER_KEY must hold the new key and, after a comma, the old one');
}
