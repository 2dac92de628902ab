/** Cold start time, idle memory, and the time of a command that does nothing. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Effort, type Figure, figure, type Series } from '../compare.ts';
import { node, peer } from '../peers.ts';
import { costRow, maxRow, type Row } from '../report.ts';
import { masterKey, resident, startServer } from '../servers.ts';

const root = join(import.meta.dirname, '../..');

interface Started {
  readonly milliseconds: number;
  readonly mebibytes: number;
}

async function measureStart(command: string[], env: Record<string, string>, idle: number): Promise<Started> {
  const began = performance.now();
  const server = await startServer(command, env);
  const milliseconds = performance.now() - began;
  await Bun.sleep(idle);
  const mebibytes = resident(server.pid);
  await server.stop();
  return { milliseconds, mebibytes };
}

export async function startRows(_: unknown, effort: Effort): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-start-'));
  const file = join(folder, 'sallyport');
  const build = [process.execPath, '--no-env-file', join(root, 'deploy/build.ts'), file];
  Bun.spawnSync(build, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
  const env = {
    PORT: '0',
    SALLYPORT_DATA_DIR: folder,
    SALLYPORT_DRAIN: '0',
    SALLYPORT_MASTER_KEY: masterKey,
    DATABASE_URL: '',
  };
  const contestants: [string, string[]][] = [
    ['from source', [process.execPath, '--no-env-file', join(root, 'src/main.ts'), 'serve']],
    ['one file', [file, 'serve']],
    ['hello', [node(), peer('hello')]],
  ];
  const found = new Map<string, Started[]>(contestants.map(([name]) => [name, []]));
  for (let round = 0; round <= effort.rounds; round++)
    for (const [name, command] of contestants) {
      const started = await measureStart(command, env, effort.quick ? 200 : 500);
      if (round > 0) found.get(name)?.push(started);
    }
  rmSync(folder, { recursive: true });

  const of = (name: string, what: keyof Started): Figure =>
    figure((found.get(name) ?? []).map((each) => each[what]));
  const baseline = "Node 24 with Fastify's hello world";
  const starts = ['from source', 'one file'].flatMap((name) => {
    const [time, memory] = [of(name, 'milliseconds'), of(name, 'mebibytes')];
    const group = 'start';
    return [
      maxRow(
        { group, work: `cold start to ready, ${name}`, baseline, unit: 'ms', max: 300 },
        time,
        of('hello', 'milliseconds'),
      ),
      maxRow(
        { group, work: `memory when idle, ${name}`, baseline, unit: 'MiB', max: 80 },
        memory,
        of('hello', 'mebibytes'),
      ),
    ];
  });
  return [...starts, ...commandRows(effort)];
}

/** Commands of a clone, by the time that passes until they end. */
function commandRows({ rounds }: Effort): Row[] {
  const launcher = join(root, 'bin/sallyport.mjs');
  const commands = { version: ['version'], completion: ['__complete', 'a'] };
  const timed = (command: string[]) => {
    const began = performance.now();
    const { exitCode } = Bun.spawnSync(command, { stdio: ['ignore', 'ignore', 'inherit'] });
    if (exitCode !== 0) throw new Error(`${command.join(' ')} failed`);
    return { rate: 1000 / (performance.now() - began) };
  };
  const series = Object.keys(commands).map((name): Series => ({ name, samples: [] }));
  const empty: Series = { name: 'node', samples: [] };
  for (let round = 0; round < rounds; round++) {
    empty.samples.push(timed(['node', '-e', '0']));
    for (const { name, samples } of series)
      samples.push(timed(['node', launcher, ...commands[name as keyof typeof commands]]));
  }
  return series.map((each) =>
    costRow(
      {
        group: 'start',
        work:
          each.name === 'version' ? 'sallyport version, from source' : 'completion of a word, from source',
        baseline: 'node -e 0',
        unit: 'ms',
        maxRatio: 3,
      },
      each,
      empty,
      ({ rate }) => 1000 / rate,
    ),
  );
}
