/**
 * Runs the tests. Starts one PostgreSQL for them, in a folder and with an environment of their own, and removes both.
 *
 *   npm test                     all but `*.slow.test.ts`
 *   npm run test:all             all
 *   npm run test:all -- --rest   only what `npm test` leaves out
 *   npm test -- PATH…            these files, of either kind
 */
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQL } from 'bun';
import { migrate } from '../src/store/engine/migrate.ts';
import { openPostgres } from '../src/store/engine/postgres.ts';
import { startPostgres } from './support/postgres.ts';
import { report } from './support/test-report.ts';
import { databaseUrl } from './support/test-server.ts';

const root = join(import.meta.dirname, '..');
/** Milliseconds after which a test counts as hung. No test relies on it. */
const hung = 600_000;
const slow = '.slow.test.ts';
/** One more than the cores of a small machine: some tests mostly wait for processes that they start. */
const atOnce = 3;

const scratch = mkdtempSync(join(realpathSync(tmpdir()), 'sallyport-tests-'));
const environment = cleanEnvironment();
const postgres = await startPostgres();
const template = 'with_schema';
await makeTemplate();

const preload = join(root, 'test/support/preload.ts');
const tests = Bun.spawn(
  [
    ...[process.execPath, '--no-env-file', 'test', `--preload=${preload}`],
    ...[`--parallel=${atOnce}`, `--timeout=${hung}`, ...chosen(process.argv.slice(2))],
  ],
  {
    cwd: root,
    env: { ...environment, SALLYPORT_TEST_POSTGRES: postgres.url, POSTGRES_TEMPLATE: template },
    stdio: ['ignore', 'ignore', 'pipe'],
  },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => tests.kill(signal));

const summary = await report(tests.stderr, (text) => process.stdout.write(text));
const code = await tests.exited;
await postgres.stop();
rmSync(scratch, { recursive: true, force: true });
console.log(summary.line);
process.exitCode = summary.failed > 0 ? 1 : code;

/** Nothing of the caller's environment reaches the tests but where programs are found. */
function cleanEnvironment(): Record<string, string> {
  const home = join(scratch, 'home');
  mkdirSync(home);
  // PostgreSQL may run as another user, who must reach its folder.
  chmodSync(scratch, 0o711);
  process.umask(0o022);
  const { PATH = '', CHROME_PATH } = process.env;
  const kept = { PATH, ...(CHROME_PATH && { CHROME_PATH }) };
  const own = { HOME: home, TMPDIR: scratch, LANG: 'C.UTF-8', TZ: 'UTC', NO_COLOR: '1' };
  for (const name of Object.keys(process.env)) delete process.env[name];
  return Object.assign(process.env, { ...kept, ...own }) as Record<string, string>;
}

/** The arguments for `bun test`. */
function chosen(given: string[]): string[] {
  const all = given.includes('--all');
  const rest = given.includes('--rest');
  const others = given.filter((argument) => argument !== '--all' && argument !== '--rest');
  if (others.some((argument) => argument.startsWith('test/'))) return others;
  if (rest) return [...others, slow];
  return all ? others : [...others, `--path-ignore-patterns=**/*${slow}`];
}

/** A database that others are copied from, which is faster than migrating each. */
async function makeTemplate(): Promise<void> {
  const admin = new SQL(postgres.url, { max: 1 });
  await admin.unsafe(`create database ${template}`);
  await admin.close();
  const db = openPostgres(databaseUrl(postgres.url, template), undefined);
  await migrate(db);
  await db.close();
}
