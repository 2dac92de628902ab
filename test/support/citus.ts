/** Databases on an existing Citus cluster. `test/run.ts` prepares two templates, which each test database copies. */
import { SQL } from 'bun';
import { migrate } from '../../src/db/migrate.ts';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { afterFile } from './cleanup.ts';

/** Few, because a migration creates a table for each shard. Every tenant of a test is likely to have another shard. */
const shards = 8;

interface Nodes {
  /** URLs of the coordinator and the workers. */
  readonly urls: readonly string[];
  readonly adding: string;
}

export interface CitusTemplate {
  /** For the processes that run the tests. */
  readonly environment: Record<string, string>;
  drop(): Promise<void>;
}

/** `url` is a database on the coordinator with the extension and all nodes. */
export async function createCitusTemplate(url: string): Promise<CitusTemplate> {
  const { urls, adding } = await nodesOf(url);
  const id = crypto.randomUUID().slice(0, 8);
  const [empty, migrated] = [`citus_empty_${id}`, `citus_migrated_${id}`];
  for (const name of [empty, migrated]) {
    await onEach(urls, `create database ${name}`);
    await onEach(urls, 'create extension citus', name);
    await run(inDatabase(url, name), `${adding}; alter database ${name} set citus.shard_count = ${shards}`);
  }
  const db = openPostgres(inDatabase(url, migrated), undefined, 60_000, 1);
  await migrate(db);
  await db.close();
  for (const name of [empty, migrated]) {
    // The maintenance process of Citus uses the database. A database in use cannot be copied.
    await onEach(urls, `alter database ${name} allow_connections false`);
    await onEach(
      urls,
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '${name}'`,
    );
  }
  return {
    environment: { CITUS_URL: url, CITUS_EMPTY: empty, CITUS_TEMPLATE: migrated },
    drop: async () => {
      for (const name of [empty, migrated]) await onEach(urls, `drop database ${name} with (force)`);
    },
  };
}

/** Returns the URL of the copy on the coordinator. */
export async function copyCitusTemplate(variable: 'CITUS_EMPTY' | 'CITUS_TEMPLATE'): Promise<string> {
  const { CITUS_URL: url = '', [variable]: template } = process.env;
  const { urls } = await nodesOf(url);
  const name = `test_${crypto.randomUUID().replaceAll('-', '')}`;
  await onEach(urls, `create database ${name} template ${template} strategy file_copy`);
  await run(url, `alter database ${name} set citus.shard_count = ${shards}`);
  afterFile(() => onEach(urls, `drop database if exists ${name} with (force)`));
  return inDatabase(url, name);
}

/** URLs of the coordinator and the workers. */
export async function citusServers(): Promise<readonly string[]> {
  return (await nodesOf(process.env.CITUS_URL ?? '')).urls;
}

const known = new Map<string, Nodes>();

async function nodesOf(url: string): Promise<Nodes> {
  const found = known.get(url);
  if (found) return found;
  const rows = await run<{ host: string; port: number; group: number }>(
    url,
    'select nodename as host, nodeport as port, groupid as group from pg_dist_node order by groupid',
  );
  const urls = rows.map(({ host, port }) => Object.assign(new URL(url), { host: `${host}:${port}` }).href);
  const adding = rows.map(({ host, port, group }) => {
    const called = group === 0 ? 'citus_set_coordinator_host' : 'citus_add_node';
    return `select ${called}('${host}', ${port})`;
  });
  const nodes = { urls, adding: adding.join('; ') };
  known.set(url, nodes);
  return nodes;
}

function inDatabase(url: string, name: string): string {
  return Object.assign(new URL(url), { pathname: `/${name}` }).href;
}

async function onEach(urls: readonly string[], sql: string, database?: string): Promise<void> {
  for (const url of urls) await run(database ? inDatabase(url, database) : url, sql);
}

async function run<R>(url: string, sql: string): Promise<R[]> {
  const connection = new SQL(url, { max: 1 });
  try {
    return (await connection.unsafe(sql)) as R[];
  } finally {
    await connection.close();
  }
}
