/** Opens the service in this process, on either database, with a clock that the test advances. */
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQL } from 'bun';
import { type App, type AppOptions, openApp } from '../../src/app.ts';
import { type Config, readConfig } from '../../src/config/settings.ts';
import type { Db } from '../../src/db/db.ts';
import { newTenant } from '../../src/operations/bootstrap.ts';
import { makeLog } from '../../src/telemetry/log.ts';
import { copyCitusTemplate } from './citus.ts';
import { afterFile, closeLater } from './cleanup.ts';
import { expectResponseInvariants } from './response-invariants.ts';
import { checkTenants, wrapped } from './tenant-statements.ts';

/** PostgreSQL query timeout in milliseconds, the longest that the settings accept. Tests of the timeout set a shorter one. */
export const generousTimeout = 60_000;

/**
 * PostgreSQL connections of a node, the fewest that the settings accept. Bun opens all connections of a pool together, and
 * each costs the server as much as a dozen requests. Tests of concurrent transactions use `manyConnections`.
 */
export const fewConnections = 2;
/** Settings with which more transactions run at the same time. */
export const manyConnections = { SALLYPORT_DATABASE_CONNECTIONS: '8' };

/** The master key of every node in the tests. */
export const testMasterKey = Buffer.alloc(32, 7).toString('base64');

export const startTime = Date.parse('2026-11-15T12:00:00.000Z');

export class Clock {
  #now = startTime;
  #jumped = 0;
  readonly now = () => this.#now + this.#jumped;
  readonly monotonic = () => this.#now;
  advance(milliseconds: number): void {
    this.#now += milliseconds;
  }
  /** Sets the clock forward or back, which does not affect the monotonic clock. */
  jump(milliseconds: number): void {
    this.#jumped += milliseconds;
  }
}

export interface Database {
  readonly name: 'SQLite' | 'PostgreSQL';
  /** Creates an empty database and returns its URL. */
  createEmpty(folder: string): Promise<string>;
  /** Creates a database for tests that need the schema, as a copy of one that `test/run.ts` has migrated. */
  createMigrated(folder: string): Promise<string>;
}

/** For tests in which the kind of database does not matter. */
export const sqlite: Database = {
  name: 'SQLite',
  createEmpty: async (folder) => `sqlite:${join(folder, 'test.db')}`,
  createMigrated: async (folder) => {
    const path = join(folder, 'test.db');
    copyFileSync(fromRunner('SQLITE_TEMPLATE'), path);
    chmodSync(path, 0o600);
    return `sqlite:${path}`;
  },
};

export const postgres: Database = {
  name: 'PostgreSQL',
  createEmpty: () => createDatabase('template1'),
  createMigrated: () => createDatabase(fromRunner('POSTGRES_TEMPLATE')),
};

/** On an existing cluster. CITUS_URL is the URL of a database on its coordinator. */
export const citus: Database = {
  name: 'PostgreSQL',
  createEmpty: () => copyCitusTemplate('CITUS_EMPTY'),
  createMigrated: () => copyCitusTemplate('CITUS_TEMPLATE'),
};

function fromRunner(variable: string): string {
  const value = process.env[variable];
  if (!value) throw new Error('run the tests with npm test, which prepares databases for them');
  return value;
}

async function createDatabase(template: string): Promise<string> {
  const server = fromRunner('SALLYPORT_TEST_POSTGRES');
  const name = `test_${crypto.randomUUID().replaceAll('-', '')}`;
  await runPostgres(server, `create database ${name} template ${template} strategy file_copy`);
  afterFile(async () => {
    await runPostgres(server, `drop database if exists ${name} with (force)`);
  });
  return databaseUrl(server, name);
}

/** By URL. Open until the end of the test file. */
const connections = new Map<string, SQL>();

/** Runs SQL on a separate connection, which all calls with this URL share. */
export async function runPostgres<R>(url: string, sql: string): Promise<R[]> {
  let connection = connections.get(url);
  if (!connection) {
    connection = new SQL(url, { max: 1 });
    connections.set(url, connection);
    afterFile(() => disconnect(url));
  }
  return (await connection.unsafe(sql)) as R[];
}

/** Closes the connection of `runPostgres`, for statements that need a database without connections. */
export async function disconnect(url: string): Promise<void> {
  const connection = connections.get(url);
  connections.delete(url);
  await connection?.close();
}

/** The URL of another database on the same server. */
export function databaseUrl(server: string, name: string): string {
  return server.replace(/\/postgres$/, `/${name}`);
}

/** For `describe.each(databases)`: runs a suite on every database. */
export const databases: [name: string, database: Database][] = [
  [sqlite.name, sqlite],
  [postgres.name, postgres],
  ...(process.env.CITUS_TEMPLATE ? [['Citus', citus] satisfies [string, Database]] : []),
];

export interface ApiResponse {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests check the fields
  readonly body: any;
  readonly headers: Headers;
}

export interface CallOptions {
  readonly key?: string | undefined;
  /** Strings and bytes are sent unchanged, other values as JSON. */
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

export interface TestServer {
  readonly app: App;
  readonly url: string;
  readonly clock: Clock;
  readonly config: Config;
  /** The log lines so far. */
  readonly logged: string[];
  call(method: string, path: string, options?: CallOptions): Promise<ApiResponse>;
  /** Creates a tenant and returns its id and management key. Tests that share a server use separate tenants. */
  tenant(): Promise<{ id: string; key: string }>;
  /** Creates an application. Throws unless the response is 201. */
  application(key: string, fields?: Record<string, unknown>): Promise<ApiResponse['body']>;
  /** Runs the background jobs, which have no timers in tests. */
  flush(): Promise<void>;
  /** Does nothing the second time. */
  close(): Promise<void>;
}

/** Opens the service on a new database, or on the existing one at a URL. */
export async function openTestServer(
  database: Database | string,
  env: Record<string, string> = {},
  through?: AppOptions['through'],
  replaced: Pick<AppOptions, 'turns' | 'memory' | 'routes' | 'reserved' | 'resolve'> = {},
): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'));
  const clock = new Clock();
  const logged: string[] = [];
  const config = readConfig({
    env: {
      PORT: '0',
      SALLYPORT_DATA_DIR: folder,
      SALLYPORT_DRAIN: '0',
      SALLYPORT_DATABASE_TIMEOUT: String(generousTimeout),
      SALLYPORT_DATABASE_CONNECTIONS: String(fewConnections),
      ...(database !== sqlite && { SALLYPORT_MASTER_KEY: testMasterKey }),
      DATABASE_URL: typeof database === 'string' ? database : await database.createMigrated(folder),
      ...env,
    },
  });
  const log = makeLog({
    level: 'debug',
    asText: false,
    now: clock.now,
    write: (line) => logged.push(line),
  });
  const options = {
    ...clock,
    log,
    checkReplies: true,
    timers: false,
    // Small, so that tests open quickly.
    reserved: 65_536,
    through: (db: Db) => wrapped(db, (each) => checkTenants(through?.(each) ?? each)),
    ...replaced,
  };
  const app = await openApp(config, options);

  const close = closeLater(async () => {
    await app.close();
    rmSync(folder, { recursive: true, force: true });
  });
  let lastCall = 0;

  async function call(
    method: string,
    path: string,
    { key, body, headers }: CallOptions = {},
  ): Promise<ApiResponse> {
    const unchanged = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
    const sent = (unchanged ? body : JSON.stringify(body)) as string | undefined;
    // The service closes connections that are idle for ten seconds. Do not reuse one that it may be closing.
    const keepalive = performance.now() - lastCall < 5000;
    lastCall = performance.now();
    const response = await fetch(app.url + path, {
      method,
      keepalive,
      headers: {
        ...(key !== undefined && { 'SVC-API-KEY': key }),
        ...(sent !== undefined && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(sent !== undefined && { body: sent }),
    });
    const received = await response.text();
    if (response.status === 500) throw new Error(`internal error: ${logged.at(-1)}`);
    const json = response.headers.get('content-type')?.includes('json');
    const result = {
      status: response.status,
      body: json && received ? JSON.parse(received) : received,
      headers: response.headers,
    };
    expectResponseInvariants(method, result);
    return result;
  }

  return {
    app,
    url: app.url,
    clock,
    config,
    logged,
    call,
    tenant: async () => {
      const tenant = newTenant('test', clock.now());
      await app.maintenance.tenants.create(tenant);
      return { id: tenant.id, key: tenant.secret.reveal() };
    },
    application: async (key, fields = {}) => {
      const body = { name: 'an application', type: 'private', permissions: ['token:read'], ...fields };
      const created = await call('POST', '/applications', { key, body });
      if (created.status !== 201) throw new Error(`not created: ${JSON.stringify(created.body)}`);
      return created.body;
    },
    flush: () => app.flush(),
    close,
  };
}
