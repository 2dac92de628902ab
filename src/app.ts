/** The program as an object: tests open it on port 0, `main` on the configured one. */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Bootstrapped, bootstrap } from './bootstrap.ts';
import { startChores } from './chores.ts';
import { type Config, ConfigError } from './config.ts';
import { denials } from './http/denials.ts';
import { routes } from './http/routes.ts';
import { listen } from './http/server.ts';
import { type Log, makeLog } from './log.ts';
import { masterKeys } from './master-key.ts';
import type { Migrated } from './store/migrate.ts';
import { openStore } from './store/open.ts';
import type { Store } from './store/store.ts';

export interface App {
  readonly url: string;
  readonly store: Store;
  readonly migrated: Migrated;
  readonly bootstrapped: Bootstrapped;
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
}

export async function openApp(config: Config, options: AppOptions = {}): Promise<App> {
  const log = options.log ?? makeLog({ level: config.logLevel });
  const { store, migrated, bootstrapped } = await openData(config, options.now);
  const refused = denials(store, log, options.now ?? Date.now);
  let ready = true;
  const world = {
    store,
    log,
    denials: refused,
    underWay: new Set<string>(),
    sessionTtl: config.sessionTtl,
    sessionTtlMax: config.sessionTtlMax,
    ready: () => ready,
    checkReplies: options.checkReplies ?? false,
  };
  const server = tryListen(() =>
    listen(routes, world, { host: config.host, port: config.port, shared: options.shared ?? false }),
  );
  const chores = startChores(store, refused, log);
  return {
    url: `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${server.port}`,
    store,
    migrated,
    bootstrapped,
    flush: () => chores.flush(),
    close: async () => {
      ready = false;
      await Bun.sleep(config.drain);
      await server.close();
      await chores.stop();
      await store.close();
    },
  };

  function tryListen<T>(attempt: () => T): T {
    try {
      return attempt();
    } catch (error) {
      void store.close();
      throw new ConfigError(
        `HOST and PORT: cannot listen on ${config.host}:${config.port}: ${(error as Error).message}`,
      );
    }
  }
}

/** The database, with its schema up to date and at least one tenant in it. */
export async function openData(config: Config, now?: () => number) {
  if (config.databaseUrl.startsWith('sqlite:'))
    makeFolder(dirname(config.databaseUrl.slice('sqlite:'.length)));
  const { store, migrated } = await openStore(config.databaseUrl, {
    clock: now,
    masters: masterKeys(config),
  });
  try {
    const bootstrapped = await bootstrap(store, config.managementKeyFile, (now ?? Date.now)());
    return { store, migrated, bootstrapped };
  } catch (error) {
    await store.close();
    throw error;
  }
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new ConfigError(`SALLYPORT_DATA_DIR: cannot make ${path}: ${(error as Error).message}`);
  }
}
