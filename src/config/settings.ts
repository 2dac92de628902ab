/** Declares every setting once. Flags, help and docs/reference/config.md are generated from here. */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { defaultConnections, defaultTimeout } from '../db/db.ts';
import { type AuditedReads, auditedReads } from '../domain/audit.ts';
import type { Age } from '../domain/duration.ts';
import { Secret } from '../domain/key.ts';
import { longestSession } from '../domain/session.ts';
import { maxTokenBytes } from '../domain/token.ts';
import { parseTrust, type Trust, trustNobody } from './trusted-proxies.ts';
import {
  age,
  checkedMasterKey,
  commandLine,
  databaseUrl,
  integer,
  issuerUrls,
  oneOf,
  type Setting,
  variableNames,
  whole,
  words,
  zeroOrInteger,
} from './values.ts';

/** An invalid setting. Operators see the message and the hint. */
export class ConfigError extends Error {
  readonly hint: string | undefined;
  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

/** Shown for settings without a default. */
export const unset = 'unset';

const trueOrFalse = (text: string | undefined) => oneOf(text ?? 'false', ['true', 'false']) === 'true';

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;

export const settings = {
  dataDir: {
    variable: 'SALLYPORT_DATA_DIR',
    description: 'Folder for the database, the master key and the management key.',
    fallback: './data',
    parse: (text) => resolve(text ?? 'data'),
  } satisfies Setting<string>,
  host: {
    variable: 'HOST',
    description: 'Address to listen on. 0.0.0.0 or :: means all addresses.',
    fallback: '127.0.0.1',
    parse: (text) => text ?? '127.0.0.1',
  } satisfies Setting<string>,
  port: {
    variable: 'PORT',
    description: 'Port to listen on. 0 picks a free port and prints it.',
    ...whole(8080, 0, 65_535),
  },
  publicUrl: {
    variable: 'SALLYPORT_PUBLIC_URL',
    description:
      'Public URL of the service, such as https://keys.example.com, if a reverse proxy changes the scheme, host or path. Bound sessions need it behind a proxy.',
    fallback: unset,
    parse: parsePublicUrl,
  } satisfies Setting<string | undefined>,
  framesUrl: {
    variable: 'SALLYPORT_FRAMES_URL',
    description:
      'Origin of the frames with input fields, such as https://frames.example.com: a second host name of this service. Requests with this host name get only frames and the endpoints that frames call. Frames are off if unset: see docs/guides/frames.md.',
    fallback: unset,
    parse: parseFramesUrl,
  } satisfies Setting<string | undefined>,
  nodeUrl: {
    variable: 'SALLYPORT_NODE_URL',
    description:
      'Where other nodes reach this node, such as http://10.0.0.5:8080. They ask it before they use a database server that could be behind. Without it, the address in HOST, or the host name if that means all addresses, and the port.',
    fallback: unset,
    parse: parsePublicUrl,
  } satisfies Setting<string | undefined>,
  witness: {
    variable: 'SALLYPORT_WITNESS',
    description:
      'PostgreSQL: a file that all nodes share, on another machine than the database. `sallyport migrate` creates it with a new database; otherwise create it empty. Nodes write the position of the database to it every five seconds, so that a new node recognizes an old primary: see docs/operations/postgresql.md.',
    fallback: unset,
    parse: (text) => (text === undefined ? undefined : resolve(text)),
  } satisfies Setting<string | undefined>,
  witnessOptional: {
    variable: 'SALLYPORT_WITNESS_OPTIONAL',
    description:
      'true: a node starts although the witness cannot be read. false: it does not, because it could not know whether the database is behind.',
    fallback: 'false',
    parse: trueOrFalse,
  } satisfies Setting<boolean>,
  trustedProxies: {
    variable: 'SALLYPORT_TRUSTED_PROXIES',
    description:
      'Addresses or networks of reverse proxies, separated by commas. Only these proxies may set X-Forwarded-For or Forwarded.',
    fallback: unset,
    parse: parseTrust,
  } satisfies Setting<Trust>,
  issuerNetworks: {
    variable: 'SALLYPORT_ISSUER_NETWORKS',
    description:
      'Addresses or networks that are not public and where trusted issuers may be, separated by commas. The keys of other issuers are fetched only from public addresses.',
    fallback: unset,
    parse: parseTrust,
  } satisfies Setting<Trust>,
  destinationNetworks: {
    variable: 'SALLYPORT_DESTINATION_NETWORKS',
    description:
      'Addresses or networks that are not public, separated by commas, to which destinations may resolve. By default none.',
    fallback: unset,
    parse: parseTrust,
  } satisfies Setting<Trust>,
  databaseUrl: {
    variable: 'DATABASE_URL',
    description: 'Database to use: sqlite:PATH for one machine, postgres://… for several nodes.',
    fallback: 'sqlite:<data dir>/sallyport.db',
    parse: databaseUrl,
  } satisfies Setting<string>,
  requireExisting: {
    variable: 'SALLYPORT_REQUIRE_EXISTING',
    description:
      'true: `serve` and `migrate` fail if the database does not exist or is empty, for example because a volume is not mounted. false: they create it, with new keys.',
    fallback: 'false',
    parse: trueOrFalse,
  } satisfies Setting<boolean>,
  databaseTimeout: {
    variable: 'SALLYPORT_DATABASE_TIMEOUT',
    description: 'Timeout of PostgreSQL queries, in milliseconds. A request that waits longer gets 503.',
    ...whole(defaultTimeout, 200, 60_000),
  },
  databaseConnections: {
    variable: 'SALLYPORT_DATABASE_CONNECTIONS',
    description: 'Maximum number of connections per process to each PostgreSQL server.',
    ...whole(defaultConnections, 2, 1000),
  },
  managementKeyFile: {
    variable: 'SALLYPORT_MANAGEMENT_KEY_FILE',
    description: 'File to which the first start writes the management key (mode 0600).',
    fallback: '<data dir>/management.key',
    parse: (text, { dataDir }) => (text === undefined ? join(dataDir, 'management.key') : resolve(text)),
  } satisfies Setting<string>,
  masterKeyFile: {
    variable: 'SALLYPORT_MASTER_KEY_FILE',
    description:
      'File with the master key, without which token data cannot be decrypted. The first start on SQLite creates it. Older keys may follow, one per line.',
    fallback: '<data dir>/master.key',
    parse: (text, { dataDir }) => (text === undefined ? join(dataDir, 'master.key') : resolve(text)),
  } satisfies Setting<string>,
  masterKey: {
    variable: 'SALLYPORT_MASTER_KEY',
    description:
      'Master key in base64 (32 bytes), instead of the file. Older keys may follow, separated by commas; they only decrypt.',
    fallback: unset,
    secret: true,
    parse: (text) => (text === undefined ? undefined : checkedMasterKey(text)),
  } satisfies Setting<Secret | undefined>,
  masterKeyCommand: {
    variable: 'SALLYPORT_MASTER_KEY_COMMAND',
    description:
      'Program with arguments that prints the master key, instead of the file: see docs/operations/master-key-command.md. Not allowed in .env.',
    fallback: unset,
    notInEnvFile: true,
    parse: commandLine,
  } satisfies Setting<readonly string[] | undefined>,
  masterKeyCommandEnv: {
    variable: 'SALLYPORT_MASTER_KEY_COMMAND_ENV',
    description:
      'Names of environment variables that the command gets besides PATH, HOME, LANG and TZ, separated by commas, such as VAULT_ADDR,VAULT_TOKEN. Not allowed in .env.',
    fallback: unset,
    notInEnvFile: true,
    parse: variableNames,
  } satisfies Setting<readonly string[]>,
  sessionTtl: {
    variable: 'SALLYPORT_SESSION_TTL',
    description: 'Default lifetime of a session, in seconds.',
    ...whole(180, 1, longestSession / 1000, 1000),
  },
  sessionTtlMax: {
    variable: 'SALLYPORT_SESSION_TTL_MAX',
    description: 'Maximum lifetime of a session, in seconds from its creation.',
    ...whole(604_800, 1, longestSession / 1000, 1000),
  },
  keyRate: {
    variable: 'SALLYPORT_RATE_PER_KEY',
    description: 'Rate limit per key and process, in requests per second. 0 disables it.',
    ...whole(20_000, 0, 1_000_000),
  },
  keyBurst: {
    variable: 'SALLYPORT_BURST_PER_KEY',
    description: 'Burst per key: number of requests accepted before the rate limit applies.',
    ...whole(200_000, 1, 100_000_000),
  },
  addressRate: {
    variable: 'SALLYPORT_RATE_PER_ADDRESS',
    description:
      'Rate limit per client address (for IPv6, per /64 network) and process, in requests per second. 0 disables it.',
    ...whole(20_000, 0, 1_000_000),
  },
  addressBurst: {
    variable: 'SALLYPORT_BURST_PER_ADDRESS',
    description: 'Burst per client address: number of requests accepted before the rate limit applies.',
    ...whole(200_000, 1, 100_000_000),
  },
  sessionRate: {
    variable: 'SALLYPORT_SESSIONS_PER_MINUTE',
    description:
      'Rate limit for new sessions per client address, public key and process, in sessions per minute. 0 disables it.',
    ...whole(1200, 0, 1_000_000),
  },
  sessionBurst: {
    variable: 'SALLYPORT_SESSIONS_BURST',
    description:
      'Burst per client address and public key: number of new sessions accepted before the rate limit applies.',
    ...whole(1000, 1, 100_000_000),
  },
  pendingSessions: {
    variable: 'SALLYPORT_PENDING_SESSIONS_PER_APPLICATION',
    description:
      'Maximum number of pending sessions, of delegations, and of active sessions with more than 4 KiB of rules, per application. 0 disables the limit.',
    ...whole(10_000, 0, 10_000_000),
  },
  revocationRate: {
    variable: 'SALLYPORT_REVOCATIONS_PER_MINUTE',
    description:
      'Rate limit for POST /keys/revoke per client address and process, in requests per minute. 0 disables it.',
    ...whole(60, 0, 1_000_000),
  },
  exchangeRate: {
    variable: 'SALLYPORT_EXCHANGES_PER_MINUTE',
    description:
      'Rate limit for POST /oauth/token per client address and process, in requests per minute. 0 disables it.',
    ...whole(600, 0, 1_000_000),
  },
  tokenRate: {
    variable: 'SALLYPORT_TOKENS_PER_MINUTE',
    description:
      'Rate limit for token writes per application (with its sessions) and process, in tokens per minute. 0 disables it.',
    ...whole(30_000, 0, 100_000_000),
  },
  tokenByteRate: {
    variable: 'SALLYPORT_TOKEN_BYTES_PER_MINUTE',
    description:
      'Rate limit for token request bodies per application (with its sessions) and process, in bytes per minute. At least 1048576 (1 MiB, the largest request), or 0 to disable it.',
    fallback: '134217728',
    parse: (text) => zeroOrInteger(text, 134_217_728, maxTokenBytes, 1_000_000_000_000),
  } satisfies Setting<number>,
  searchRate: {
    variable: 'SALLYPORT_SEARCHES_PER_MINUTE',
    description:
      'Rate limit for searches of tokens per application (with its sessions) and process, in searches per minute. 0 disables it.',
    ...whole(600, 0, 100_000_000),
  },
  searchMissRate: {
    variable: 'SALLYPORT_SEARCH_MISSES_PER_MINUTE',
    description:
      'Rate limit for searches that find no token, such as guesses, per application (with its sessions) and process, in searches per minute. 0 disables it.',
    ...whole(60, 0, 100_000_000),
  },
  useRate: {
    variable: 'SALLYPORT_USES_PER_TOKEN',
    description:
      'Rate limit for uses of a token at destinations per process, in uses per minute. The status of a destination can answer guesses. 0 disables it.',
    ...whole(30, 0, 100_000_000),
  },
  processingRate: {
    variable: 'SALLYPORT_PROCESSING_PER_APPLICATION',
    description:
      'Rate limit for long computations per application (with its sessions) and process, in milliseconds of processing per second. The burst is twenty times as much. 0 disables it.',
    ...whole(500, 0, 1000),
  },
  tokenBytes: {
    variable: 'SALLYPORT_TOKEN_BYTES_PER_APPLICATION',
    description:
      'Storage quota per application (with its sessions), in bytes. Counts what tokens and idempotency records take in the database. 0 disables it.',
    ...whole(21_474_836_480, 0, 999_999_999_999_999),
  },
  auditReads: {
    variable: 'SALLYPORT_AUDIT_READS',
    description:
      'Which reads of token data the audit log records. reveal: every response with plaintext. all: masked and redacted reads, too, aggregated per minute. off: none. Reads in quarantine are always recorded.',
    fallback: 'reveal',
    parse: (text) => oneOf(text ?? 'reveal', auditedReads),
  } satisfies Setting<AuditedReads>,
  sinksFile: {
    variable: 'SALLYPORT_SINKS_FILE',
    description:
      'YAML or JSON file with the sinks that receive the audit log: see docs/operations/audit-delivery.md.',
    fallback: unset,
    parse: (text) => (text === undefined ? undefined : resolve(text)),
  } satisfies Setting<string | undefined>,
  sink: {
    variable: 'SALLYPORT_SINK',
    description:
      'One sink as JSON or YAML, in addition to those in the file. Its name is "default" if it has none.',
    fallback: unset,
    secret: true,
    parse: (text) => (text === undefined ? undefined : new Secret(text)),
  } satisfies Setting<Secret | undefined>,
  oidcIssuers: {
    variable: 'SALLYPORT_OIDC_ISSUER',
    description:
      'Issuer of the OpenID Connect provider at which people sign in to the console. Several are separated by spaces: their client ids and secrets then have the same order. Needs SALLYPORT_PUBLIC_URL. See docs/guides/sign-in.md.',
    fallback: unset,
    parse: issuerUrls,
  } satisfies Setting<readonly string[]>,
  oidcClientIds: {
    variable: 'SALLYPORT_OIDC_CLIENT_ID',
    description: 'Client id of the console at the provider.',
    fallback: unset,
    parse: words,
  } satisfies Setting<readonly string[]>,
  oidcClientSecret: {
    variable: 'SALLYPORT_OIDC_CLIENT_SECRET',
    description: 'Client secret of the console at the provider.',
    fallback: unset,
    secret: true,
    parse: (text) => (text === undefined ? undefined : new Secret(text)),
  } satisfies Setting<Secret | undefined>,
  oidcClientSecretFile: {
    variable: 'SALLYPORT_OIDC_CLIENT_SECRET_FILE',
    description: 'File with the client secret, instead of SALLYPORT_OIDC_CLIENT_SECRET.',
    fallback: unset,
    parse: (text) => (text === undefined ? undefined : resolve(text)),
  } satisfies Setting<string | undefined>,
  oidcScope: {
    variable: 'SALLYPORT_OIDC_SCOPE',
    description:
      'Scopes that are requested from the provider. Some send groups only for a scope such as groups.',
    fallback: 'openid profile email',
    parse: (text) => text ?? 'openid profile email',
  } satisfies Setting<string>,
  consoleSessionIdle: {
    variable: 'SALLYPORT_CONSOLE_SESSION_IDLE',
    description: 'Seconds without a request after which a person who signed in by name is signed out.',
    ...whole(1800, 120, 86_400, 1000),
  },
  consoleSessionMax: {
    variable: 'SALLYPORT_CONSOLE_SESSION_MAX',
    description: 'Seconds after which a person who signed in by name must sign in again.',
    ...whole(43_200, 120, 604_800, 1000),
  },
  consoleKeys: {
    variable: 'SALLYPORT_CONSOLE_KEYS',
    description:
      'on: people can also sign in to the console with a key. off: only by name. Stored keys of applications to which people sign in are then for emergencies: every use is in the audit log and in the metric sallyport_break_glass_total.',
    fallback: 'on',
    parse: (text) => oneOf(text ?? 'on', ['on', 'off']),
  } satisfies Setting<'on' | 'off'>,
  workers: {
    variable: 'SALLYPORT_WORKERS',
    description: 'Number of server processes that share the port.',
    ...whole(1, 1, 64),
  },
  memory: {
    variable: 'SALLYPORT_MEMORY',
    description:
      'Memory in bytes that the service may use. Its workers share it. A quarter of it is for large request bodies, pages and responses, and a quarter of that for one application. By default the limit of the cgroup, or the memory of the machine, but at most 1 GiB.',
    fallback: unset,
    parse: (text) =>
      integer(text, Math.min(process.constrainedMemory() || totalmem(), 2 ** 30), 2 ** 26, 2 ** 46),
  } satisfies Setting<number>,
  metricsPort: {
    variable: 'SALLYPORT_METRICS_PORT',
    description:
      'Port for Prometheus metrics, on the same address. Each further worker uses the next port. 0 picks a free port and prints it. Metrics are off if unset.',
    fallback: unset,
    parse: (text) => (text === undefined ? undefined : integer(text, 0, 0, 65_535)),
  } satisfies Setting<number | undefined>,
  drain: {
    variable: 'SALLYPORT_DRAIN',
    description:
      'Seconds to continue serving after a stop signal, except after Ctrl-C in a terminal. /readyz returns 503 during this time, so that load balancers remove the node. Set it to more than the interval of their health checks times the failures that they wait for.',
    ...whole(15, 0, 300, 1000),
  },
  auditRetention: {
    variable: 'SALLYPORT_AUDIT_RETENTION',
    description:
      'Age after which audit entries are deleted, such as 90d or 24h, or whole months such as 3mo. Only entries that every sink has received are deleted; without sinks, none. Also the default age of `audit archive`. If unset, entries are never deleted.',
    fallback: unset,
    parse: age,
  } satisfies Setting<Age | undefined>,
  logLevel: {
    variable: 'SALLYPORT_LOG_LEVEL',
    description: `Minimum level of log messages: ${logLevels.join(', ')}.`,
    fallback: 'info',
    parse: (text) => oneOf(text ?? 'info', logLevels),
  } satisfies Setting<(typeof logLevels)[number]>,
};

export type Config = { readonly [K in keyof typeof settings]: ReturnType<(typeof settings)[K]['parse']> };

/** Whether SALLYPORT_TRUSTED_PROXIES is set. */
export function hasTrustedProxies({ trustedProxies }: Pick<Config, 'trustedProxies'>): boolean {
  return trustedProxies !== trustNobody;
}

export const settingList: readonly Setting<unknown>[] = Object.values(settings);

/** Returns the name of the flag: `session-ttl` for SALLYPORT_SESSION_TTL, `port` for PORT. */
export function flagOf(variable: string): string {
  return variable
    .replace(/^SALLYPORT_/, '')
    .toLowerCase()
    .replaceAll('_', '-');
}

/** Names the setting in error messages: the flag, if it was given, and the variable. */
function sourceOf(variable: string, flags: Values = {}): string {
  return flags[flagOf(variable)] ? `--${flagOf(variable)} (${variable})` : variable;
}

type Values = Record<string, string | undefined>;

/** Precedence: flag, environment, `.env` file, default. An empty value counts as unset. */
export function readConfig(sources: { flags?: Values; env?: Values; envFile?: string }): Config {
  const file = readEnvFile(sources.envFile);
  const entries: [string, unknown][] = [];
  for (const [name, setting] of Object.entries(settings)) {
    const flag = flagOf(setting.variable);
    if ('notInEnvFile' in setting && file[setting.variable])
      throw new ConfigError(`${setting.variable} is not allowed in .env: set it in the environment`);
    const text =
      sources.flags?.[flag] || sources.env?.[setting.variable] || file[setting.variable] || undefined;
    try {
      entries.push([name, setting.parse(text, Object.fromEntries(entries) as { dataDir: string })]);
    } catch (error) {
      throw new ConfigError(`${sourceOf(setting.variable, sources.flags)} ${(error as Error).message}`);
    }
  }
  checkMasterKeySources(sources, file);
  const config = Object.fromEntries(entries) as Config;
  if (config.sessionTtl > config.sessionTtlMax) {
    throw new ConfigError('SALLYPORT_SESSION_TTL must not exceed SALLYPORT_SESSION_TTL_MAX');
  }
  checkMetricsPorts(config, sourceOf('SALLYPORT_METRICS_PORT', sources.flags));
  const [publicHost, framesHost] = [config.publicUrl, config.framesUrl].map(
    (url) => url && new URL(url).host,
  );
  if (framesHost !== undefined && framesHost === publicHost)
    throw new ConfigError('SALLYPORT_FRAMES_URL must have another host than SALLYPORT_PUBLIC_URL');
  return config;
}

/** Throws if a master key command is set together with a master key or a key file. */
function checkMasterKeySources({ flags, env }: { flags?: Values; env?: Values }, file: Values): void {
  const isSet = (variable: string) => flags?.[flagOf(variable)] || env?.[variable] || file[variable];
  const command = settings.masterKeyCommand.variable;
  if (!isSet(command)) return;
  const other = [settings.masterKey.variable, settings.masterKeyFile.variable].find(isSet);
  if (other) throw new ConfigError(`${command} and ${other} cannot both be set: unset one of them`);
}

function checkMetricsPorts({ metricsPort, workers }: Config, name: string): void {
  const maxPort = 65_536 - workers;
  if (metricsPort === undefined || metricsPort <= maxPort) return;
  const reason = `each of the ${workers} workers uses the next port`;
  throw new ConfigError(`${name} must be at most ${maxPort}, not "${metricsPort}": ${reason}`);
}

function readEnvFile(path: string | undefined): Values {
  if (path === undefined) return {};
  try {
    return parseEnv(readFileSync(path, 'utf8')) as Values;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new ConfigError(`cannot read .env: ${(error as Error).message}`);
  }
}

/** Parses `SALLYPORT_PUBLIC_URL`. The result has no slash at the end. */
function parsePublicUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (/^https?:\/\/[^\s?#@]+$/.test(text) && URL.canParse(text)) return text.replace(/\/+$/, '');
  throw new Error('must be an http or https URL without credentials, query and fragment');
}

/** Parses `SALLYPORT_FRAMES_URL`. Bound sessions need WebCrypto, which browsers offer over HTTPS and on localhost only. */
function parseFramesUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const origin = text.replace(/\/$/, '');
  if (isSecureOrigin(origin)) return origin;
  throw new Error('must be an https origin without a path, such as https://frames.example.com');
}

/** Whether browsers treat the origin as secure: https, or http on the same machine. */
export function isSecureOrigin(text: string): boolean {
  const { origin, protocol, hostname } = new URL(URL.canParse(text) ? text : 'invalid:');
  const isLocal = /^(([\w-]+\.)*localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
  return text === origin && (protocol === 'https:' || (protocol === 'http:' && isLocal));
}
