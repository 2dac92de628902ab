/** Opens and closes the whole service in one process. Tests open it on a free port. */
import { statSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { configuredSinks, type Delivery, type Sink, startDelivery } from './audit/delivery.ts';
import { openTrail } from './audit/trail.ts';
import { type Config, ConfigError } from './config/settings.ts';
import { build } from './config/version.ts';
import { type Migrated, NoSchema, newestSchema } from './db/migrate.ts';
import { createFolder } from './db/sqlite/file-ownership.ts';
import { reservedBytes } from './db/sqlite/sqlite.ts';
import { fail } from './domain/error.ts';
import type { Secret } from './domain/key.ts';
import { Proofs } from './http/dpop/proofs.ts';
import { oneUseLink } from './http/endpoints/console-page.ts';
import { IssuerKeys } from './http/oauth/issuer-keys.ts';
import { SignIn } from './http/oauth/sign-in.ts';
import { Limits, type Rates } from './http/pipeline/limits.ts';
import { LongWork, type Turns } from './http/pipeline/long-work.ts';
import { quota } from './http/pipeline/quota.ts';
import { requestCounter as makeRequestCounter } from './http/pipeline/request-counter.ts';
import { memoryLimits, RequestMemory } from './http/pipeline/request-memory.ts';
import type { HandlerContext, Route } from './http/pipeline/route.ts';
import { usageRecorder } from './http/pipeline/usage-recorder.ts';
import { allRoutes, consoleRoutes, framesRoutes } from './http/routes.ts';
import { listen, listenForScrapes, listenWhileStarting } from './http/server.ts';
import { startBackgroundJobs } from './operations/background-jobs.ts';
import { type Bootstrapped, bootstrap, recordAuditedReads } from './operations/bootstrap.ts';
import { missingHint } from './operations/check.ts';
import { positionFile, positionMemory, witnessOf } from './operations/known-positions.ts';
import { masterKeysAtStart } from './operations/master-key.ts';
import { problemKinds } from './operations/node-problems.ts';
import { type NodeEnvironment, nodeRecorder } from './operations/node-recorder.ts';
import { reportSlowStart, retryTimeouts } from './operations/slow-start.ts';
import { type AllowPrivate, allowAll, type Resolve, resolveBySystem } from './outbound/address.ts';
import { outboundDestinations } from './outbound/destinations.ts';
import { fetchDocument } from './outbound/request.ts';
import type { Maintenance } from './store/maintenance.ts';
import { type OpenOptions, openStore } from './store/open.ts';
import type { CountedSessions, Store } from './store/store.ts';
import { type Log, makeLog } from './telemetry/log.ts';
import {
  type Observed,
  type Observer,
  observe,
  type RequestTracer,
  unobserved,
} from './telemetry/observe.ts';
import { readTelemetrySettings, type TelemetrySettings } from './telemetry/settings.ts';

export interface App {
  readonly url: string;
  /** The Prometheus endpoint, if metrics are enabled. */
  readonly metricsUrl: string | undefined;
  readonly store: Store;
  readonly maintenance: Maintenance;
  readonly migrated: Migrated;
  readonly bootstrapped: Bootstrapped;
  /** The code of the console link, if this start created the first management key. */
  readonly link?: Secret | undefined;
  /** Runs the background jobs now. */
  flush(): Promise<void>;
  /**
   * Makes `/readyz` report not ready, serves requests for `drain` more milliseconds, finishes running requests, and
   * closes. The default of `drain` comes from the configuration.
   */
  close(options?: { readonly drain?: number }): Promise<void>;
}

export interface AppOptions {
  /** Replaces the clock, in tests. */
  readonly now?: () => number;
  /** Replaces the monotonic clock, in tests. Default: `now`, if given. */
  readonly monotonic?: () => number;
  readonly log?: Log;
  readonly checkReplies?: boolean;
  /** Whether other processes listen on the same port. */
  readonly shared?: boolean;
  /** Whether background jobs run on timers; true by default. If false, only `flush` runs them. */
  readonly timers?: boolean;
  /** The clock and the event loop of long computations, in tests. */
  readonly turns?: Turns | undefined;
  /** Replaces the limits of memory, in tests. */
  readonly memory?: RequestMemory | undefined;
  /** Replaces the number of bytes that are reserved for a full disk, in tests. */
  readonly reserved?: number;
  /** Replaces the routes, in tests. */
  readonly routes?: readonly Route[];
  /** See `openStore`. */
  readonly through?: OpenOptions['through'];
  /** Resolves the names of destinations, in tests. */
  readonly resolve?: Resolve;
}

export async function openApp(config: Config, options: AppOptions = {}): Promise<App> {
  const log = options.log ?? makeLog({ level: config.logLevel });
  const sinks = await configuredSinks(config, { env: process.env, now: Date.now });
  const telemetrySettings = readTelemetrySettings(process.env);
  const metrics =
    config.metricsPort === undefined && !telemetrySettings.metrics
      ? undefined
      : observe({
          ...metricLimits(config, sinks, () => context.outbound.suspended()),
          maintenance: () => data.maintenance,
          readSinks: () => delivery.states(),
          node: () => node,
          databaseHost: () => positions.host(),
        });
  const telemetry = await startTelemetry(telemetrySettings, log, config.databaseUrl);
  const observer = metrics ?? unobserved;
  const { now = Date.now, through, shared = false, timers = true, reserved = reservedBytes } = options;
  const positions = positionMemory(positionFile(config), log, now, witnessOf(config, log, now));
  const timing = timingFor(metrics, telemetry?.tracer);
  const storeOptions = { clock: options.now, timing, through, positions, reserved };
  const data: OpenedData = await openDataPatiently(config, log, shared, storeOptions);
  const { store, bootstrapped } = data;
  const trail = openTrail(store.audit, { reads: config.auditReads, now, log });
  const clock = options.monotonic ?? options.now ?? monotonicTime;
  const [usage, requestCounter] = [usageRecorder(store), makeRequestCounter(store)];
  const listening = config.port === 0 ? {} : { url: nodeUrlOf(config, config.port) };
  const settings = await orClose([data], () => sessionSettings(config, data.maintenance, clock, now, log));
  const node = await recordNode(data, { config, log, now, clock, observer, listening, positions });
  const link = bootstrapped.secret && oneUseLink(bootstrapped.secret, clock);
  let ready = true;
  const context: HandlerContext = {
    store,
    log,
    observer,
    tracer: telemetry?.tracer,
    observed: metrics !== undefined || log.isEnabled('debug'),
    trail,
    ...limitsOf(config, options, clock, observer, log),
    ...quotas(config, store, clock, observer),
    memory: options.memory ?? new RequestMemory(memoryLimits(config.memory)),
    usage,
    requestCounter,
    idempotentRequests: new Set(),
    link,
    ...settings,
    ready: () => ready,
    position: positions.current,
    running: { version: build(), schema: newestSchema },
    checkReplies: options.checkReplies ?? false,
  };
  const { host, port, databaseTimeout, trustedProxies: trusts } = config;
  const at = { variable: 'PORT', host, port, shared, trusts, framesRoutes, databaseTimeout };
  const opened: Closeable[] = [{ close: node.remove }, data];
  const server = await tryListen(opened, at, () => listen(routesFor(options, context), context, at));
  listening.url = nodeUrlOf(config, server.port);
  const metricsServer = metrics && (await startMetricsServer(config, metrics, opened));
  const deliveryOptions = { log, observer, now, random: Math.random, timers };
  const delivery = startDelivery(sinks, data.maintenance.sinks, deliveryOptions);
  const recorders = { trail, usage, requestCounter, node, metrics };
  const jobs = startBackgroundJobs(data, recorders, observer, log, timers, retentionOf(config, delivery));
  await publishMetrics(metrics, telemetry);
  return {
    ...data,
    url: urlOf(host, server.port),
    link: link?.code,
    metricsUrl: metricsServer && `${urlOf(host, metricsServer.port)}/metrics`,
    flush: () => flushAll(jobs, delivery, metrics),
    close: async ({ drain = config.drain } = {}) => {
      ready = false;
      await serveUntilNoticed(drain, log);
      await server.close();
      await metricsServer?.close();
      await Promise.all([jobs.stop(), delivery.stop(), context.outbound.close()]);
      await telemetry?.close();
      await data.close();
      log.flush();
    },
  };
}

function metricLimits(
  { databaseUrl, databaseConnections }: Config,
  sinks: readonly Sink[],
  suspendedDestinations: () => readonly string[],
) {
  const poolSize = databaseUrl.startsWith('sqlite:') ? undefined : databaseConnections;
  return { problemKinds, sinkNames: sinks.map(({ name }) => name), poolSize, suspendedDestinations };
}

/** Waits until load balancers have noticed that the node is not ready. */
async function serveUntilNoticed(drain: number, log: Log): Promise<void> {
  if (drain > 0) log.info('stopping: serves until load balancers have noticed', { seconds: drain / 1000 });
  await Bun.sleep(drain);
}

function routesFor({ routes }: AppOptions, { signIn }: HandlerContext): readonly Route[] {
  return routes ?? (signIn.providers.length > 0 ? [...allRoutes, ...consoleRoutes] : allRoutes);
}

interface Closeable {
  close(): Promise<void>;
}

/**
 * Closes everything in `opened` if the step throws. The record of the node is in it, because a rotation of the master
 * key would wait for a node that did not start.
 */
async function orClose<T>(opened: readonly Closeable[], step: () => T | Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    for (const each of opened) await each.close();
    throw error;
  }
}

/** Adds the server to `opened`. If it cannot listen, closes everything in `opened` and throws. */
async function tryListen<T extends Closeable>(
  opened: Closeable[],
  { variable, host, port }: { variable: string; host: string; port: number },
  attempt: (port: number) => T,
): Promise<T> {
  return orClose(opened, () => {
    try {
      const server = attempt(port);
      opened.unshift(server);
      return server;
    } catch (error) {
      throw cannotListen(variable, host, port, error);
    }
  });
}

function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function limitsOf(
  config: Config,
  { turns, resolve = resolveBySystem }: AppOptions,
  clock: () => number,
  { limited }: Observer,
  log: Log,
) {
  const limits = new Limits(ratesOf(config), clock, limited);
  const outbound = outboundDestinations({
    allowPrivate: config.destinationNetworks,
    resolve,
    now: monotonicTime,
    onFailure: ({ id }, error) => log.warn('destination unreachable', { destination: id, error }),
  });
  return { limits, longWork: new LongWork(limits, turns), outbound };
}

function ratesOf(config: Config): Rates {
  return {
    address: { rate: config.addressRate, per: 1000, burst: config.addressBurst },
    key: { rate: config.keyRate, per: 1000, burst: config.keyBurst },
    sessions: { rate: config.sessionRate, per: 60_000, burst: config.sessionBurst },
    revocations: { rate: config.revocationRate, per: 60_000, burst: config.revocationRate },
    exchanges: { rate: config.exchangeRate, per: 60_000, burst: config.exchangeRate },
    tokens: { rate: config.tokenRate, per: 60_000, burst: config.tokenRate },
    'token-bytes': { rate: config.tokenByteRate, per: 60_000, burst: config.tokenByteRate },
    searches: { rate: config.searchRate, per: 60_000, burst: config.searchRate },
    'search-misses': { rate: config.searchMissRate, per: 60_000, burst: config.searchMissRate },
    uses: { rate: config.useRate, per: 60_000, burst: config.useRate },
    processing: { rate: config.processingRate, per: 1000, burst: 20 * config.processingRate },
  };
}

/** Also records which reads are audited. */
async function sessionSettings(
  config: Config,
  maintenance: Maintenance,
  clock: () => number,
  now: () => number,
  log: Log,
) {
  const { publicUrl, framesUrl, sessionTtl, sessionTtlMax, issuerNetworks } = config;
  await retryTimeouts(() => recordAuditedReads(maintenance, config.auditReads, now()));
  const { mac } = await maintenance.chainKeys();
  const keysFrom = (allow: AllowPrivate) => new IssuerKeys((url) => fetchDocument(url, allow), clock, log);
  return {
    publicUrl,
    framesUrl,
    proofs: new Proofs(mac),
    issuerKeys: keysFrom(issuerNetworks),
    signIn: new SignIn(config, mac, keysFrom(allowAll), now, log),
    sessionTtl,
    sessionTtlMax,
  };
}

function quotas(
  { pendingSessions: maxPending, tokenBytes }: Config,
  { sessions, tokens }: Store,
  now: () => number,
  { limited }: Observer,
) {
  const sessionQuota = (
    counted: CountedSessions,
    limit: 'pending-sessions' | 'delegations' | 'long-rules',
    what: string,
    retry: string,
  ) => {
    const count = async (tenant: string, application: string, max: number) =>
      sessions.count(tenant, application, counted, max);
    const detail = `This application already has ${maxPending} ${what}, the maximum. Retry when some have ${retry}.`;
    return quota(maxPending, count, now, () => {
      limited(limit);
      return fail('too_many_requests', { detail });
    });
  };
  const bytesOf = async (tenant: string, application: string) =>
    (await tokens.storageUsed(tenant, application)).bytes;
  return {
    pendingSessions: sessionQuota(
      'pending',
      'pending-sessions',
      'pending sessions',
      'been authorized or have expired',
    ),
    delegations: sessionQuota('active', 'delegations', 'delegations', 'ended'),
    longRules: sessionQuota('long-rules', 'long-rules', 'sessions with more than 4 KiB of rules', 'ended'),
    storage: quota(tokenBytes, bytesOf, now, () => {
      limited('storage');
      return fail('storage_full');
    }),
    storageQuota: tokenBytes === 0 ? undefined : tokenBytes,
  };
}

/** Called before the node serves requests, so that a later rotation of the master key knows about this node. */
async function recordNode({ maintenance }: Pick<OpenedData, 'maintenance'>, environment: NodeEnvironment) {
  const node = nodeRecorder(maintenance.nodes, maintenance.masters, environment);
  await node.record().catch((error) => environment.log.warn('could not record this node', { error }));
  return node;
}

async function startMetricsServer(
  { host, metricsPort: port }: Config,
  metrics: ReturnType<typeof observe>,
  opened: Closeable[],
) {
  if (port === undefined) return undefined;
  const at = { variable: 'SALLYPORT_METRICS_PORT', host, port };
  return tryListen(opened, at, (on) => listenForScrapes(host, on, metrics));
}

/** Where other nodes reach this node. */
function nodeUrlOf({ nodeUrl, host }: Config, port: number): string {
  const isEveryAddress = host === '0.0.0.0' || host === '::';
  return nodeUrl ?? urlOf(isEveryAddress ? hostname() : host, port);
}

/** Undefined if audit entries are not deleted. */
function retentionOf({ auditRetention: age }: Config, { deliveredUpTo }: Delivery) {
  return age === undefined ? undefined : { age, deliveredUpTo };
}

/** Milliseconds on a clock that is not affected by changes of the system time. */
function monotonicTime(): number {
  return Math.floor(performance.now());
}

export function cannotListen(variable: string, host: string, port: number, error: unknown): ConfigError {
  return new ConfigError(
    `HOST and ${variable}: cannot listen on ${host}:${port}: ${(error as Error).message}`,
    `set HOST to an address of this machine; if another program uses the port, set ${variable} to another one, or to 0 for any free port`,
  );
}

/** Like `openData`. If it takes long, says what it waits for, and answers `/livez`. */
export function openDataPatiently(
  config: Config,
  log: Log,
  shared: boolean,
  options: OpenOptions = {},
): Promise<OpenedData> {
  return reportSlowStart(config, log, shared, listenWhileStarting, (onStep) =>
    openData(config, { ...options, onStep }),
  );
}

/** Opens the database and migrates its schema. Throws `ConfigError` if it is empty and must exist. */
export async function openDatabase(config: Config, options: OpenOptions = {}) {
  const { databaseUrl, databaseTimeout: timeout, databaseConnections: maxConnections } = config;
  requireFile(config);
  if (databaseUrl.startsWith('sqlite:')) createDataFolder(dirname(databaseUrl.slice('sqlite:'.length)));
  try {
    return await openStore(databaseUrl, {
      timeout,
      maxConnections,
      existing: config.requireExisting,
      ...options,
    });
  } catch (error) {
    throw error instanceof NoSchema ? missing('the database is empty') : error;
  }
}

/** Must be called before files are created in the data folder. */
function requireFile({ databaseUrl, requireExisting }: Config): void {
  if (!requireExisting || !databaseUrl.startsWith('sqlite:')) return;
  const path = databaseUrl.slice('sqlite:'.length);
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (!size) throw missing(`${path} ${size === 0 ? 'is empty' : 'does not exist'}`);
}

function missing(what: string): ConfigError {
  return new ConfigError(`SALLYPORT_REQUIRE_EXISTING is true, but ${what}`, missingHint);
}

type OpenedData = Awaited<ReturnType<typeof openData>>;

/** Opens the database with the master key, and creates the first tenant in an empty database. */
export async function openData(config: Config, options: Omit<OpenOptions, 'masters'> = {}) {
  requireFile(config);
  const masters = await masterKeysAtStart(config, options.onStep);
  return retryTimeouts(async () => {
    const opened = await openDatabase(config, { ...options, masters });
    try {
      const now = (options.clock ?? Date.now)();
      return { ...opened, bootstrapped: await bootstrap(opened, config.managementKeyFile, now) };
    } catch (error) {
      await opened.close();
      throw error;
    }
  });
}

function createDataFolder(path: string): void {
  try {
    createFolder(path);
  } catch (error) {
    throw new ConfigError(
      `SALLYPORT_DATA_DIR: cannot create ${path}: ${(error as Error).message}`,
      'set SALLYPORT_DATA_DIR to a folder that this user can create or write to',
    );
  }
}

async function publishMetrics(
  metrics?: Observed,
  telemetry?: Awaited<ReturnType<typeof startTelemetry>>,
): Promise<void> {
  await metrics?.readGauges();
  if (metrics) telemetry?.exportMetrics(metrics.families);
}

interface Flushable {
  flush(): Promise<void>;
}

async function flushAll(jobs: Flushable, delivery: Flushable, metrics?: Observed): Promise<void> {
  await jobs.flush();
  await delivery.flush();
  await metrics?.readGauges();
}

/** Loads the packages of OpenTelemetry only if traces or metrics are on. Otherwise returns undefined. */
async function startTelemetry(settings: TelemetrySettings, log: Log, databaseUrl: string) {
  if (!settings.traces && !settings.metrics) return undefined;
  const { openTelemetry } = await import('./telemetry/open-telemetry.ts');
  return openTelemetry(settings, log, databaseUrl.startsWith('sqlite:') ? 'sqlite' : 'postgresql');
}

/** Returns a function that receives the duration of each database call, for metrics and traces. */
function timingFor(metrics: Observed | undefined, tracer: RequestTracer | undefined): OpenOptions['timing'] {
  if (!tracer) return metrics?.database;
  return (operation, seconds, error) => {
    metrics?.database(operation, seconds);
    tracer.database(operation, seconds, error);
  };
}
