/** Shared by all rows: the service on both databases, with credentials of every kind. */
import { SQL } from 'bun';
import { type Postgres, startPostgres } from '../test/support/postgres.ts';
import { keepRunning, killOnExit, type Service, startService } from './servers.ts';

export interface CreatedApplication {
  readonly id: string;
  readonly key: string;
}

/** The tenant of inserted rows, and the public application of its sessions. */
export interface Owner {
  readonly tenant: string;
  readonly page: string;
}

/** A service with one application of each type and one session. */
export interface PreparedService extends Service {
  readonly backend: CreatedApplication;
  readonly page: CreatedApplication;
  readonly session: string;
  /** The process id of the PostgreSQL server. */
  readonly database: number | undefined;
}

const grants = {
  permissions: ['application:read', 'session:authorize', 'decision:create'],
  rules: [
    {
      priority: 1,
      container: '/customers/',
      transform: 'reveal',
      permissions: ['invoice:read', 'token:create', 'token:read'],
    },
  ],
};

export const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/customers/42/' }];
export const sessionRules = [{ priority: 1, transform: 'mask', permissions: ['invoice:read'], conditions }];

export async function prepareService(service: Service, database?: number): Promise<PreparedService> {
  const create = (body: object) => service.call<CreatedApplication>('POST', '/applications', body);
  const backend = await create({ name: 'bench backend', type: 'private', ...grants });
  const page = await create({ name: 'bench page', type: 'public', permissions: ['token:create'] });
  const session = await service.call<{ session_key: string; nonce: string }>(
    'POST',
    '/sessions',
    undefined,
    page.key,
  );
  const expires_at = new Date(Date.now() + 86_400_000).toISOString();
  const grant = { nonce: session.nonce, rules: sessionRules, expires_at };
  await service.call('POST', '/sessions/authorize', grant, backend.key);
  return { ...service, backend, page, session: session.session_key, database };
}

export interface Environment {
  readonly postgres: Postgres;
  readonly onSqlite: PreparedService;
  readonly onPostgres: PreparedService;
  /** Creates an empty PostgreSQL database and returns its URL. */
  database(): Promise<string>;
  close(): Promise<void>;
}

/** Durability settings of production. The benchmark vacuums after it fills a database, not during a measurement. */
const durable = {
  autovacuum_naptime: '1h',
  fsync: 'on',
  synchronous_commit: 'on',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
};

export async function openEnvironment(): Promise<Environment> {
  const postgres = await startPostgres(durable);
  killOnExit(postgres.pid, 'SIGINT');
  const maintenance = new SQL(postgres.url, { max: 1 });
  let made = 0;
  const database = async () => {
    const name = `bench_${++made}`;
    await maintenance.unsafe(`create database ${name}`);
    return postgres.url.replace(/postgres$/, name);
  };
  const onSqlite = await prepareService(await startService());
  const onPostgres = await prepareService(
    await startService({ DATABASE_URL: await database() }),
    postgres.pid,
  );
  keepRunning();
  const close = async () => {
    await onSqlite.stop();
    await onPostgres.stop();
    await maintenance.close();
    await postgres.stop();
  };
  return { postgres, onSqlite, onPostgres, database, close };
}
