/** Reads the configuration of the sinks from SALLYPORT_SINKS_FILE and SALLYPORT_SINK. Writes to files and S3. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { constants, open } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { S3Client } from 'bun';
import { parseDocument } from 'yaml';
import { z } from 'zod';
import { Networks } from '../../config/ip-address.ts';
import { type Config, ConfigError } from '../../config/settings.ts';
import { syncFolderOf } from '../../db/line-writer.ts';
import { createOwned } from '../../db/sqlite/file-ownership.ts';
import { Secret } from '../../domain/key.ts';
import { check } from '../../domain/validate.ts';
import {
  type AllowPrivate,
  allowAll,
  allowNone,
  networks,
  type Resolve,
  refusedHost,
} from '../../outbound/address.ts';
import { type HttpTarget, send } from '../../outbound/request.ts';
import { chainName, systemTenant } from '../records.ts';
import { type Batch, toJsonLines } from './batch.ts';
import { otlpSender } from './otlp.ts';
import { DeliveryError, type Sender } from './sender.ts';
import { secretBytes, webhookSender } from './webhook.ts';

export interface Sink {
  readonly name: string;
  readonly type: z.output<typeof SinkConfig>['type'];
  /** Where the sink sends to, without secrets: the origin of a URL, a bucket or a path. */
  readonly target: string;
  /** Milliseconds between two checks for new entries. */
  readonly interval: number;
  /** Maximum milliseconds of one attempt. */
  readonly timeout: number;
  readonly sender: Sender;
}

export interface SinkEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The clock for signatures. */
  readonly now: () => number;
  readonly resolve?: Resolve | undefined;
}

const nameRule = /^[a-z0-9][a-z0-9-]{0,39}$/;
const seconds = z.number().min(0.1).max(3600);

/** A secret in the configuration itself, or the file or environment variable that contains it. */
const SecretSource = z.union(
  [
    z.string().min(1),
    z.strictObject({ file: z.string().min(1) }),
    z.strictObject({ env: z.string().min(1) }),
  ],
  { error: 'must be a string, {file: PATH} or {env: NAME}' },
);

const Url = z.string().refine(isHttpUrl, 'must be an http:// or https:// URL without user name and password');
const Headers = z
  .record(z.string().regex(/^[A-Za-z0-9-]{1,100}$/, 'is not a header name'), SecretSource)
  .default({});

const common = {
  name: z
    .string()
    .regex(
      nameRule,
      'must have 1 to 40 lower-case letters, digits and hyphens, and start with a letter or digit',
    ),
  timeout: seconds.max(60).default(15),
};

const network = {
  ...common,
  allow_private: z
    .union(
      [
        z.boolean(),
        z.array(z.string().refine(isNetwork, 'must be an address or a network such as 10.0.0.0/8')),
      ],
      {
        error: 'must be true, false or a list of networks such as 10.0.0.0/8',
      },
    )
    .default(false),
  ca_file: z.string().min(1).optional(),
};

const http = { ...network, url: Url, headers: Headers, interval: seconds.default(1) };

const SinkConfig = z.discriminatedUnion(
  'type',
  [
    z.strictObject({
      ...http,
      type: z.literal('webhook'),
      secret: z.union([SecretSource, z.array(SecretSource).min(1).max(5)], {
        error: 'must be a string, {file: PATH}, {env: NAME} or a list of them',
      }),
    }),
    z.strictObject({ ...http, type: z.literal('otlp') }),
    z.strictObject({
      ...network,
      type: z.literal('s3'),
      bucket: z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket'),
      prefix: z
        .string()
        .regex(
          /^(?!\/)[A-Za-z0-9!_.*'()/-]{0,200}$/,
          'must have at most 200 letters, digits and /_.-, and not start with /',
        )
        .default(''),
      endpoint: Url.optional(),
      region: z
        .string()
        .regex(/^[a-z0-9-]{1,40}$/, 'must be a region such as eu-central-1')
        .default('us-east-1'),
      access_key_id: SecretSource,
      secret_access_key: SecretSource,
      session_token: SecretSource.optional(),
      interval: seconds.default(60),
    }),
    z.strictObject({
      ...common,
      type: z.literal('file'),
      path: z.string().refine(isAbsolute, 'must be an absolute path'),
      interval: seconds.default(1),
    }),
  ],
  { error: 'must be one of webhook, otlp, s3, file' },
);
type SinkConfig = z.output<typeof SinkConfig>;

const SinksFile = z.strictObject({ sinks: z.array(SinkConfig).max(20) });

/** Throws `ConfigError` that names the setting, the sink and the field. Messages contain no secrets. */
export function readSinks(
  { sinksFile, sink }: Pick<Config, 'sinksFile' | 'sink'>,
  context: SinkEnvironment,
): Sink[] {
  const fromFile =
    sinksFile === undefined
      ? []
      : parse(SinksFile, readText(`SALLYPORT_SINKS_FILE ${sinksFile}`, sinksFile), 'SALLYPORT_SINKS_FILE')
          .sinks;
  const fromEnv =
    sink === undefined ? [] : [parse(SinkConfig, sink.reveal(), 'SALLYPORT_SINK', { name: 'default' })];
  const configs = [...fromFile, ...fromEnv];
  const duplicate = configs.find(({ name }, index) => configs.findIndex((one) => one.name === name) < index);
  if (duplicate) throw new ConfigError(`two sinks are named "${duplicate.name}"`);
  return configs.map((config) => toSink(config, context));
}

/** Parses YAML, which includes JSON. */
function parse<S extends z.ZodType>(schema: S, text: string, source: string, defaults?: object): z.output<S> {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error)
    throw new ConfigError(`${source}: line ${error.linePos?.[0].line ?? 1} is not valid YAML or JSON`);
  const value: unknown = document.toJS();
  const checked = check(schema, isObject(value) ? { ...defaults, ...value } : value);
  if ('data' in checked) return checked.data;
  const [fault] = checked.faults;
  throw new ConfigError(`${source}: ${describePath(fault?.path ?? [], value)} ${fault?.message}`);
}

/** Names the field and its sink: `sink "siem": url`, or `sinks.0: url` if the sink has no valid name. */
function describePath([list, index, ...rest]: readonly PropertyKey[], value: unknown): string {
  if (list === undefined) return 'the configuration';
  if (list !== 'sinks' || typeof index !== 'number')
    return [list, index, ...rest].filter((part) => part !== undefined).join('.');
  const { name } = (value as { sinks: { name?: unknown }[] }).sinks[index] ?? {};
  const label = typeof name === 'string' && nameRule.test(name) ? `sink "${name}"` : `sinks.${index}`;
  return rest.length === 0 ? label : `${label}: ${rest.map(String).join('.')}`;
}

function toSink(config: SinkConfig, context: SinkEnvironment): Sink {
  const { name, type, interval, timeout } = config;
  const { sender, target } = toSender(config, context);
  return { name, type, target, interval: interval * 1000, timeout: timeout * 1000, sender };
}

function toSender(config: SinkConfig, context: SinkEnvironment): Pick<Sink, 'sender' | 'target'> {
  const { now } = context;
  const secret = (field: string, source: z.output<typeof SecretSource>) =>
    readSecret(`sink "${config.name}": ${field}`, source, context.env);
  const headers = (sources: z.output<typeof Headers>) =>
    Object.fromEntries(
      Object.entries(sources).map(([name, value]) => [name, secret(`headers.${name}`, value)]),
    );
  if (config.type === 'file') {
    const problem = pathProblem(config.path);
    if (problem !== undefined) throw new ConfigError(`sink "${config.name}": path ${config.path} ${problem}`);
    return { sender: fileSender(config), target: config.path };
  }
  const to = httpTarget(config, context);
  if (config.type === 's3') {
    const { bucket, prefix, region, access_key_id, secret_access_key, session_token } = config;
    const endpoint = checkedUrl(config, 'endpoint', config.endpoint ?? `https://s3.${region}.amazonaws.com`);
    const credentials = {
      accessKeyId: secret('access_key_id', access_key_id),
      secretAccessKey: secret('secret_access_key', secret_access_key),
      sessionToken: session_token === undefined ? undefined : secret('session_token', session_token),
    };
    const sender = s3Sender({ ...to, endpoint, region, bucket, prefix, ...credentials });
    return { sender, target: `${endpoint.origin}/${bucket}/${prefix}` };
  }
  const url = checkedUrl(config, 'url', config.url);
  if (config.type === 'otlp') {
    if (url.pathname === '/') url.pathname = '/v1/logs';
    return { sender: otlpSender({ ...to, url, headers: headers(config.headers) }), target: url.origin };
  }
  const secrets = [config.secret].flat().map((source) => secret('secret', source));
  if (secrets.some((one) => secretBytes(one.reveal()) === undefined))
    throw new ConfigError(`sink "${config.name}": secret must be whsec_ and the base64 of 24 to 64 bytes`);
  return {
    sender: webhookSender({ ...to, url, secrets, headers: headers(config.headers) }, now),
    target: url.origin,
  };
}

type NetworkConfig = Exclude<SinkConfig, { type: 'file' }>;

function httpTarget({ name, timeout, allow_private, ca_file }: NetworkConfig, { resolve }: SinkEnvironment) {
  const ca = ca_file === undefined ? undefined : readText(`sink "${name}": ca_file ${ca_file}`, ca_file);
  return { timeout: timeout * 1000, allowPrivate: toAllowPrivate(allow_private), ca, resolve };
}

function toAllowPrivate(setting: NetworkConfig['allow_private']): AllowPrivate {
  if (typeof setting === 'boolean') return setting ? allowAll : allowNone;
  const allowed = networks(...setting);
  return (address) => allowed.includes(address);
}

/** Checks addresses and localhost. Other host names are resolved and checked at each delivery. */
function checkedUrl({ name, allow_private }: NetworkConfig, field: string, text: string): URL {
  const url = new URL(text);
  if (url.protocol === 'http:' && allow_private === false)
    throw new ConfigError(`sink "${name}": ${field} must use https://, unless allow_private is set`);
  const refused = refusedHost(url.hostname, toAllowPrivate(allow_private));
  if (refused !== undefined)
    throw new ConfigError(
      `sink "${name}": ${field} has the host ${refused}, which is not public; set allow_private to allow it`,
    );
  return url;
}

function readSecret(
  field: string,
  source: z.output<typeof SecretSource>,
  env: SinkEnvironment['env'],
): Secret {
  if (typeof source === 'string') return new Secret(source);
  if ('env' in source) {
    const value = env[source.env];
    if (!value) throw new ConfigError(`${field}: the environment variable ${source.env} is not set`);
    return new Secret(value);
  }
  const text = readText(`${field}: ${source.file}`, source.file).trim();
  if (text === '') throw new ConfigError(`${field}: ${source.file} is empty`);
  return new Secret(text);
}

function readText(label: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`${label} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}

function isNetwork(text: string): boolean {
  return new Networks().add(text);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const { O_APPEND, O_CREAT, O_RDWR, O_NONBLOCK } = constants;

/** Returns why a sink cannot write to the path. Undefined if it is a file, does not exist, or cannot be checked. */
function pathProblem(path: string): string | undefined {
  try {
    const found = statSync(path);
    if (found.isFile()) return undefined;
    return found.isDirectory() ? 'is a folder: it must be a file' : 'is not a regular file';
  } catch {
    return undefined;
  }
}

/** Opens the file for each batch, so that log rotation can move it at any time. */
function fileSender({ path }: { readonly path: string }): Sender {
  return {
    send: async (batch) => {
      // If root creates the file, for example with `sinks test`, the service must be able to write to it.
      createOwned(path);
      // Without O_NONBLOCK, opening a named pipe would wait for a reader.
      const file = await open(path, O_APPEND | O_CREAT | O_RDWR | O_NONBLOCK, 0o600);
      try {
        const status = await file.stat();
        if (!status.isFile()) throw new DeliveryError(`${path} is not a regular file`);
        const isTorn = status.size > 0 && (await lastByte(file, status.size)) !== newline;
        // After a crash or a full disk the last line may be incomplete. Its batch is written again.
        await file.appendFile((isTorn ? '\n' : '') + toJsonLines(batch));
        await file.sync();
        if (status.size === 0) syncFolderOf(path);
        return {};
      } finally {
        await file.close();
      }
    },
  };
}

const newline = 0x0a;

async function lastByte(file: Awaited<ReturnType<typeof open>>, size: number): Promise<number | undefined> {
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0];
}

interface S3Options extends HttpTarget {
  readonly endpoint: URL;
  readonly region: string;
  readonly bucket: string;
  readonly prefix: string;
  readonly accessKeyId: Secret;
  readonly secretAccessKey: Secret;
  readonly sessionToken?: Secret | undefined;
}

/** Seconds for which a signed request is valid. */
const expiresIn = 300;

/**
 * Bun's S3 client only signs the request. `send` sends it, because Bun's `write` has no timeout and would
 * connect to an unchecked address.
 */
function s3Sender(options: S3Options): Sender {
  const { endpoint, region, bucket, accessKeyId, secretAccessKey, sessionToken, ...target } = options;
  const client = new S3Client({
    endpoint: endpoint.href,
    region,
    bucket,
    accessKeyId: accessKeyId.reveal(),
    secretAccessKey: secretAccessKey.reveal(),
    ...(sessionToken && { sessionToken: sessionToken.reveal() }),
  });
  return {
    send: async (batch, signal) => {
      const body = toJsonLines(batch);
      const url = new URL(client.presign(objectName(options.prefix, batch), { method: 'PUT', expiresIn }));
      const md5 = createHash('md5').update(body).digest('base64');
      const headers = { 'content-type': 'application/x-ndjson', 'content-md5': md5 };
      const response = await send({ method: 'PUT', url, headers, body }, target, signal);
      if (response.status !== 200) {
        const code = /<Code>(\w{1,64})<\/Code>/.exec(response.body)?.[1];
        throw new DeliveryError(
          `the storage answered with status ${response.status}${code ? ` (${code})` : ''}`,
        );
      }
      // Every S3-compatible service returns an ETag. A proxy or a login page that answers 200 does not.
      if (response.headers.etag === undefined)
        throw new DeliveryError('the response with status 200 has no ETag, so it is not from S3');
      return {};
    },
  };
}

/** Repeated deliveries of the same segment have the same name. Names sort by number. */
function objectName(prefix: string, { id, tenantId = systemTenant, segment }: Batch): string {
  if (!segment) return `${prefix}test/${id}.jsonl`;
  const number = String(segment.number).padStart(12, '0');
  return `${prefix}${chainName(tenantId)}/${number}-${segment.hash.slice(0, 12)}.jsonl`;
}
