/**
 * Runs the suite: starts one PostgreSQL, hands its address to `bun test` with whatever arguments were given,
 * stops it, and closes with one line that counts.
 */
import { SQL } from 'bun';
import { migrate } from '../src/store/migrate.ts';
import { openPostgres } from '../src/store/postgres.ts';
import { startPostgres } from './support/postgres.ts';
import { addressOf } from './support/world.ts';

const postgres = await startPostgres();
const template = 'with_schema';
await makeTemplate();
const tests = Bun.spawn(
  [process.execPath, '--no-env-file', 'test', '--parallel=3', '--timeout', '20000', ...process.argv.slice(2)],
  {
    env: { ...process.env, SALLYPORT_TEST_POSTGRES: postgres.url, POSTGRES_TEMPLATE: template },
    stdio: ['ignore', 'inherit', 'pipe'],
  },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => tests.kill(signal));

let output = '';
const decoder = new TextDecoder();
for await (const chunk of tests.stderr) {
  process.stderr.write(chunk);
  output += decoder.decode(chunk, { stream: true });
}
const code = await tests.exited;
await postgres.stop();

const count = (word: string) => Number(new RegExp(`^\\s*(\\d+) ${word}$`, 'm').exec(output)?.[1] ?? 0);
const failed = count('fail');
console.log(`${count('pass')} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : code;

/** A database that others are copied from, which is quicker than to make the schema for each. */
async function makeTemplate(): Promise<void> {
  const admin = new SQL(postgres.url, { max: 1 });
  await admin.unsafe(`create database ${template}`);
  await admin.close();
  const db = openPostgres(addressOf(postgres.url, template), undefined);
  await migrate(db);
  await db.close();
}
