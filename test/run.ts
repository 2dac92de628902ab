/**
 * Runs the tests with a clean environment, a temporary folder and a PostgreSQL server, which it removes afterwards.
 *
 *   npm test                     all but `*.slow.test.ts`
 *   npm run test:all             all
 *   npm run test:all -- --rest   only `*.slow.test.ts`
 *   npm test -- PATH…            these files, slow or not
 *   npm run test:citus           the tests of databases, on a Citus cluster only
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Glob, SQL } from 'bun';
import { migrate } from '../src/db/migrate.ts';
import { openPostgres } from '../src/db/postgres/postgres.ts';
import { openSqlite } from '../src/db/sqlite/sqlite.ts';
import { CitusCluster, citusBinaries } from '../torture/crash/citus.ts';
import { createCitusTemplate } from './support/citus.ts';
import { initializedData, startPostgres } from './support/postgres.ts';
import { report } from './support/test-report.ts';
import { databaseUrl, generousTimeout } from './support/test-server.ts';

const root = join(import.meta.dirname, '..');
/** Milliseconds after which a test counts as hung. No test relies on it. */
const testTimeout = 600_000;
/** Bytes of temporary files that the tests need together, with a reserve. */
const neededMemory = 2 * 2 ** 30;
/** Settings that save processor time. They have no effect that a test could notice without a crash of the server. */
const cheap = {
  autovacuum: 'off',
  full_page_writes: 'off',
  max_wal_senders: '0',
  shared_buffers: '32MB',
  wal_level: 'minimal',
};
/** Every test database of a cluster has a process of Citus on each server. */
const manyDatabases = {
  max_connections: '300',
  max_worker_processes: '100',
  fsync: 'off',
  autovacuum: 'off',
  // As the documentation advises for workers.
  random_page_cost: '1.1',
};
/** Leaves out the last compiler, whose work short tests never repay. */
const cheapRuntime = { BUN_JSC_useFTLJIT: '0' };
const slow = '.slow.test.ts';
/**
 * Each process loads and compiles the modules again. A file often waits for PostgreSQL or for a real timeout, so two
 * processes do not use two cores.
 */
const processes = Math.max(3, Math.min(availableParallelism() - 1, 4));

const onCitus = process.argv.includes('--citus');
if (onCitus && !process.env.CITUS_URL && citusBinaries() === undefined) {
  const reason = 'pg_config is missing or finds no citus.so, and CITUS_URL is not set';
  console.log(`SKIPPED all tests on a Citus cluster: ${reason}`);
  process.exit();
}
const { options, files } = readArguments(process.argv.slice(2));
if (files.length === 0) {
  console.error('no test file has such a path');
  process.exit(2);
}
const isFast = !files.some((file) => file.includes(slow));
const scratch = mkdtempSync(join(temporaryFolder(), 'sallyport-tests-'));
const environment = cleanEnvironment();
process.env.POSTGRES_INITIALIZED = await initializedData(scratch);
const postgres = await startPostgres(cheap);
const templates = { POSTGRES_TEMPLATE: 'with_schema', SQLITE_TEMPLATE: join(scratch, 'template.db') };
await createTemplates();
const cluster =
  onCitus && !environment.CITUS_URL
    ? await CitusCluster.start(join(scratch, 'citus'), manyDatabases)
    : undefined;
const citusUrl = cluster?.coordinator.url() ?? environment.CITUS_URL;
const citus = citusUrl ? await createCitusTemplate(citusUrl) : undefined;

const preload = join(root, 'test/support/preload.ts');
const tests = Bun.spawn(
  [
    ...[process.execPath, '--no-env-file', 'test', `--preload=${preload}`],
    ...[
      `--parallel=${processes}`,
      // A process then loads and compiles the modules once, and not again for each of its files.
      ...(isFast ? ['--no-isolate'] : []),
      `--timeout=${testTimeout}`,
      ...options,
      ...files.map((path) => `./${path}`),
    ],
  ],
  {
    cwd: root,
    env: {
      ...environment,
      SALLYPORT_TEST_POSTGRES: postgres.url,
      ...templates,
      ...citus?.environment,
      ...(isFast && cheapRuntime),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => tests.kill(signal));

const summary = await report(tests.stderr, files.length, (text) => process.stdout.write(text));
const code = await tests.exited;
await postgres.stop();
await citus?.drop();
await cluster?.kill();
rmSync(scratch, { recursive: true, force: true });
console.log(summary.line);
process.exitCode = summary.failed > 0 ? 1 : code;

/**
 * For the fast tests a folder in memory, because files on a disk take processor time, and on a loaded machine long waits.
 * Otherwise, or if TMPDIR is set, or if the memory is small or does not allow executable files, the one of the system.
 */
function temporaryFolder(): string {
  const system = realpathSync(tmpdir());
  const memory = '/dev/shm';
  if (!isFast || process.env.TMPDIR || !existsSync(memory)) return system;
  const { bavail, bsize } = statfsSync(memory);
  return bavail * bsize >= neededMemory && allowsExecution(memory) ? memory : system;
}

function allowsExecution(folder: string): boolean {
  const file = join(mkdtempSync(join(folder, 'sallyport-probe-')), 'probe');
  try {
    writeFileSync(file, '#!/bin/sh\n', { mode: 0o700 });
    return spawnSync(file).status === 0;
  } finally {
    rmSync(dirname(file), { recursive: true });
  }
}

/** Clears the caller's environment, except PATH, CHROME_PATH, PGBOUNCER_PATH, CITUS_URL and CONSOLE_NUMBERS. */
function cleanEnvironment(): Record<string, string> {
  const home = join(scratch, 'home');
  mkdirSync(home);
  // PostgreSQL may run as another user and needs access to its folder.
  chmodSync(scratch, 0o711);
  process.umask(0o022);
  const { PATH = '', ...others } = process.env;
  const kept = ['CHROME_PATH', 'PGBOUNCER_PATH', 'CITUS_URL', 'CONSOLE_NUMBERS'].filter(
    (name) => others[name],
  );
  const inherited = { PATH, ...Object.fromEntries(kept.map((name) => [name, others[name]])) };
  const overrides = { HOME: home, TMPDIR: scratch, LANG: 'C.UTF-8', TZ: 'UTC', NO_COLOR: '1' };
  for (const name of Object.keys(process.env)) delete process.env[name];
  return Object.assign(process.env, { ...inherited, ...overrides }) as Record<string, string>;
}

/** The test files to run, and the other arguments, which are for `bun test`. */
function readArguments(args: string[]): { options: string[]; files: string[] } {
  const paths = args.filter((argument) => argument.startsWith('test/'));
  const known = ['--all', '--rest', '--citus', ...paths];
  const options = args.filter((argument) => !known.includes(argument));
  const all = [...new Glob('test/**/*.test.{ts,tsx}').scanSync(root)].toSorted();
  if (onCitus) {
    // The torture run has other rows on Citus, which the slow tests include.
    const isOfDatabases = (file: string) =>
      !file.includes('/torture') && /\bdatabases\b|Citus/.test(readFileSync(join(root, file), 'utf8'));
    const isChosen = (file: string) => paths.length === 0 || paths.some((path) => file.includes(path));
    return {
      options: ['-t', 'Citus', ...options],
      files: all.filter((f) => isChosen(f) && isOfDatabases(f)),
    };
  }
  if (paths.length > 0) {
    return { options, files: all.filter((file) => paths.some((path) => file.includes(path))) };
  }
  if (args.includes('--rest')) return { options, files: all.filter((file) => file.includes(slow)) };
  return { options, files: args.includes('--all') ? all : all.filter((file) => !file.includes(slow)) };
}

/** Creates the migrated databases that test databases are copied from. Copying is faster than migrating. */
async function createTemplates(): Promise<void> {
  const { POSTGRES_TEMPLATE: name, SQLITE_TEMPLATE: path } = templates;
  const admin = new SQL(postgres.url, { max: 1 });
  await admin.unsafe(`create database ${name}`);
  await admin.close();
  const url = databaseUrl(postgres.url, name);
  for (const db of [openPostgres(url, undefined, generousTimeout, 1), openSqlite(path, Date.now)]) {
    await migrate(db);
    await db.close();
  }
}
