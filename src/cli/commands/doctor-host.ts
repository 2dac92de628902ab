/** Checks that need no database: settings, files and disk. */
import { accessSync, constants, existsSync, readFileSync, type Stats, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseEnv } from 'node:util';
import { type Config, settingList } from '../../config/settings.ts';
import { configuredProviders, type Provider, redirectUri } from '../../config/sign-in.ts';
import { defaultPassfile, parsePostgresUrl } from '../../db/postgres/postgres-url.ts';
import { neededFree } from '../../db/sqlite/sqlite.ts';
import { type Check, fail, ok, warn } from '../../operations/check.ts';
import { usesKeyFile } from '../../operations/master-key.ts';
import { fetchDocument } from '../../outbound/request.ts';
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
  if (!usesKeyFile(config) && existsSync(config.masterKeyFile)) {
    const variable = config.masterKey ? 'SALLYPORT_MASTER_KEY' : 'SALLYPORT_MASTER_KEY_COMMAND';
    const message = `${variable} is set, so ${shortPath(config.masterKeyFile)} is ignored`;
    const hint = `unset ${variable}, or move ${shortPath(config.masterKeyFile)} away`;
    found.push(warn('settings', message, hint));
  }
  return found.length > 0 ? found : [ok('settings', 'all settings are known and valid')];
}

/** Whether the providers answer. Throws `ConfigError` if their settings do not fit together. */
export async function checkSignIn(config: Config): Promise<Check[]> {
  const check = async ({ issuer }: Provider, at: number): Promise<Check> => {
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    try {
      const found = JSON.parse(await fetchDocument(new URL(url), () => true)) as { issuer?: unknown };
      if (found.issuer !== issuer) throw new Error(`the issuer there is ${found.issuer}`);
      return ok('sign-in', `${issuer} answers; its redirect URI is ${redirectUri(config, at + 1)}`);
    } catch (error) {
      const hint = 'check SALLYPORT_OIDC_ISSUER: it must equal `issuer` of that document';
      return fail('sign-in', `${url}: ${(error as Error).message}`, hint);
    }
  };
  return Promise.all(configuredProviders(config).map(check));
}

const groupAndOthers = 0o077;

/** `env` tells whether this is a container of Kubernetes. */
export function checkFiles(config: Config, env: Env): Check[] {
  if (process.getuid === undefined) return [];
  const folder = statSync(config.dataDir, { throwIfNoEntry: false });
  const database = sqlitePath(config.databaseUrl);
  const files = [
    config.managementKeyFile,
    ...(usesKeyFile(config) ? [config.masterKeyFile] : []),
    ...(config.oidcClientSecretFile === undefined ? [] : [config.oidcClientSecretFile]),
    ...(holdsSecrets(envFile()) ? ['.env'] : []),
  ];
  const data = database === undefined ? [] : ['', '-wal', '-shm', '-lock'].map((part) => database + part);
  const name = shortPath(config.dataDir);
  const isVolume = folder !== undefined && isKubernetesVolume(folder, env);
  const owner = isVolume ? process.getuid() : folder?.uid;
  const found = [
    ...(folder && !isVolume ? checkFolder(name, folder) : []),
    ...files.flatMap((path) => checkFile(path, fail, owner)),
    ...data.flatMap((path) => checkFile(path, warn, owner)),
    ...(database === undefined ? checkPostgresFiles(config.databaseUrl) : []),
  ];
  return found.length > 0 ? found : [ok('files', 'only the owner can read keys and data')];
}

function envFile(): string {
  return existsSync('.env') ? readFileSync('.env', 'utf8') : '';
}

function holdsSecrets(text: string): boolean {
  return /^\s*(export\s+)?(SALLYPORT_MASTER_KEY|SALLYPORT_KEY|SALLYPORT_OIDC_CLIENT_SECRET)\s*=|:\/\/[^\s:/]+:[^\s@]+@/m.test(
    text,
  );
}

function isShared({ mode }: Stats): boolean {
  return (mode & groupAndOthers) !== 0;
}

/**
 * Kubernetes makes root the owner of a volume and `fsGroup` of the pod its group, and sets the setgid bit. Some volumes
 * are writable by all users, but only containers of the pod can reach them.
 */
function isKubernetesVolume({ uid, gid, mode }: Stats, env: Env): boolean {
  const isVolume = uid === 0 && (mode & 0o2000) !== 0 && isOwnGroup(gid);
  return isVolume && (!isWritableByOthers(mode) || Boolean(env.KUBERNETES_SERVICE_HOST));
}

function checkFolder(name: string, folder: Stats): Check[] {
  const hint = `chmod 700 ${name}`;
  if (isWritableByOthers(folder.mode))
    return [fail('files', `all users can write to ${name}, and so replace the keys and the data`, hint)];
  return isShared(folder) ? [warn('files', `${name} is readable by other users`, hint)] : [];
}

function isWritableByOthers(mode: number): boolean {
  return (mode & 0o002) !== 0;
}

/** A file of root that a group of this process may read, such as a Kubernetes secret with `fsGroup`. */
function isMountedSecret({ uid, gid, mode }: Stats): boolean {
  return uid === 0 && (mode & 0o777) === 0o440 && isOwnGroup(gid);
}

function isOwnGroup(gid: number): boolean {
  return process.getgid?.() === gid || (process.getgroups?.() ?? []).includes(gid);
}

/** `owner` is the user that owns the other files. Undefined if not known. */
function checkFile(path: string, result: typeof fail, owner: number | undefined): Check[] {
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file) return [];
  const name = shortPath(path);
  const found: Check[] = [];
  const isMounted = isMountedSecret(file);
  if (isShared(file) && !isMounted)
    found.push(result('files', `${name} is readable by other users`, `chmod 600 ${name}`));
  // If root runs `doctor`, the groups of this process are not those of the service.
  const isReadable = isMounted && process.getuid?.() !== 0;
  if (owner !== undefined && file.uid !== owner && !isReadable)
    found.push(
      warn(
        'files',
        `${name} belongs to user ${file.uid}, the data folder to ${owner}`,
        `run the service as one user that owns both: chown ${owner} ${name}`,
      ),
    );
  return found;
}

/**
 * Checks the password file and the client key in the URL of a PostgreSQL database. Other problems with them become
 * errors when the database is opened.
 */
function checkPostgresFiles(databaseUrl: string): Check[] {
  const { password, passfile, sslkey } = parsePostgresUrl(databaseUrl);
  const isUnused = password !== undefined || passfile === defaultPassfile();
  return [
    ...(isUnused || existsSync(passfile)
      ? []
      : [
          warn(
            'files',
            `the password file ${shortPath(passfile)} does not exist`,
            'create it, or correct `passfile` in DATABASE_URL or PGPASSFILE',
          ),
        ]),
    ...(sslkey === undefined || isGroupKeyOfRoot(sslkey) ? [] : checkFile(sslkey, warn, undefined)),
  ];
}

/** A client key of root that its group may read. PostgreSQL's own clients accept such keys. */
function isGroupKeyOfRoot(path: string): boolean {
  const file = statSync(path, { throwIfNoEntry: false });
  return file?.uid === 0 && (file.mode & 0o037) === 0;
}

const mebibyte = 1024 * 1024;

/** Fails if a service could not recover from a full disk. Warns unless there is also space for a backup and a write-ahead log, each as large as the database. */
export function checkDisk(config: Config): Check[] {
  const database = sqlitePath(config.databaseUrl);
  if (database === undefined || !existsSync(dirname(database))) return [];
  if (isReadOnly(dirname(database))) {
    const hint =
      'mount it writable: on a read-only file system, the service does not start, and changes get 503';
    return [fail('disk', `the file system of ${shortPath(dirname(database)) || '.'} is read-only`, hint)];
  }
  const { bavail, bsize } = statfsSync(dirname(database));
  const free = bavail * bsize;
  const size = statSync(database, { throwIfNoEntry: false })?.size ?? 0;
  const folder = shortPath(dirname(database)) || '.';
  const message = `${Math.floor(free / mebibyte)} MiB free; the database uses ${Math.ceil(size / mebibyte)} MiB`;
  if (free < neededFree) {
    const hint = `free at least ${neededFree / mebibyte} MiB on the disk of ${folder}: otherwise most changes fail with 503 once it is full`;
    return [fail('disk', message, hint)];
  }
  if (free < 2 * size + neededFree) {
    const hint = `free space on the disk of ${folder} for a write-ahead log and a backup, each as large as the database`;
    return [warn('disk', message, hint)];
  }
  return [ok('disk', message)];
}

function isReadOnly(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EROFS';
  }
}
