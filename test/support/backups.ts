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
 * Copies the database with `create database … template`, which is faster than a dump. `whileStopped` runs the copy while
 * no server is connected.
 */
export function postgresBackup<R>(
  cli: Cli,
  url: string,
  whileStopped: (copy: () => Promise<void>) => Promise<void>,
): Backup<R> {
  const name = new URL(url).pathname.slice(1);
  const admin = async (statement: string) => {
    await disconnect(url);
    await runPostgres(process.env.SALLYPORT_TEST_POSTGRES as string, statement);
  };
  return {
    take: () => whileStopped(() => admin(`create database ${name}_copy template ${name} strategy file_copy`)),
    restore: async (...options) => {
      await admin(`drop database ${name}`);
      await admin(`alter database ${name}_copy rename to ${name}`);
      return cli.json('recover', '--yes', '--database-url', url, ...options);
    },
  };
}
