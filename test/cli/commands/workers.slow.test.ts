import { afterEach, beforeEach, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { ProgramFolder, type RunningProgram } from '../../support/program.ts';

let place: ProgramFolder;
let service: RunningProgram;
let workers: number[];
beforeEach(async () => {
  place = new ProgramFolder();
  service = await place.serve({ SALLYPORT_WORKERS: '2', SALLYPORT_LOG_LEVEL: 'debug' });
  workers = listening();
});
afterEach(async () => {
  for (const pid of listening()) if (runs(pid)) process.kill(pid, 'SIGKILL');
  await place.close();
});

/** The workers that have ever listened, from the log. */
function listening(): number[] {
  return Array.from(service.err().matchAll(/"a worker listens","pid":(\d+)/g), (match) => Number(match[1]));
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Whether anyone still listens. */
function listened(): Promise<boolean> {
  return fetch(`${service.url}/livez`, { headers: { Connection: 'close' } }).then(
    () => true,
    () => false,
  );
}

/** Which one a connection reaches is up to the kernel, so several knock; the first answer counts. */
async function answered(): Promise<number> {
  const left = new AbortController();
  const knocks = Array.from({ length: 16 }, async () => {
    const key = readFileSync(place.path('data/management.key'), 'utf8').trim();
    const headers = { 'SVC-API-KEY': key, Connection: 'close' };
    return (await fetch(`${service.url}/applications/key`, { headers, signal: left.signal })).status;
  });
  const first = await Promise.any(knocks);
  left.abort();
  await Promise.allSettled(knocks);
  return first;
}

test('each of the workers serves on the one port', async () => {
  expect(workers).toHaveLength(2);
  for (const still of workers) {
    process.kill(still, 'SIGSTOP');
    expect(await answered()).toBe(200);
    process.kill(still, 'SIGCONT');
  }
});

test('they end with the service, which ends well', async () => {
  service.kill('SIGTERM');
  expect(await service.ended).toBe(0);
  expect(workers.filter(runs)).toEqual([]);
});

test('a terminal that tells them all at once to stop does not hurry them', async () => {
  service.kill('SIGINT');
  for (const pid of workers) process.kill(pid, 'SIGINT');
  expect(await service.ended).toBe(0);
  expect(service.err()).not.toContain('"level":"error"');
});

test('a worker that is killed is replaced, on the same port', async () => {
  process.kill(workers[0]!, 'SIGKILL');
  await service.until(/(a worker ended)/);
  expect(await answered()).toBe(200);
  await service.until(/(?:a worker listens[\s\S]*){3}()/);
  const now = listening().at(-1)!;
  process.kill(workers[1]!, 'SIGSTOP');
  expect(await answered()).toBe(200);
  process.kill(workers[1]!, 'SIGCONT');
  service.kill('SIGTERM');
  expect(await service.ended).toBe(0);
  expect([now, ...workers].filter(runs)).toEqual([]);
});

test('a worker that takes the place of another has its figures where that had them', async () => {
  const measured = await place.serve({
    SALLYPORT_WORKERS: '2',
    SALLYPORT_LOG_LEVEL: 'debug',
    SALLYPORT_METRICS_PORT: '0',
    SALLYPORT_DATA_DIR: 'measured',
  });
  const figures = Array.from(
    measured.out().matchAll(/^ {2}figures +(http:\S+)$/gm),
    ([, url]) => url as string,
  );
  process.kill(Number(await measured.until(/"a worker listens","pid":(\d+)/)), 'SIGKILL');
  await measured.until(/(?:a worker listens[\s\S]*){3}()/);
  for (const url of figures) expect((await fetch(url)).status).toBe(200);
  measured.kill('SIGTERM');
  expect(await measured.ended).toBe(0);
});

test('workers do not outlive a supervisor that is killed', async () => {
  service.kill('SIGKILL');
  await service.ended;
  while (await listened());
});
