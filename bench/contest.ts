/** Contestants take turns in one run, so that whatever else the machine does hits all of them alike. */
import { join } from 'node:path';
import type { Plan, Report } from './load.ts';
import { processorTime } from './servers.ts';

/** How much one run measures. */
export interface Effort {
  readonly quick: boolean;
  readonly rounds: number;
  readonly seconds: number;
}

export interface Sample {
  /** Of whatever is counted, a second. */
  readonly rate: number;
  /** Microseconds of processor time that one took the contestant. */
  readonly processor?: number;
  /** The same of the database beside it. */
  readonly database?: number;
  /** Milliseconds that half of them, and 99 of 100, waited at most. */
  readonly half?: number;
  readonly most?: number;
}

export interface Contestant {
  readonly name: string;
  measure(seconds: number): Promise<Sample>;
}

/** The middle, and how far it went to both sides. */
export interface Figure {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export interface Series {
  readonly name: string;
  readonly samples: Sample[];
}

export const connections = 64;

/** One process under load from 64 connections. */
export function underLoad(
  name: string,
  pid: number,
  plan: Pick<Plan, 'port' | 'requests' | 'status' | 'second'>,
  database?: number,
): Contestant {
  return {
    name,
    measure: async (seconds) => {
      const before = [processorTime(pid), database === undefined ? 0 : processorTime(database)] as const;
      const report = await send({ connections, ...plan, seconds });
      if (report.failed > 0)
        throw new Error(`${name}: ${report.failed} wrong answers: ${JSON.stringify(report.wrong)}`);
      const each = (now: number, then: number) => (now - then) / report.done;
      return {
        rate: report.done / report.seconds,
        processor: each(processorTime(pid), before[0]),
        ...(database !== undefined && { database: each(processorTime(database), before[1]) }),
        half: report.half,
        most: report.most,
      };
    },
  };
}

export async function send(plan: Plan): Promise<Report> {
  const generator = Bun.spawn([process.execPath, '--no-env-file', join(import.meta.dirname, 'load.ts')], {
    stdio: [Buffer.from(JSON.stringify(plan)), 'pipe', 'inherit'],
  });
  return (await new Response(generator.stdout).json()) as Report;
}

/** Each once to warm up, then in turn, and every other round the other way round. */
export async function contest(contestants: readonly Contestant[], effort: Effort): Promise<Series[]> {
  const series = contestants.map(({ name }) => ({ name, samples: [] as Sample[] }));
  for (const { measure } of contestants) await measure(effort.quick ? 0.7 : 1);
  for (let round = 0; round < effort.rounds; round++) {
    const order = contestants.map((_, at) => (round % 2 === 0 ? at : contestants.length - 1 - at));
    for (const at of order) {
      const sample = await (contestants[at] as Contestant).measure(effort.seconds);
      series[at]?.samples.push(sample);
    }
  }
  return series;
}

export function figure(values: readonly number[]): Figure {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const median = ((sorted[Math.floor(middle)] as number) + (sorted[Math.ceil(middle)] as number)) / 2;
  return { median, low: sorted[0] as number, high: sorted.at(-1) as number };
}

export function named(series: readonly Series[], name: string): Series {
  const found = series.find((each) => each.name === name);
  if (!found) throw new Error(`${name} did not take part`);
  return found;
}

/** Round by round, so that a busy moment of the machine is in both. */
export function ratio(
  ours: Series,
  theirs: Series,
  of: (sample: Sample) => number = ({ rate }) => rate,
): Figure {
  return figure(ours.samples.map((sample, at) => of(sample) / of(theirs.samples[at] as Sample)));
}
