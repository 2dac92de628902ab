/** What the rows share: the service on both databases, with a credential of every kind, and a way to clean up. */
import { SQL } from 'bun';
import { type Postgres, startPostgres } from '../test/support/postgres.ts';
import { endWithUs, type Service, startService } from './servers.ts';

export interface Created {
  readonly id: string;
  readonly key: string;
}

/** A service with one Application of each type and one Session. */
export interface Furnished extends Service {
  readonly backend: Created;
  readonly page: Created;
  readonly session: string;
  /** The process of its database, if that is one of its own. */
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

export async function furnish(service: Service, database?: number): Promise<Furnished> {
  const create = (body: object) => service.call<Created>('POST', '/applications', body);
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

export interface Stage {
  readonly postgres: Postgres;
  readonly onSqlite: Furnished;
  readonly onPostgres: Furnished;
  /** An empty database of its own. */
  database(): Promise<string>;
  close(): Promise<void>;
}

/** Durable, as in production. */
const durable = { fsync: 'on', synchronous_commit: 'on', shared_buffers: '512MB', max_wal_size: '4GB' };

export async function setStage(): Promise<Stage> {
  const postgres = await startPostgres(durable);
  endWithUs(postgres.pid, 'SIGINT');
  const maintenance = new SQL(postgres.url, { max: 1 });
  let made = 0;
  const database = async () => {
    const name = `bench_${++made}`;
    await maintenance.unsafe(`create database ${name}`);
    return postgres.url.replace(/postgres$/, name);
  };
  const onSqlite = await furnish(await startService());
  const onPostgres = await furnish(await startService({ DATABASE_URL: await database() }), postgres.pid);
  const close = async () => {
    await onSqlite.stop();
    await onPostgres.stop();
    await maintenance.close();
    await postgres.stop();
  };
  return { postgres, onSqlite, onPostgres, database, close };
}
