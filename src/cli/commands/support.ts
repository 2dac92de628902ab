import { closeSync, existsSync, openSync, readFileSync, readSync, statSync, writeFileSync } from 'node:fs';
import { arch, cpus, release, totalmem } from 'node:os';
import { gzipSync } from 'node:zlib';
import { type Config, settings } from '../../config/settings.ts';
import { build } from '../../config/version.ts';
import { commandTimeout, type Db } from '../../db/db.ts';
import { newestSchema } from '../../db/migrate.ts';
import { openPostgres } from '../../db/postgres/postgres.ts';
import { parsePostgresUrl } from '../../db/postgres/postgres-url.ts';
import { redactSecrets, Secret } from '../../domain/key.ts';
import { knownPositions } from '../../operations/known-positions.ts';
import { usesKeyFile } from '../../operations/master-key.ts';
import { readSlowPlans, readTables } from '../../store/operator-queries.ts';
import { readFrom, schemaText } from '../../store/sqlite-backup.ts';
import { type Invocation, type LocalCommand, option } from '../command.ts';
import { databaseLabel, requireDatabase, sqlitePath } from '../terminal/database.ts';
import { createFile, requireUnused } from '../terminal/files.ts';
import { runChecks } from './doctor.ts';

export const commands: LocalCommand = {
  usage: 'support <FILE>',
  summary: 'Write an archive without secrets for a support request.',
  details:
    'FILE is a new .tar.gz file (mode 0600) with versions, settings, the results of `doctor`, metrics, the end of the log, the schema, and, on PostgreSQL with pg_stat_statements, the plans of the ten slowest statements. Prints what is in it, and what is missing for which reason. Contains no keys, passwords or token data, but names of machines and, in the log, addresses of clients.',
  options: [option('log FILE', 'Add the end of this log file of the service.')],
  examples: ['sallyport support support.tar.gz --log /var/log/sallyport.log'],
  run: support,
};

async function support(invocation: Invocation): Promise<number> {
  const path = invocation.args[0] as string;
  requireUnused(path);
  const { config } = invocation;
  const sources: Record<string, () => string | Promise<string>> = {
    'versions.json': () => toJson(versions()),
    'settings.json': () => toJson(shownSettings(config)),
    'doctor.json': async () => toJson(await runChecks(invocation)),
    'metrics.txt': () => readMetrics(config),
    'log.txt': () => readLog(invocation.options.value('log')),
    'schema.txt': () => readSchema(config),
    'plans.txt': () => readPlans(config),
  };
  const secrets = secretsOf(config, invocation.terminal.env);
  const files: Record<string, string> = {};
  const missing: Record<string, string> = {};
  for (const [name, read] of Object.entries(sources))
    try {
      files[name] = withoutSecrets(await read(), secrets);
    } catch (error) {
      missing[name] = withoutSecrets((error as Error).message, secrets);
    }
  const lines = [
    ...Object.entries(files).map(([name, text]) => `${name.padEnd(14)} ${Buffer.byteLength(text)} bytes`),
    ...Object.entries(missing).map(([name, reason]) => `${name.padEnd(14)} missing: ${reason}`),
  ];
  const archive = new Bun.Archive({ ...files, 'contents.txt': `${lines.join('\n')}\n` });
  const file = createFile(path);
  writeFileSync(file, gzipSync(await archive.bytes()));
  closeSync(file);
  return invocation.printResult(
    { file: path, files: Object.keys(files), missing },
    [`wrote ${path} with:`, ...lines].join('\n'),
  );
}

function toJson(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

function versions() {
  return {
    build: build(),
    schema: newestSchema,
    bun: Bun.version,
    system: `${process.platform} ${release()} ${arch()}`,
    processors: cpus().length,
    memory: totalmem(),
    memory_limit: process.constrainedMemory(),
  };
}

/** A setting whose value can contain a secret, or has no text, is only `set`. */
function shownSettings(config: Config): Record<string, unknown> {
  const shown = (value: unknown) =>
    value instanceof Secret || typeof value === 'function' || value === config.masterKeyCommand
      ? 'set'
      : value;
  const entries = Object.entries(settings).map(([name, { variable }]) => {
    const value = config[name as keyof Config];
    return [variable, value === undefined ? 'unset' : shown(value)];
  });
  return { ...Object.fromEntries(entries), DATABASE_URL: databaseLabel(config.databaseUrl) };
}

async function readMetrics({ host, metricsPort }: Config): Promise<string> {
  if (!metricsPort) throw new Error('SALLYPORT_METRICS_PORT is not set');
  const local = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[host] ?? (host.includes(':') ? `[${host}]` : host);
  const url = `http://${local}:${metricsPort}/metrics`;
  const response = await fetch(url, { signal: AbortSignal.timeout(5000) }).catch((error) => {
    throw new Error(`${url} does not answer: ${error.message}`);
  });
  return response.text();
}

const logBytes = 2 ** 20;

function readLog(path: string | undefined): string {
  if (path === undefined) throw new Error('the service logs to standard error: pass its file with --log');
  const { size } = statSync(path);
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(Math.min(size, logBytes));
    const read = readSync(file, bytes, 0, bytes.length, size - bytes.length);
    const text = bytes.toString('utf8', 0, read);
    // The first line may be incomplete.
    return size > logBytes ? text.slice(text.indexOf('\n') + 1) : text;
  } finally {
    closeSync(file);
  }
}

async function readSchema(config: Config): Promise<string> {
  const path = sqlitePath(config.databaseUrl);
  if (path === undefined) return onPostgres(config, readTables);
  requireDatabase(config);
  return readFrom(path, schemaText);
}

async function readPlans(config: Config): Promise<string> {
  if (sqlitePath(config.databaseUrl) !== undefined) throw new Error('only on PostgreSQL');
  return onPostgres(config, readSlowPlans);
}

async function onPostgres<T>(config: Config, read: (db: Db) => Promise<T>): Promise<T> {
  const db = openPostgres(config.databaseUrl, undefined, commandTimeout, 2, knownPositions(config));
  try {
    return await read(db);
  } finally {
    await db.close();
  }
}

const secretName = /SECRET|PASSWORD|TOKEN$|KEY$|HEADERS|CREDENTIAL/i;
const minSecret = 6;

type Env = Readonly<Record<string, string | undefined>>;

/** Texts that no file of the archive may contain, in case a message quotes one. */
function secretsOf(config: Config, env: Env): string[] {
  const { masterKey, sink, sinksFile, oidcClientSecret, oidcClientSecretFile, databaseUrl } = config;
  const postgres = sqlitePath(databaseUrl) === undefined ? parsePostgresUrl(databaseUrl) : undefined;
  const keyFiles = [config.managementKeyFile, ...(usesKeyFile(config) ? [config.masterKeyFile] : [])];
  const sinks = [sink?.reveal() ?? '', readIfExists(sinksFile)].filter((text) => text !== '');
  const named = Object.entries(env).filter(([name]) => secretName.test(name));
  // The password is the fifth field of a line.
  const passwords = readIfExists(postgres?.passfile).replace(/^(?:(?:\\.|[^:\\\n])*:){4}/gm, '');
  return [
    ...(masterKey?.reveal() ?? '').split(/\s+/),
    ...keyFiles.flatMap((path) => readIfExists(path).split(/\s+/)),
    ...sinks.flatMap((text) => leavesOf(JSON.parse(text), env)),
    ...named.map(([, value]) => value ?? ''),
    ...passwords.split('\n').flatMap((line) => [line, line.replace(/\\(.)/g, '$1')]),
    oidcClientSecret?.reveal() ?? '',
    readIfExists(oidcClientSecretFile).trim(),
    postgres?.password ?? '',
  ]
    .filter((text) => text.length >= minSecret)
    .toSorted((a, b) => b.length - a.length);
}

function readIfExists(path: string | undefined): string {
  return path !== undefined && existsSync(path) ? readFileSync(path, 'utf8') : '';
}

/** The values in the configuration of sinks, except names and types. */
function leavesOf(value: unknown, env: Env, name = ''): string[] {
  if (typeof value === 'string') {
    if (name === 'name' || name === 'type') return [];
    if (name === 'file') return [readIfExists(value).trim()];
    return [name === 'env' ? (env[value] ?? '') : value];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => leavesOf(each, env, key));
}

function withoutSecrets(text: string, secrets: readonly string[]): string {
  let clean = redactSecrets(text).replace(/:\/\/[^\s/@"]*@/g, '://[secret]@');
  for (const secret of secrets)
    for (const form of [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1)])
      clean = clean.replaceAll(form, '[secret]');
  return clean;
}
