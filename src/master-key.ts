/** The master keys as the operator gives them: in a variable, or in a file that is made on the first start. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Config, ConfigError } from './config.ts';
import { type MasterKey, newMasterKey, parseMasterKeys } from './store/cipher.ts';
import type { MasterKeys } from './store/keyring.ts';

export function masterKeys(config: Config): MasterKeys {
  if (config.masterKey) {
    const given = parseMasterKeys(config.masterKey.reveal());
    return { current: () => given[0] as MasterKey, find: (id) => given.find((key) => key.id === id) };
  }
  let known: MasterKey[] = [];
  const read = () => {
    known = readFile(config.masterKeyFile);
    return known;
  };
  return {
    current: () => read()[0] ?? firstKey(config),
    find: (id) => known.find((key) => key.id === id) ?? read().find((key) => key.id === id),
  };
}

function readFile(path: string): MasterKey[] {
  if (!existsSync(path)) return [];
  try {
    return parseMasterKeys(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`SALLYPORT_MASTER_KEY_FILE ${path} ${(error as Error).message}`);
  }
}

/** With PostgreSQL several nodes need the same key, so none of them may make one up. */
function firstKey(config: Config): MasterKey {
  if (!config.databaseUrl.startsWith('sqlite:')) {
    throw new ConfigError(
      'SALLYPORT_MASTER_KEY or SALLYPORT_MASTER_KEY_FILE must be given with PostgreSQL: openssl rand -base64 32 makes a key',
    );
  }
  const key = newMasterKey();
  writeMasterKeys(config.masterKeyFile, [key]);
  return key;
}

/** Replaces the file in one step, so that a reader sees all of the old or all of the new. */
export function writeMasterKeys(path: string, keys: readonly MasterKey[]): void {
  const text = keys.map(({ bytes }) => `${Buffer.from(bytes).toString('base64')}\n`).join('');
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(`${path}.new`, text, { mode: 0o600, flush: true });
    renameSync(`${path}.new`, path);
  } catch (error) {
    throw new ConfigError(`SALLYPORT_MASTER_KEY_FILE cannot be written: ${(error as Error).message}`);
  }
}
