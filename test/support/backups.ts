/** Backs up the database of a test server, and restores it while the server is stopped. */
import { expect } from 'bun:test';
import type { Cli } from './cli.ts';
import { disconnect, runPostgres } from './test-server.ts';

export interface Backup<R> {
  take(): Promise<void>;
  restore(...options: string[]): Promise<{ code: number; body: R }>;
}

export function sqliteBackup<R>(cli: Cli, url: string): Backup<R> {
  const file = cli.path('backup.db');
  const database = ['--database-url', url];
  return {
    take: async () => {
      expect((await cli.run('backup', file, ...database)).code).toBe(0);
    },
    restore: (...options) => cli.json('restore', file, '--force', ...database, ...options),
  };
}

/**
 * Copies the database with `create database … template`, which is faster than a dump, on each of the servers.
 * `whileStopped` runs the copy while no node is connected.
 */
export function postgresBackup<R>(
  cli: Cli,
  url: string,
  servers: readonly string[],
  whileStopped: (copy: () => Promise<void>) => Promise<void>,
): Backup<R> {
  const name = new URL(url).pathname.slice(1);
  const admin = async (...statements: string[]) => {
    await disconnect(url);
    for (const server of servers) for (const statement of statements) await runPostgres(server, statement);
  };
  return {
    take: () =>
      whileStopped(() =>
        admin(
          // A process of Citus uses the database, and would start again.
          `alter database ${name} allow_connections false`,
          `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '${name}'`,
          `create database ${name}_copy template ${name} strategy file_copy`,
          `alter database ${name} allow_connections true`,
        ),
      ),
    restore: async (...options) => {
      await admin(`drop database ${name} with (force)`, `alter database ${name}_copy rename to ${name}`);
      return cli.json('recover', '--yes', '--database-url', url, ...options);
    },
  };
}
