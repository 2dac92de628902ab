/** Master keys from an environment variable, a command, or a file that the first start creates. */
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { type Config, ConfigError } from '../config/settings.ts';
import { type MasterKey, newMasterKey, parseMasterKeys } from '../db/keys/cipher.ts';
import type { Rotation } from '../db/keys/key-rotation.ts';
import type { MasterKeys } from '../db/keys/keyring.ts';
import { copyOwnership, createFolder } from '../db/sqlite/file-ownership.ts';
import { commandKeys, keyCommand, keysFromCommand, startCommandKeys } from './master-key-command.ts';

export const masterKeyHint =
  'put that key into SALLYPORT_MASTER_KEY_FILE or SALLYPORT_MASTER_KEY, or let SALLYPORT_MASTER_KEY_COMMAND print it; without it token data cannot be decrypted';

/** Whether the master key comes from a file, which this program may write. */
export function usesKeyFile({ masterKey, masterKeyCommand }: Config): boolean {
  return masterKey === undefined && masterKeyCommand === undefined;
}

export function masterKeys(config: Config): MasterKeys {
  if (config.masterKey) {
    const given = parseMasterKeys(config.masterKey.reveal());
    return {
      current: () => given[0] as MasterKey,
      find: (id) => given.find((key) => key.id === id),
      ids: () => given.map(({ id }) => id),
      missingReason: () => 'which SALLYPORT_MASTER_KEY does not contain',
    };
  }
  const command = keyCommand(config);
  if (command) return commandKeys(command);
  let cached: MasterKey[] = [];
  const read = () => {
    cached = readFile(config.masterKeyFile);
    return cached;
  };
  return {
    current: () => read()[0] ?? firstKey(config),
    find: (id) => cached.find((key) => key.id === id) ?? read().find((key) => key.id === id),
    ids: () => read().map(({ id }) => id),
    missingReason: () => lackingIn(config.masterKeyFile),
  };
}

/** Like `masterKeys`, for the start of the service: runs a command without blocking. Calls `onStep` before that. */
export async function masterKeysAtStart(
  config: Config,
  onStep: (waitingFor: string) => void = () => {},
): Promise<MasterKeys> {
  const command = keyCommand(config);
  return command ? startCommandKeys(command, onStep) : masterKeys(config);
}

function lackingIn(path: string): string {
  const file = `SALLYPORT_MASTER_KEY_FILE ${path}`;
  return existsSync(path) ? `which ${file} does not contain` : `and ${file} does not exist`;
}

/** Returns an empty list if the file does not exist. */
function readFile(path: string): MasterKey[] {
  const text = readText(path);
  if (text === undefined) return [];
  try {
    return parseMasterKeys(text);
  } catch (error) {
    throw new ConfigError(`SALLYPORT_MASTER_KEY_FILE ${path} ${(error as Error).message}`);
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new ConfigError(
      `SALLYPORT_MASTER_KEY_FILE cannot be read: ${(error as Error).message}`,
      'check the path, and that the user of this process may read the file',
    );
  }
}

/** Creates the first key on SQLite. Throws on PostgreSQL, where every node needs the same key. */
function firstKey(config: Config): MasterKey {
  if (!config.databaseUrl.startsWith('sqlite:')) {
    throw new ConfigError(
      `no master key: SALLYPORT_MASTER_KEY is not set, and SALLYPORT_MASTER_KEY_FILE ${config.masterKeyFile} does not exist`,
      'create one with sallyport master-key new and give the same key to every node',
    );
  }
  const key = newMasterKey();
  writeMasterKeys(config.masterKeyFile, [key]);
  return key;
}

/**
 * The next master key is the first key of the setting, the command or the key file. If the database already uses the
 * first key of the file, a new key is added at the top of the file. Older keys stay below it, because older backups and
 * exports need them. With `dropOld`, unused keys are removed from the file after the rotation.
 */
export function rotation(config: Config, dropOld = false): Rotation {
  const { masterKey } = config;
  if (masterKey) {
    const [first, second] = parseMasterKeys(masterKey.reveal());
    if (first && second) return { next: () => first, done: () => {} };
    throw new ConfigError('SALLYPORT_MASTER_KEY must contain the new key and, after a comma, the old one');
  }
  const command = keyCommand(config);
  if (command) {
    const [first, second] = keysFromCommand(command);
    if (first && second) return { next: () => first, done: () => {} };
    throw new ConfigError(
      'SALLYPORT_MASTER_KEY_COMMAND must print the new key and, on the next line, the old one',
    );
  }
  const path = config.masterKeyFile;
  if (dropOld) mustBeWritable(path);
  /** Ids of the keys that were in the file when the rotation began, and of the new one. */
  let known: string[] = [];
  return {
    next: (current) => {
      const keys = readFile(path);
      known = keys.map(({ id }) => id);
      if (keys[0] && keys[0].id !== current) return keys[0];
      const key = newMasterKey();
      writeMasterKeys(path, [key, ...keys]);
      known.push(key.id);
      return key;
    },
    done: (inUse) => {
      if (!dropOld) return;
      const keys = readFile(path);
      writeMasterKeys(
        path,
        // A key that another process has added is not removed, even if this process no longer holds the lock.
        keys.filter(({ id }) => inUse.includes(id) || !known.includes(id)),
      );
    },
  };
}

/** Fingerprints of the keys in the file. */
export function keysInFile({ masterKeyFile }: Config): string[] {
  return readFile(masterKeyFile).map(({ id }) => id);
}

/** Throws if the file cannot be replaced. Called before any data key is rewrapped. */
function mustBeWritable(path: string): void {
  try {
    accessSync(path, constants.W_OK);
    accessSync(dirname(path), constants.W_OK);
  } catch (error) {
    throw new ConfigError(`SALLYPORT_MASTER_KEY_FILE cannot be written: ${(error as Error).message}`);
  }
}

/** Replaces the file atomically and durably. */
function writeMasterKeys(path: string, keys: readonly MasterKey[]): void {
  const text = keys.map(({ bytes }) => `${Buffer.from(bytes).toString('base64')}\n`).join('');
  try {
    createFolder(dirname(path));
    rmSync(`${path}.new`, { force: true });
    writeFileSync(`${path}.new`, text, { mode: 0o600, flag: 'wx', flush: true });
    copyOwnership(path, `${path}.new`);
    renameSync(`${path}.new`, path);
    const folder = openSync(dirname(path), 'r');
    fsyncSync(folder);
    closeSync(folder);
  } catch (error) {
    rmSync(`${path}.new`, { force: true });
    throw new ConfigError(`SALLYPORT_MASTER_KEY_FILE cannot be written: ${(error as Error).message}`);
  }
}
