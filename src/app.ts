/** The program as an object: tests open it on port 0, `main` on the configured one. */
import { dirname } from 'node:path';
import { type Config, ConfigError } from './config.ts';
import { then } from './domain/awaitable.ts';
import { fail } from './domain/error.ts';
import type { Secret } from './domain/key.ts';
import { denialLog } from './http/pipeline/denial-log.ts';
import { LargeReplies } from './http/pipeline/large-replies.ts';
import { makeLimits, type Rates } from './http/pipeline/limits.ts';
import { listenForScrapes } from './http/pipeline/metrics-server.ts';
import { oneUseLink } from './http/pipeline/one-use-link.ts';
import {
  type PendingSessionLimit,
  pendingSessionLimit,
  unlimitedPending,
} from './http/pipeline/pending-sessions.ts';
import type { HandlerContext } from './http/pipeline/route.ts';
import { listen } from './http/pipeline/server.ts';
import { usageRecorder } from './http/pipeline/usage-recorder.ts';
import { served } from './http/routes.ts';
import { type Log, makeLog } from './log.ts';
import { type Observer, observe, unobserved } from './observe.ts';
import { startBackgroundJobs } from './operations/background-jobs.ts';
import { type Bootstrapped, bootstrap } from './operations/bootstrap.ts';
import { masterKeys } from './operations/master-key.ts';
import { makeFolder } from './store/engine/file-ownership.ts';
import type { Migrated } from './store/engine/migrate.ts';
import { type OpenOptions, openStore } from './store/open.ts';
import type { Store } from './store/store.ts';

export interface App {
  readonly url: string;
  /** Where Prometheus finds the figures, if it was asked for. */
  readonly metricsUrl: string | undefined;
  readonly store: Store;
  readonly migrated: Migrated;
  readonly bootstrapped: Bootstrapped;
  /** Opens the console with the first key, if this start has made it. */
  readonly link?: Secret | undefined;
  /** Does at once what is done now and then. */
  flush(): Promise<void>;
  /** Says that it is not ready, serves on for a while, answers what was accepted, and closes. */
  close(): Promise<void>;
}

export interface AppOptions {
  /** Replaces the clock that decides. */
  readonly now?: () => number;
  readonly log?: Log;
  readonly checkReplies?: boolean;
  /** Whether other processes listen on the same port. */
  readonly shared?: boolean;
  /** Whether background jobs run on timers, which is the default. Without, `flush` runs them. */
  readonly timers?: boolean;
  /** See `openStore`. */
  readonly through?: OpenOptions['through'];
}

export async function openApp(config: Config, options: AppOptions = {}): Promise<App> {
  const log = options.log ?? makeLog({ level: config.logLevel });
  const observed =
    config.metricsPort === undefined
      ? undefined
      : observe(
          () => store.gauges(),
          () => store.inFlight(),
        );
  const observer = observed ?? unobserved;
  const opening = { clock: options.now, timing: observed?.database, through: options.through };
  const { store, migrated, bootstrapped } = await openData(config, opening);
  const opened: { close(): Promise<void> }[] = [store];
  const refused = denialLog(store, log, options.now ?? Date.now);
  const clock = options.now ?? steady;
  const used = usageRecorder(store);
  const link = bootstrapped.secret && oneUseLink(bootstrapped.secret, clock);
  let ready = true;
  const context = {
    store,
    log,
    observer,
    observed: observed !== undefined || log.watches('debug'),
    denials: refused,
    limits: makeLimits(ratesOf(config), clock, observer.limited),
    pendingSessions: pendingSessionsOf(config, store, clock, observer),
    largeReplies: new LargeReplies(),
    ...storageOf(config, store, clock, observer),
    usage: used,
    underWay: new Set<string>(),
    link,
    sessionTtl: config.sessionTtl,
    sessionTtlMax: config.sessionTtlMax,
    ready: () => ready,
    checkReplies: options.checkReplies ?? false,
  };
  const { host, port, metricsPort } = config;
  const server = await tryListen('PORT', port, () =>
    listen(served, context, { host, port, shared: options.shared ?? false, trusts: config.trustedProxies }),
  );
  const metrics =
    observed &&
    (await tryListen('SALLYPORT_METRICS_PORT', metricsPort as number, (at) =>
      listenForScrapes(host, at, observed),
    ));
  const chores = startBackgroundJobs(store, refused, used, observer, log, options.timers ?? true);
  const at = (port: number) => `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  return {
    url: at(server.port),
    store,
    migrated,
    bootstrapped,
    link: link?.code,
    metricsUrl: metrics && `${at(metrics.port)}/metrics`,
    flush: () => chores.flush(),
    close: async () => {
      ready = false;
      await Bun.sleep(config.drain);
      await server.close();
      await metrics?.close();
      await chores.stop();
      await store.close();
    },
  };

  async function tryListen<T extends { close(): Promise<void> }>(
    variable: string,
    port: number,
    attempt: (port: number) => T,
  ): Promise<T> {
    try {
      const listening = attempt(port);
      opened.unshift(listening);
      return listening;
    } catch (error) {
      for (const each of opened) await each.close();
      throw cannotListen(variable, config.host, port, error);
    }
  }
}

function ratesOf(config: Config): Rates {
  return {
    address: { rate: config.addressRate, per: 1000, burst: config.addressBurst },
    key: { rate: config.keyRate, per: 1000, burst: config.keyBurst },
    sessions: { rate: config.sessionRate, per: 60_000, burst: config.sessionBurst },
    tokens: { rate: config.tokenRate, per: 60_000, burst: config.tokenRate },
    'token-bytes': { rate: config.tokenByteRate, per: 60_000, burst: config.tokenByteRate },
  };
}

function pendingSessionsOf(
  { sessionsWaiting }: Config,
  { sessions }: Store,
  now: () => number,
  observer: Observer,
): PendingSessionLimit {
  if (sessionsWaiting === 0) return unlimitedPending;
  const detail = `This Application has ${sessionsWaiting} Sessions that nobody has authorized yet, the most that it may have: try again when some were authorized or have ended.`;
  return pendingSessionLimit(sessionsWaiting, sessions.waiting, now, () => {
    observer.limited('waiting');
    return fail('too_many_requests', { detail });
  });
}

function storageOf(
  { tokenBytes }: Config,
  { tokens }: Store,
  now: () => number,
  observer: Observer,
): Pick<HandlerContext, 'storage' | 'storageQuota'> {
  if (tokenBytes === 0) return { storage: unlimitedPending, storageQuota: undefined };
  const count = (tenant: string, application: string) =>
    then(tokens.stored(tenant, application), ({ bytes }) => bytes);
  const full = () => {
    observer.limited('storage');
    return fail('storage_full');
  };
  return { storage: pendingSessionLimit(tokenBytes, count, now, full), storageQuota: tokenBytes };
}

/** Milliseconds that go on evenly, whatever becomes of the machine's clock. */
function steady(): number {
  return Math.floor(performance.now());
}

export function cannotListen(variable: string, host: string, port: number, error: unknown): ConfigError {
  return new ConfigError(
    `HOST and ${variable}: cannot listen on ${host}:${port}: ${(error as Error).message}`,
    `where another program has that port, name another, or ${variable}=0 for a free one`,
  );
}

/** The database, with its schema up to date. */
export async function openDatabase({ databaseUrl, databaseTimeout }: Config, options: OpenOptions = {}) {
  if (databaseUrl.startsWith('sqlite:')) makeDataFolder(dirname(databaseUrl.slice('sqlite:'.length)));
  return openStore(databaseUrl, { timeout: databaseTimeout, ...options });
}

/** The same, with its keys at hand and at least one tenant in it. */
export async function openData(config: Config, options: Omit<OpenOptions, 'masters'> = {}) {
  const { store, migrated } = await openDatabase(config, { ...options, masters: masterKeys(config) });
  try {
    const bootstrapped = await bootstrap(store, config.managementKeyFile, (options.clock ?? Date.now)());
    return { store, migrated, bootstrapped };
  } catch (error) {
    await store.close();
    throw error;
  }
}

function makeDataFolder(path: string): void {
  try {
    makeFolder(path);
  } catch (error) {
    throw new ConfigError(`SALLYPORT_DATA_DIR: cannot make ${path}: ${(error as Error).message}`);
  }
}
