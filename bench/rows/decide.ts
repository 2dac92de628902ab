/** A decision in memory, compared with policy libraries on the same rules. */
import { join } from 'node:path';
import { type Effort, figure, type Series } from '../compare.ts';
import { node, peer } from '../peers.ts';
import { type Row, rowOf } from '../report.ts';

const counts = [1, 10, 50];
const names = ['casbin', 'casl', 'cedar'];

type Rates = Record<number, number>;

function rates(command: string[]): Rates {
  const child = Bun.spawnSync(command, { stdio: ['ignore', 'pipe', 'inherit'] });
  return JSON.parse(child.stdout.toString()) as Rates;
}

/** Runs each library on Node and on Bun, and compares with the fastest of all. */
export async function decideRows(_: unknown, effort: Effort): Promise<Row[]> {
  if (effort.quick) return rowsWith(8, '', { ...effort, rounds: 1 });
  const rounds = { ...effort, rounds: 3 };
  return [...rowsWith(8, '', rounds), ...rowsWith(64, ', 64 containers in turn', rounds)];
}

function rowsWith(containers: number, remark: string, effort: Effort): Row[] {
  const amount = [effort.quick ? '60' : '200', String(containers)];
  const bun = [process.execPath, '--no-env-file'];
  const commands = new Map([['ours', [...bun, join(import.meta.dirname, '../decide-rate.ts'), ...amount]]]);
  for (const name of names) {
    commands.set(`${name} on Node`, [node(), peer('decide'), name, ...amount]);
    commands.set(`${name} on Bun`, [...bun, peer('decide'), name, ...amount]);
  }
  const found = new Map<string, Rates[]>(Array.from(commands.keys(), (name) => [name, []]));
  for (let round = 0; round < effort.rounds; round++)
    for (const [name, command] of commands) found.get(name)?.push(rates(command));

  return counts.map((count) => {
    const series = Array.from(found, ([name, runs]): Series => {
      return { name, samples: runs.map((run) => ({ rate: run[count] as number })) };
    });
    const middle = ({ samples }: Series) => figure(samples.map(({ rate }) => rate)).median;
    const [ours, ...theirs] = series as [Series, ...Series[]];
    const fastest = theirs.toSorted((a, b) => middle(b) - middle(a))[0] as Series;
    const work = `decide() with ${count} rule${count === 1 ? '' : 's'}${remark}`;
    const baseline = `${fastest.name}, the fastest of ${names.join(', ')}`;
    return rowOf({ group: 'decide', work, baseline, unit: '/s', min: 1 }, ours, fastest);
  });
}
