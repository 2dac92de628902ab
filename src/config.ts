/** Every setting, once: its variable, its flag, what it means, and what it accepts. docs/reference/config.md is made from here. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { Secret } from './domain/key.ts';
import { maxTokenBytes } from './domain/token.ts';
import { parseTrust, type Trust } from './http/pipeline/client-address.ts';
import { parseMasterKeys } from './store/crypto/cipher.ts';
import { defaultTimeout } from './store/engine/db.ts';

/** A wrong value; its message is the one line that the operator sees. */
export class ConfigError extends Error {
  readonly hint: string | undefined;
  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

interface Setting<T> {
  readonly variable: string;
  readonly sentence: string;
  /** Has no flag: what stands in an argument list is seen by everyone on the machine. */
  readonly secret?: true;
  /** As the documentation shows it. All but `unset` may be given as a value. */
  readonly fallback: string;
  /** Of which value to read; may depend on settings above it. Throws a sentence that says what is accepted. */
  readonly parse: (text: string | undefined, settings: { dataDir: string }) => T;
}

/** Where there is no default. */
export const unset = 'unset';

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;

export const settings = {
  dataDir: {
    variable: 'SALLYPORT_DATA_DIR',
    sentence: 'The folder for the database, the master key and the management key.',
    fallback: './data',
    parse: (text) => resolve(text ?? 'data'),
  } satisfies Setting<string>,
  host: {
    variable: 'HOST',
    sentence: 'The address to listen on.',
    fallback: '127.0.0.1',
    parse: (text) => text ?? '127.0.0.1',
  } satisfies Setting<string>,
  port: {
    variable: 'PORT',
    sentence: 'The port to listen on; 0 picks a free one and prints it.',
    fallback: '8080',
    parse: (text) => integer(text, 8080, 0, 65_535),
  } satisfies Setting<number>,
  trustedProxies: {
    variable: 'SALLYPORT_TRUSTED_PROXIES',
    sentence:
      'The proxies in front, as addresses or networks separated by commas. Only they are believed when they say for whom they send.',
    fallback: unset,
    parse: parseTrust,
  } satisfies Setting<Trust>,
  databaseUrl: {
    variable: 'DATABASE_URL',
    sentence: 'Where the data lives: sqlite:PATH for one machine, postgres://… for a fleet.',
    fallback: 'sqlite:<data dir>/sallyport.db',
    parse: databaseUrl,
  } satisfies Setting<string>,
  databaseTimeout: {
    variable: 'SALLYPORT_DATABASE_TIMEOUT',
    sentence: 'How long a request waits for PostgreSQL before it is answered with 503, in milliseconds.',
    fallback: String(defaultTimeout),
    parse: (text) => integer(text, defaultTimeout, 100, 60_000),
  } satisfies Setting<number>,
  managementKeyFile: {
    variable: 'SALLYPORT_MANAGEMENT_KEY_FILE',
    sentence: 'Where the first management key is written, readable by its owner alone.',
    fallback: '<data dir>/management.key',
    parse: (text, { dataDir }) => (text === undefined ? join(dataDir, 'management.key') : resolve(text)),
  } satisfies Setting<string>,
  masterKeyFile: {
    variable: 'SALLYPORT_MASTER_KEY_FILE',
    sentence: 'Where the master key is, which seals the data of Tokens. Made on the first start with SQLite.',
    fallback: '<data dir>/master.key',
    parse: (text, { dataDir }) => (text === undefined ? join(dataDir, 'master.key') : resolve(text)),
  } satisfies Setting<string>,
  masterKey: {
    variable: 'SALLYPORT_MASTER_KEY',
    sentence:
      'The master key itself, instead of a file: base64 of 32 bytes. After a comma, older ones that still open what they sealed.',
    fallback: unset,
    secret: true,
    parse: (text) => (text === undefined ? undefined : checkedMasterKey(text)),
  } satisfies Setting<Secret | undefined>,
  sessionTtl: {
    variable: 'SALLYPORT_SESSION_TTL',
    sentence: 'How long a Session lives, in seconds, unless told otherwise.',
    fallback: '180',
    parse: (text) => integer(text, 180, 1, 31_536_000) * 1000,
  } satisfies Setting<number>,
  sessionTtlMax: {
    variable: 'SALLYPORT_SESSION_TTL_MAX',
    sentence: 'The longest that a Session may live, in seconds from its creation.',
    fallback: '604800',
    parse: (text) => integer(text, 604_800, 1, 31_536_000) * 1000,
  } satisfies Setting<number>,
  keyRate: {
    variable: 'SALLYPORT_RATE_PER_KEY',
    sentence: 'Requests a second that one key may send to one process in the long run; 0 for no limit.',
    fallback: '20000',
    parse: (text) => integer(text, 20_000, 0, 1_000_000),
  } satisfies Setting<number>,
  keyBurst: {
    variable: 'SALLYPORT_BURST_PER_KEY',
    sentence: 'Requests that one key may send at once.',
    fallback: '200000',
    parse: (text) => integer(text, 200_000, 1, 100_000_000),
  } satisfies Setting<number>,
  addressRate: {
    variable: 'SALLYPORT_RATE_PER_ADDRESS',
    sentence:
      'Requests a second that one address, or one /64 of IPv6, may send to one process in the long run; 0 for no limit.',
    fallback: '20000',
    parse: (text) => integer(text, 20_000, 0, 1_000_000),
  } satisfies Setting<number>,
  addressBurst: {
    variable: 'SALLYPORT_BURST_PER_ADDRESS',
    sentence: 'Requests that one address may send at once.',
    fallback: '200000',
    parse: (text) => integer(text, 200_000, 1, 100_000_000),
  } satisfies Setting<number>,
  sessionRate: {
    variable: 'SALLYPORT_SESSIONS_PER_MINUTE',
    sentence:
      'Sessions a minute that one address may create with one public key on one process in the long run; 0 for no limit.',
    fallback: '1200',
    parse: (text) => integer(text, 1200, 0, 1_000_000),
  } satisfies Setting<number>,
  sessionBurst: {
    variable: 'SALLYPORT_SESSIONS_BURST',
    sentence: 'Sessions that one address may create with one public key at once.',
    fallback: '1000',
    parse: (text) => integer(text, 1000, 1, 100_000_000),
  } satisfies Setting<number>,
  sessionsWaiting: {
    variable: 'SALLYPORT_SESSIONS_WAITING',
    sentence: 'How many Sessions of one Application may wait to be authorized; 0 for no limit.',
    fallback: '10000',
    parse: (text) => integer(text, 10_000, 0, 10_000_000),
  } satisfies Setting<number>,
  tokenRate: {
    variable: 'SALLYPORT_TOKENS_PER_MINUTE',
    sentence:
      'Tokens that one application, with its sessions, may create or change in a minute on one process; 0 for no limit.',
    fallback: '30000',
    parse: (text) => integer(text, 30_000, 0, 100_000_000),
  } satisfies Setting<number>,
  tokenByteRate: {
    variable: 'SALLYPORT_TOKEN_BYTES_PER_MINUTE',
    sentence:
      'Bytes of token requests that one application, with its sessions, may send in a minute to one process: at least 1048576, the largest request; 0 for no limit.',
    fallback: '134217728',
    parse: (text) => zeroOrInteger(text, 134_217_728, maxTokenBytes, 1_000_000_000_000),
  } satisfies Setting<number>,
  tokenBytes: {
    variable: 'SALLYPORT_TOKEN_BYTES_PER_APPLICATION',
    sentence:
      'Bytes of tokens that one application, with its sessions, may have stored, each token rounded up to 4 KiB; 0 for no limit.',
    fallback: '21474836480',
    parse: (text) => integer(text, 21_474_836_480, 0, 999_999_999_999_999),
  } satisfies Setting<number>,
  workers: {
    variable: 'SALLYPORT_WORKERS',
    sentence: 'How many processes share the port.',
    fallback: '1',
    parse: (text) => integer(text, 1, 1, 64),
  } satisfies Setting<number>,
  metricsPort: {
    variable: 'SALLYPORT_METRICS_PORT',
    sentence:
      'The port for Prometheus, on the same address; with several workers, each has the next one. 0 picks a free one and prints it. Without it, nothing is measured.',
    fallback: unset,
    parse: (text) => (text === undefined ? undefined : integer(text, 0, 0, 65_535)),
  } satisfies Setting<number | undefined>,
  drain: {
    variable: 'SALLYPORT_DRAIN',
    sentence: 'How long it goes on serving after it was told to stop, in seconds, while /readyz says no.',
    fallback: '1',
    parse: (text) => integer(text, 1, 0, 300) * 1000,
  } satisfies Setting<number>,
  logLevel: {
    variable: 'SALLYPORT_LOG_LEVEL',
    sentence: `How much to log: ${logLevels.join(', ')}.`,
    fallback: 'info',
    parse: (text) => oneOf(text ?? 'info', logLevels),
  } satisfies Setting<(typeof logLevels)[number]>,
};

export type Config = { readonly [K in keyof typeof settings]: ReturnType<(typeof settings)[K]['parse']> };

export const settingList: readonly Setting<unknown>[] = Object.values(settings);

/** `--session-ttl` for SALLYPORT_SESSION_TTL, `--port` for PORT. */
export function flagOf(variable: string): string {
  return variable
    .replace(/^SALLYPORT_/, '')
    .toLowerCase()
    .replaceAll('_', '-');
}

/** By the name that it was given. */
function sourceOf(variable: string, flags: Values = {}): string {
  return flags[flagOf(variable)] ? `--${flagOf(variable)} (${variable})` : variable;
}

type Values = Record<string, string | undefined>;

/** Flag beats environment beats `.env` beats default. An empty value counts as not given. */
export function readConfig(sources: { flags?: Values; env?: Values; envFile?: string }): Config {
  const file = readEnvFile(sources.envFile);
  const entries: [string, unknown][] = [];
  for (const [name, setting] of Object.entries(settings)) {
    const flag = flagOf(setting.variable);
    const text =
      sources.flags?.[flag] || sources.env?.[setting.variable] || file[setting.variable] || undefined;
    try {
      entries.push([name, setting.parse(text, Object.fromEntries(entries) as { dataDir: string })]);
    } catch (error) {
      throw new ConfigError(`${sourceOf(setting.variable, sources.flags)} ${(error as Error).message}`);
    }
  }
  const config = Object.fromEntries(entries) as Config;
  if (config.sessionTtl > config.sessionTtlMax) {
    throw new ConfigError('SALLYPORT_SESSION_TTL must not be longer than SALLYPORT_SESSION_TTL_MAX');
  }
  refuseHighPorts(config, sourceOf('SALLYPORT_METRICS_PORT', sources.flags));
  return config;
}

/** Each worker takes the next port for its figures. */
function refuseHighPorts({ metricsPort, workers }: Config, name: string): void {
  const most = 65_536 - workers;
  if (metricsPort === undefined || metricsPort <= most) return;
  const why = `each of ${workers} workers takes the next port`;
  throw new ConfigError(`${name} must be at most ${most}, not "${metricsPort}": ${why}`);
}

function readEnvFile(path: string | undefined): Values {
  if (path === undefined) return {};
  try {
    return parseEnv(readFileSync(path, 'utf8')) as Values;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new ConfigError(`.env cannot be read: ${(error as Error).message}`);
  }
}

function integer(text: string | undefined, fallback: number, least: number, most: number): number {
  if (text === undefined) return fallback;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new Error(`must be a whole number from ${least} to ${most}, not ${JSON.stringify(text)}`);
}

function zeroOrInteger(text: string | undefined, fallback: number, least: number, most: number): number {
  if (text === '0') return 0;
  try {
    return integer(text, fallback, least, most);
  } catch {
    throw new Error(`must be 0 or a whole number from ${least} to ${most}, not ${JSON.stringify(text)}`);
  }
}

function oneOf<T extends string>(text: string, values: readonly T[]): T {
  if ((values as readonly string[]).includes(text)) return text as T;
  throw new Error(`must be one of ${values.join(', ')}, not ${JSON.stringify(text)}`);
}

/** The value may hold a password, so the sentence does not repeat it. */
function databaseUrl(text: string | undefined, { dataDir }: { dataDir: string }): string {
  if (text === undefined) return `sqlite:${join(dataDir, 'sallyport.db')}`;
  if (/^sqlite:./.test(text)) return `sqlite:${resolve(text.slice('sqlite:'.length))}`;
  if (/^postgres(ql)?:\/\//.test(text) && URL.canParse(text)) return text;
  throw new Error('must be sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME');
}

function checkedMasterKey(text: string): Secret {
  parseMasterKeys(text);
  return new Secret(text);
}
