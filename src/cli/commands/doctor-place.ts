/** What can be told without the database: settings, files and disk. */
import { existsSync, readFileSync, type Stats, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseEnv } from 'node:util';
import { type Config, settingList } from '../../config.ts';
import { callVariables } from '../terminal/connection.ts';
import { shortPath, sqlitePath } from '../terminal/paths.ts';
import { type Check, fail, ok, warn } from './check.ts';
import { projectVariables } from './init.ts';

type Env = Readonly<Record<string, string | undefined>>;

/** What Kubernetes says to every container about a Service called sallyport. */
const fromCluster = /^SALLYPORT_(SERVICE_|PORT$|PORT_\d)/;

export function checkSettings(config: Config, env: Env): Check[] {
  const own = [...settingList, ...callVariables].map(({ variable }) => variable as string);
  const known = [...own, ...projectVariables];
  const given = { ...(parseEnv(envFile()) as Env), ...env };
  const unknown = Object.keys(given).filter(
    (name) =>
      name.startsWith('SALLYPORT_') && given[name] && !known.includes(name) && !fromCluster.test(name),
  );
  const strange = unknown.map((name) =>
    warn('settings', `${name} means nothing`, `${nearest(name, known)} does`),
  );
  const both = config.masterKey && existsSync(config.masterKeyFile);
  const hidden = both
    ? [
        warn(
          'settings',
          `SALLYPORT_MASTER_KEY is used, and ${shortPath(config.masterKeyFile)} is not`,
          'keep one of the two',
        ),
      ]
    : [];
  const found = [...strange, ...hidden];
  return found.length > 0
    ? found
    : [ok('settings', 'every setting is known and has a value that makes sense')];
}

/** The one with the fewest letters in another place. */
function nearest(name: string, known: readonly string[]): string {
  const apart = (other: string) => {
    let row = Array.from({ length: other.length + 1 }, (_, at) => at);
    for (let i = 1; i <= name.length; i++) {
      const next = [i];
      for (let j = 1; j <= other.length; j++) {
        const same = name[i - 1] === other[j - 1] ? 0 : 1;
        next.push(
          Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, (row[j - 1] as number) + same),
        );
      }
      row = next;
    }
    return row.at(-1) as number;
  };
  return known.toSorted((a, b) => apart(a) - apart(b))[0] as string;
}

const forOthers = 0o077;

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
  const found = [
    ...(folder ? looseFolder(config.dataDir, folder) : []),
    ...files.flatMap((path) => looseFile(path, fail, folder)),
    ...data.flatMap((path) => looseFile(path, warn, folder)),
  ];
  return found.length > 0 ? found : [ok('files', 'keys and data are for their owner alone')];
}

function envFile(): string {
  return existsSync('.env') ? readFileSync('.env', 'utf8') : '';
}

function holdsSecrets(text: string): boolean {
  return /^\s*(export\s+)?(SALLYPORT_MASTER_KEY|SALLYPORT_KEY)\s*=|:\/\/[^\s:/]+:[^\s@]+@/m.test(text);
}

function looseFolder(path: string, { mode }: Stats): Check[] {
  if ((mode & forOthers) === 0) return [];
  return [warn('files', `${shortPath(path)} is open to others`, `chmod 700 ${shortPath(path)}`)];
}

function looseFile(path: string, as: typeof fail, folder: Stats | undefined): Check[] {
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file) return [];
  const name = shortPath(path);
  const loose =
    (file.mode & forOthers) === 0 ? [] : [as('files', `${name} is open to others`, `chmod 600 ${name}`)];
  if (!folder || file.uid === folder.uid) return loose;
  const owner = warn(
    'files',
    `${name} belongs to user ${file.uid}, the data folder to ${folder.uid}`,
    'let both belong to the user that runs the service',
  );
  return [...loose, owner];
}

const megabyte = 1024 * 1024;
const least = 64 * megabyte;

/** A backup beside the database, and the log, take as much again. */
export function checkDisk(config: Config): Check[] {
  const database = sqlitePath(config.databaseUrl);
  const folder = database === undefined ? undefined : dirname(database);
  if (database === undefined || folder === undefined || !existsSync(folder)) return [];
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const size = statSync(database, { throwIfNoEntry: false })?.size ?? 0;
  const says = `${Math.floor(free / megabyte)} MiB are free beside a database of ${Math.ceil(size / megabyte)} MiB`;
  if (free < least)
    return [fail('disk', says, 'make room: without it nothing can be written, and the service answers 503')];
  if (free < 2 * size + least)
    return [warn('disk', says, 'make room for a log and a backup of the same size')];
  return [ok('disk', says)];
}
