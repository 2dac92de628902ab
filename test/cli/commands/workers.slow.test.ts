import { afterEach, beforeEach, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { ProgramFolder, type RunningProgram } from '../../support/program.ts';
import { until } from '../../support/until.ts';

let program: ProgramFolder;
let service: RunningProgram;
let workers: number[];
beforeEach(async () => {
  program = new ProgramFolder();
  service = await program.serve({ SALLYPORT_LOG_LEVEL: 'debug' }, ['--workers', '2', '--port=0']);
  workers = listening();
});
afterEach(async () => {
  for (const pid of listening()) if (runs(pid)) process.kill(pid, 'SIGKILL');
});

/** The process ids of all workers so far, from the log. */
function listening(): number[] {
  return Array.from(service.err().matchAll(/"worker listening","pid":(\d+)/g), (match) => Number(match[1]));
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function isReachable(): Promise<boolean> {
  return fetch(`${service.url}/livez`, { headers: { Connection: 'close' } }).then(
    () => true,
    () => false,
  );
}

/** Opens several connections, because the kernel picks the worker of each. Returns the first status. */
async function firstStatus(): Promise<number> {
  const rest = new AbortController();
  const requests = Array.from({ length: 16 }, async () => {
    const key = readFileSync(program.path('data/management.key'), 'utf8').trim();
    const headers = { 'SVC-API-KEY': key, Connection: 'close' };
    return (await fetch(`${service.url}/applications/key`, { headers, signal: rest.signal })).status;
  });
  const first = await Promise.any(requests);
  rest.abort();
  await Promise.allSettled(requests);
  return first;
}

test('every worker serves on the same port', async () => {
  expect(workers).toHaveLength(2);
  for (const stopped of workers) {
    process.kill(stopped, 'SIGSTOP');
    expect(await firstStatus()).toBe(200);
    process.kill(stopped, 'SIGCONT');
  }
});

test('workers exit with the service, which exits with 0', async () => {
  service.kill('SIGTERM');
  expect(await service.ended).toBe(0);
  expect(workers.filter(runs)).toEqual([]);
});

test('Ctrl-C, which reaches supervisor and workers, drains normally', async () => {
  service.kill('SIGINT');
  for (const pid of workers) process.kill(pid, 'SIGINT');
  expect(await service.ended).toBe(0);
  expect(service.err()).not.toContain('"level":"error"');
});

test('a worker that hangs is killed and replaced', async () => {
  service.kill('SIGTERM');
  await service.ended;
  // The workers must tell within this time that they run.
  service = await program.serve({
    SALLYPORT_LOG_LEVEL: 'debug',
    SALLYPORT_WORKERS: '2',
    WATCHDOG_USEC: '3000000',
  });
  const [hanging] = listening();
  process.kill(hanging!, 'SIGSTOP');
  await service.until(new RegExp(`"worker hangs; killing it","pid":(${hanging})[\\s\\S]*worker listening`));
  expect(runs(hanging!)).toBe(false);
  await until('the service answers', () =>
    firstStatus()
      .then((status) => status === 200)
      .catch(() => false),
  );
});

test('a killed worker is replaced on the same port', async () => {
  process.kill(workers[0]!, 'SIGKILL');
  await service.until(/(worker exited)/);
  expect(await firstStatus()).toBe(200);
  await service.until(/(?:worker listening[\s\S]*){3}()/);
  const now = listening().at(-1)!;
  process.kill(workers[1]!, 'SIGSTOP');
  expect(await firstStatus()).toBe(200);
  process.kill(workers[1]!, 'SIGCONT');
  service.kill('SIGTERM');
  expect(await service.ended).toBe(0);
  expect([now, ...workers].filter(runs)).toEqual([]);
});

test('a replacement worker uses the same metrics port', async () => {
  const measured = await program.serve({
    SALLYPORT_WORKERS: '2',
    SALLYPORT_LOG_LEVEL: 'debug',
    SALLYPORT_METRICS_PORT: '0',
    SALLYPORT_DATA_DIR: 'measured',
  });
  const urls = Array.from(measured.out().matchAll(/^ {2}metrics +(http:\S+)$/gm), ([, url]) => url as string);
  process.kill(Number(await measured.until(/"worker listening","pid":(\d+)/)), 'SIGKILL');
  await measured.until(/(?:worker listening[\s\S]*){3}()/);
  for (const url of urls) expect((await fetch(url)).status).toBe(200);
  measured.kill('SIGTERM');
  expect(await measured.ended).toBe(0);
});

test('workers exit if their supervisor is killed', async () => {
  service.kill('SIGKILL');
  await service.ended;
  await until('all workers have ended', async () => !(await isReachable()));
});
