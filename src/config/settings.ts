/** Declares every setting once. Flags, help and docs/reference/config.md are generated from here. */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { defaultConnections, defaultTimeout } from '../db/db.ts';
import { auditedReads } from '../domain/audit.ts';
import { longestSession } from '../domain/session.ts';
import { maxTokenBytes } from '../domain/token.ts';
import { parseTrust, trustNobody } from './trusted-proxies.ts';
import {
  age,
  checkedMasterKey,
  choice,
  commandLine,
  databaseUrl,
  flag,
  inDataDir,
  integer,
  issuerUrls,
  optional,
  type Setting,
  secret,
  secretOf,
  setting,
  text,
  unset,
  variableNames,
  whole,
  words,
  zeroOrWhole,
} from './values.ts';

/** An invalid setting. Operators see the message and the hint. */
export class ConfigError extends Error {
  readonly hint: string | undefined;
  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;

export const settings = {
  dataDir: setting('SALLYPORT_DATA_DIR', 'Folder for the database, the master key and the management key.', {
    fallback: './data',
    parse: (text) => resolve(text ?? 'data'),
  }),
  host: setting('HOST', 'Address to listen on. 0.0.0.0 or :: means all addresses.', text('127.0.0.1')),
  port: setting('PORT', 'Port to listen on. 0 picks a free port and prints it.', whole(8080, 0, 65_535)),
  publicUrl: setting(
    'SALLYPORT_PUBLIC_URL',
    'Public URL of the service, such as https://keys.example.com, if a reverse proxy changes the scheme, host or path. Bound sessions need it behind a proxy.',
    optional(parsePublicUrl),
  ),
  framesUrl: setting(
    'SALLYPORT_FRAMES_URL',
    'Origin of the frames with input fields, such as https://frames.example.com: a second host name of this service. Requests with this host name get only frames and the endpoints that frames call. Frames are off if unset: see docs/guides/frames.md.',
    optional(parseFramesUrl),
  ),
  nodeUrl: setting(
    'SALLYPORT_NODE_URL',
    'Where other nodes reach this node, such as http://10.0.0.5:8080. They ask it before they use a database server that could be behind. Without it, the address in HOST, or the host name if that means all addresses, and the port.',
    optional(parsePublicUrl),
  ),
  witness: setting(
    'SALLYPORT_WITNESS',
    'PostgreSQL: a file that all nodes share, on another machine than the database. `sallyport migrate` creates it with a new database; otherwise create it empty. Nodes write the position of the database to it every five seconds, so that a new node recognizes an old primary: see docs/operations/postgresql.md.',
    optional(resolve),
  ),
  witnessOptional: setting(
    'SALLYPORT_WITNESS_OPTIONAL',
    'true: a node starts although the witness cannot be read. false: it does not, because it could not know whether the database is behind.',
    flag,
  ),
  trustedProxies: setting(
    'SALLYPORT_TRUSTED_PROXIES',
    'Addresses or networks of reverse proxies, separated by commas. Only these proxies may set X-Forwarded-For or Forwarded.',
    { fallback: unset, parse: parseTrust },
  ),
  issuerNetworks: setting(
    'SALLYPORT_ISSUER_NETWORKS',
    'Addresses or networks that are not public and where trusted issuers may be, separated by commas. The keys of other issuers are fetched only from public addresses.',
    { fallback: unset, parse: parseTrust },
  ),
  destinationNetworks: setting(
    'SALLYPORT_DESTINATION_NETWORKS',
    'Addresses or networks that are not public, separated by commas, to which destinations may resolve. By default none.',
    { fallback: unset, parse: parseTrust },
  ),
  databaseUrl: setting(
    'DATABASE_URL',
    'Database to use: sqlite:PATH for one machine, postgres://… for several nodes.',
    { fallback: 'sqlite:<data dir>/sallyport.db', parse: databaseUrl },
  ),
  requireExisting: setting(
    'SALLYPORT_REQUIRE_EXISTING',
    'true: `serve` and `migrate` fail if the database does not exist or is empty, for example because a volume is not mounted. false: they create it, with new keys.',
    flag,
  ),
  databaseTimeout: setting(
    'SALLYPORT_DATABASE_TIMEOUT',
    'Timeout of PostgreSQL queries, in milliseconds. A request that waits longer gets 503.',
    whole(defaultTimeout, 200, 60_000),
  ),
  databaseConnections: setting(
    'SALLYPORT_DATABASE_CONNECTIONS',
    'Maximum number of connections per process to each PostgreSQL server.',
    whole(defaultConnections, 2, 1000),
  ),
  managementKeyFile: setting(
    'SALLYPORT_MANAGEMENT_KEY_FILE',
    'File to which the first start writes the management key (mode 0600).',
    inDataDir('management.key'),
  ),
  masterKeyFile: setting(
    'SALLYPORT_MASTER_KEY_FILE',
    'File with the master key, without which token data cannot be decrypted. The first start on SQLite creates it. Older keys may follow, one per line.',
    inDataDir('master.key'),
  ),
  masterKey: setting(
    'SALLYPORT_MASTER_KEY',
    'Master key in base64 (32 bytes), instead of the file. Older keys may follow, separated by commas; they only decrypt.',
    secret(checkedMasterKey),
  ),
  masterKeyCommand: setting(
    'SALLYPORT_MASTER_KEY_COMMAND',
    'Program with arguments that prints the master key, instead of the file: see docs/operations/master-key-command.md. Not allowed in .env.',
    { ...optional(commandLine), notInEnvFile: true },
  ),
  masterKeyCommandEnv: setting(
    'SALLYPORT_MASTER_KEY_COMMAND_ENV',
    'Names of environment variables that the command gets besides PATH, HOME, LANG and TZ, separated by commas, such as VAULT_ADDR,VAULT_TOKEN. Not allowed in .env.',
    { fallback: unset, parse: variableNames, notInEnvFile: true },
  ),
  sessionTtl: setting(
    'SALLYPORT_SESSION_TTL',
    'Default lifetime of a session, in seconds.',
    whole(180, 1, longestSession / 1000, 1000),
  ),
  sessionTtlMax: setting(
    'SALLYPORT_SESSION_TTL_MAX',
    'Maximum lifetime of a session, in seconds from its creation.',
    whole(604_800, 1, longestSession / 1000, 1000),
  ),
  keyRate: setting(
    'SALLYPORT_RATE_PER_KEY',
    'Rate limit per key and process, in requests per second. 0 disables it.',
    whole(20_000, 0, 1_000_000),
  ),
  keyBurst: setting(
    'SALLYPORT_BURST_PER_KEY',
    'Burst per key: number of requests accepted before the rate limit applies.',
    whole(200_000, 1, 100_000_000),
  ),
  addressRate: setting(
    'SALLYPORT_RATE_PER_ADDRESS',
    'Rate limit per client address (for IPv6, per /64 network) and process, in requests per second. 0 disables it.',
    whole(20_000, 0, 1_000_000),
  ),
  addressBurst: setting(
    'SALLYPORT_BURST_PER_ADDRESS',
    'Burst per client address: number of requests accepted before the rate limit applies.',
    whole(200_000, 1, 100_000_000),
  ),
  sessionRate: setting(
    'SALLYPORT_SESSIONS_PER_MINUTE',
    'Rate limit for new sessions per client address, public key and process, in sessions per minute. 0 disables it.',
    whole(1200, 0, 1_000_000),
  ),
  sessionBurst: setting(
    'SALLYPORT_SESSIONS_BURST',
    'Burst per client address and public key: number of new sessions accepted before the rate limit applies.',
    whole(1000, 1, 100_000_000),
  ),
  pendingSessions: setting(
    'SALLYPORT_PENDING_SESSIONS_PER_APPLICATION',
    'Maximum number of pending sessions, of delegations, and of active sessions with more than 4 KiB of rules, per application. 0 disables the limit.',
    whole(10_000, 0, 10_000_000),
  ),
  revocationRate: setting(
    'SALLYPORT_REVOCATIONS_PER_MINUTE',
    'Rate limit for POST /keys/revoke per client address and process, in requests per minute. 0 disables it.',
    whole(60, 0, 1_000_000),
  ),
  exchangeRate: setting(
    'SALLYPORT_EXCHANGES_PER_MINUTE',
    'Rate limit for POST /oauth/token per client address and process, in requests per minute. 0 disables it.',
    whole(600, 0, 1_000_000),
  ),
  tokenRate: setting(
    'SALLYPORT_TOKENS_PER_MINUTE',
    'Rate limit for token writes per application (with its sessions) and process, in tokens per minute. 0 disables it.',
    whole(30_000, 0, 100_000_000),
  ),
  tokenByteRate: setting(
    'SALLYPORT_TOKEN_BYTES_PER_MINUTE',
    'Rate limit for token request bodies per application (with its sessions) and process, in bytes per minute. At least 1048576 (1 MiB, the largest request), or 0 to disable it.',
    zeroOrWhole(134_217_728, maxTokenBytes, 1_000_000_000_000),
  ),
  searchRate: setting(
    'SALLYPORT_SEARCHES_PER_MINUTE',
    'Rate limit for searches of tokens per application (with its sessions) and process, in searches per minute. 0 disables it.',
    whole(600, 0, 100_000_000),
  ),
  searchMissRate: setting(
    'SALLYPORT_SEARCH_MISSES_PER_MINUTE',
    'Rate limit for searches that find no token, such as guesses, per application (with its sessions) and process, in searches per minute. 0 disables it.',
    whole(60, 0, 100_000_000),
  ),
  useRate: setting(
    'SALLYPORT_USES_PER_TOKEN',
    'Rate limit for uses of a token at destinations per process, in uses per minute. The status of a destination can answer guesses. 0 disables it.',
    whole(30, 0, 100_000_000),
  ),
  processingRate: setting(
    'SALLYPORT_PROCESSING_PER_APPLICATION',
    'Rate limit for long computations per application (with its sessions) and process, in milliseconds of processing per second. The burst is twenty times as much. 0 disables it.',
    whole(500, 0, 1000),
  ),
  tokenBytes: setting(
    'SALLYPORT_TOKEN_BYTES_PER_APPLICATION',
    'Storage quota per application (with its sessions), in bytes. Counts what tokens and idempotency records take in the database. 0 disables it.',
    whole(21_474_836_480, 0, 999_999_999_999_999),
  ),
  auditReads: setting(
    'SALLYPORT_AUDIT_READS',
    'Which reads of token data the audit log records. reveal: every response with plaintext. all: masked and redacted reads, too, aggregated per minute. off: none. Reads in quarantine are always recorded.',
    choice('reveal', auditedReads),
  ),
  sinksFile: setting(
    'SALLYPORT_SINKS_FILE',
    'YAML or JSON file with the sinks that receive the audit log: see docs/operations/audit-delivery.md.',
    optional(resolve),
  ),
  sink: setting(
    'SALLYPORT_SINK',
    'One sink as JSON or YAML, in addition to those in the file. Its name is "default" if it has none.',
    secret(secretOf),
  ),
  oidcIssuers: setting(
    'SALLYPORT_OIDC_ISSUER',
    'Issuer of the OpenID Connect provider at which people sign in to the console. Several are separated by spaces: their client ids and secrets then have the same order. Needs SALLYPORT_PUBLIC_URL. See docs/guides/sign-in.md.',
    { fallback: unset, parse: issuerUrls },
  ),
  oidcClientIds: setting('SALLYPORT_OIDC_CLIENT_ID', 'Client id of the console at the provider.', {
    fallback: unset,
    parse: words,
  }),
  oidcClientSecret: setting(
    'SALLYPORT_OIDC_CLIENT_SECRET',
    'Client secret of the console at the provider.',
    secret(secretOf),
  ),
  oidcClientSecretFile: setting(
    'SALLYPORT_OIDC_CLIENT_SECRET_FILE',
    'File with the client secret, instead of SALLYPORT_OIDC_CLIENT_SECRET.',
    optional(resolve),
  ),
  oidcScope: setting(
    'SALLYPORT_OIDC_SCOPE',
    'Scopes that are requested from the provider. Some send groups only for a scope such as groups.',
    text('openid profile email'),
  ),
  consoleSessionIdle: setting(
    'SALLYPORT_CONSOLE_SESSION_IDLE',
    'Seconds without a request after which a person who signed in by name is signed out.',
    whole(1800, 120, 86_400, 1000),
  ),
  consoleSessionMax: setting(
    'SALLYPORT_CONSOLE_SESSION_MAX',
    'Seconds after which a person who signed in by name must sign in again.',
    whole(43_200, 120, 604_800, 1000),
  ),
  consoleKeys: setting(
    'SALLYPORT_CONSOLE_KEYS',
    'on: people can also sign in to the console with a key. off: only by name. Stored keys of applications to which people sign in are then for emergencies: every use is in the audit log and in the metric sallyport_break_glass_total.',
    choice('on', ['on', 'off']),
  ),
  workers: setting('SALLYPORT_WORKERS', 'Number of server processes that share the port.', whole(1, 1, 64)),
  memory: setting(
    'SALLYPORT_MEMORY',
    'Memory in bytes that the service may use. Its workers share it. A quarter of it is for large request bodies, pages and responses, and a quarter of that for one application. By default the limit of the cgroup, or the memory of the machine, but at most 1 GiB.',
    {
      fallback: unset,
      parse: (text) =>
        integer(text, Math.min(process.constrainedMemory() || totalmem(), 2 ** 30), 2 ** 26, 2 ** 46),
    },
  ),
  metricsPort: setting(
    'SALLYPORT_METRICS_PORT',
    'Port for Prometheus metrics, on the same address. Each further worker uses the next port. 0 picks a free port and prints it. Metrics are off if unset.',
    optional((text) => integer(text, 0, 0, 65_535)),
  ),
  drain: setting(
    'SALLYPORT_DRAIN',
    'Seconds to continue serving after a stop signal, except after Ctrl-C in a terminal. /readyz returns 503 during this time, so that load balancers remove the node. Set it to more than the interval of their health checks times the failures that they wait for.',
    whole(15, 0, 300, 1000),
  ),
  auditRetention: setting(
    'SALLYPORT_AUDIT_RETENTION',
    'Age after which audit entries are deleted, such as 90d or 24h, or whole months such as 3mo. Only entries that every sink has received are deleted; without sinks, none. Also the default age of `audit archive`. If unset, entries are never deleted.',
    optional(age),
  ),
  logLevel: setting(
    'SALLYPORT_LOG_LEVEL',
    `Minimum level of log messages: ${logLevels.join(', ')}.`,
    choice('info', logLevels),
  ),
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
    if (setting.notInEnvFile && file[setting.variable])
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
  if (config.sessionTtl > config.sessionTtlMax)
    throw new ConfigError('SALLYPORT_SESSION_TTL must not exceed SALLYPORT_SESSION_TTL_MAX');
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
function parsePublicUrl(text: string): string {
  if (/^https?:\/\/[^\s?#@]+$/.test(text) && URL.canParse(text)) return text.replace(/\/+$/, '');
  throw new Error('must be an http or https URL without credentials, query and fragment');
}

/** Parses `SALLYPORT_FRAMES_URL`. Bound sessions need WebCrypto, which browsers offer over HTTPS and on localhost only. */
function parseFramesUrl(text: string): string {
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
