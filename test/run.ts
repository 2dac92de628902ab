/**
 * Runs the suite: starts one PostgreSQL, hands its address to `bun test` with whatever arguments were given,
 * stops it, and closes with one line that counts.
 */
import { startPostgres } from './support/postgres.ts';

const postgres = await startPostgres();
const tests = Bun.spawn(
  [process.execPath, '--no-env-file', 'test', '--parallel=2', '--timeout', '20000', ...process.argv.slice(2)],
  {
    env: { ...process.env, SALLYPORT_TEST_POSTGRES: postgres.url },
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
