/** Checks that need no database: settings, files and disk. */
import { existsSync, readFileSync, type Stats, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseEnv } from 'node:util';
import { type Config, settingList } from '../../config.ts';
import { type Check, fail, ok, warn } from '../../operations/check.ts';
import { callVariables } from '../terminal/connection.ts';
import { shortPath, sqlitePath } from '../terminal/database.ts';
import { projectVariables } from './init.ts';

type Env = Readonly<Record<string, string | undefined>>;

/** Variables that Kubernetes sets in every container for a Service named sallyport. */
const fromKubernetes = /^SALLYPORT_(SERVICE_|PORT$|PORT_\d)/;

export function checkSettings(config: Config, env: Env): Check[] {
  const own = [...settingList, ...callVariables].map(({ variable }) => variable as string);
  const known = [...own, ...projectVariables];
  const environment = { ...(parseEnv(envFile()) as Env), ...env };
  const unknown = Object.keys(environment).filter(
    (name) =>
      name.startsWith('SALLYPORT_') &&
      environment[name] &&
      !known.includes(name) &&
      !fromKubernetes.test(name),
  );
  const found = unknown.map((name) =>
    warn('settings', `${name} is not a setting`, 'see sallyport serve --help for all settings'),
  );
  if (config.masterKey && existsSync(config.masterKeyFile)) {
    const message = `SALLYPORT_MASTER_KEY is set, so ${shortPath(config.masterKeyFile)} is ignored`;
    found.push(warn('settings', message, 'remove one of the two'));
  }
  return found.length > 0 ? found : [ok('settings', 'all settings are known and valid')];
}

const groupAndOthers = 0o077;

export function checkFiles(config: Config): Check[] {
  if (process.getuid === undefined) return [];
  const folder = statSync(config.dataDir, { throwIfNoEntry: false });
  const database = sqlitePath(config.databaseUrl);
  const files = [
    config.managementKeyFile,
    ...(config.masterKey ? [] : [config.masterKeyFile]),
    ...(holdsSecrets(envFile()) ? ['.env'] : []),
  ];
  const data = database === undefined ? [] : ['', '-wal', '-shm', '-lock'].map((part) => database + part);
  const name = shortPath(config.dataDir);
  const found = [
    ...(folder && isShared(folder)
      ? [warn('files', `${name} is readable by other users`, `chmod 700 ${name}`)]
      : []),
    ...files.flatMap((path) => checkFile(path, fail, folder)),
    ...data.flatMap((path) => checkFile(path, warn, folder)),
  ];
  return found.length > 0 ? found : [ok('files', 'only the owner can read keys and data')];
}

function envFile(): string {
  return existsSync('.env') ? readFileSync('.env', 'utf8') : '';
}

function holdsSecrets(text: string): boolean {
  return /^\s*(export\s+)?(SALLYPORT_MASTER_KEY|SALLYPORT_KEY)\s*=|:\/\/[^\s:/]+:[^\s@]+@/m.test(text);
}

function isShared({ mode }: Stats): boolean {
  return (mode & groupAndOthers) !== 0;
}

function checkFile(path: string, result: typeof fail, folder: Stats | undefined): Check[] {
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file) return [];
  const name = shortPath(path);
  const found: Check[] = [];
  if (isShared(file)) found.push(result('files', `${name} is readable by other users`, `chmod 600 ${name}`));
  if (folder && file.uid !== folder.uid) {
    const message = `${name} belongs to user ${file.uid}, the data folder to ${folder.uid}`;
    found.push(warn('files', message, 'make the user that runs the service the owner of both'));
  }
  return found;
}

const mebibyte = 1024 * 1024;
const minFree = 64 * mebibyte;

/** Warns unless a backup and a write-ahead log of the size of the database both fit. */
export function checkDisk(config: Config): Check[] {
  const database = sqlitePath(config.databaseUrl);
  if (database === undefined || !existsSync(dirname(database))) return [];
  const { bavail, bsize } = statfsSync(dirname(database));
  const free = bavail * bsize;
  const size = statSync(database, { throwIfNoEntry: false })?.size ?? 0;
  const message = `${Math.floor(free / mebibyte)} MiB free; the database uses ${Math.ceil(size / mebibyte)} MiB`;
  if (free < minFree)
    return [fail('disk', message, 'free some space: on a full disk every write fails with 503')];
  if (free < 2 * size + minFree)
    return [warn('disk', message, 'free enough space for a write-ahead log and a backup of the same size')];
  return [ok('disk', message)];
}
