/** Measures candidates in turns within one run, so that other load on the machine affects all of them alike. */
import { join } from 'node:path';
import type { Plan, Report } from './load.ts';
import { processorTime } from './servers.ts';

/** Rounds and duration of a run. */
export interface Effort {
  readonly quick: boolean;
  readonly rounds: number;
  readonly seconds: number;
  /** Seconds for which each candidate runs before the first round. */
  readonly warmUp: number;
}

export interface Sample {
  /** Operations per second. */
  readonly rate: number;
  /** Microseconds of CPU time per operation. */
  readonly processor?: number;
  /** Microseconds of the database's CPU time per operation. */
  readonly database?: number;
  /** Latency in milliseconds. */
  readonly p50?: number;
  readonly p99?: number;
  readonly p999?: number;
}

export interface Candidate {
  readonly name: string;
  measure(seconds: number): Promise<Sample>;
}

/** Median, minimum and maximum. */
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

export type Requests = Pick<Plan, 'port' | 'requests' | 'status' | 'second' | 'rate'> &
  Partial<Pick<Plan, 'connections'>>;

/**
 * Measures one process under load, from 64 connections unless the plan says otherwise. `database` are the processes of
 * its database servers.
 */
export function underLoad(
  name: string,
  pid: number,
  plan: Requests,
  database?: number | readonly number[],
): Candidate {
  const spent = () => [database ?? []].flat().reduce((sum, server) => sum + processorTime(server), 0);
  return {
    name,
    measure: async (seconds) => {
      const before = [processorTime(pid), spent()] as const;
      const report = await send({ connections, ...plan, seconds });
      if (report.failed > 0)
        throw new Error(`${name}: ${report.failed} unexpected responses: ${JSON.stringify(report.wrong)}`);
      if (report.done === 0) throw new NothingAnswered(name);
      const each = (now: number, then: number) => (now - then) / report.completed;
      return {
        rate: report.done / report.seconds,
        processor: each(processorTime(pid), before[0]),
        ...(database !== undefined && { database: each(spent(), before[1]) }),
        p50: report.p50,
        p99: report.p99,
        p999: report.p999,
      };
    },
  };
}

interface Generator {
  run(plan: Plan): Promise<Report>;
}

const idleGenerators: Generator[] = [];

/** Sends requests from another process. Processes are reused, because starting one takes as long as a short round. */
export async function send(plan: Plan): Promise<Report> {
  const generator = idleGenerators.pop() ?? startGenerator();
  const report = await generator.run(plan);
  idleGenerators.push(generator);
  return report;
}

function startGenerator(): Generator {
  let waiting = Promise.withResolvers<Report>();
  const child = Bun.spawn([process.execPath, '--no-env-file', join(import.meta.dirname, 'load.ts')], {
    stdio: ['ignore', 'inherit', 'inherit'],
    ipc: (report: Report) => waiting.resolve(report),
    onExit: () => waiting.reject(new Error('the load generator ended')),
  });
  return {
    run: (plan) => {
      waiting = Promise.withResolvers<Report>();
      child.send(plan);
      return waiting.promise;
    },
  };
}

/** A candidate answered no request in a round, so the round has no ratio. */
export class NothingAnswered extends Error {
  constructor(candidate: string) {
    super(`not measurable: ${candidate} answered nothing in ${maxAttempts} rounds`);
  }
}

const maxAttempts = 3;

/** Warms up each candidate, then measures them in turns. Every other round runs in reverse order. */
export async function compare(candidates: readonly Candidate[], effort: Effort): Promise<Series[]> {
  const series = candidates.map(({ name }) => ({ name, samples: [] as Sample[] }));
  if (effort.warmUp > 0) for (const candidate of candidates) await measureRound([candidate], effort.warmUp);
  for (let round = 0; round < effort.rounds; round++) {
    const order = candidates.map((_, at) => (round % 2 === 0 ? at : candidates.length - 1 - at));
    const samples = await measureRound(
      order.map((at) => candidates[at] as Candidate),
      effort.seconds,
    );
    for (const [turn, at] of order.entries()) series[at]?.samples.push(samples[turn] as Sample);
  }
  return series;
}

/** Repeats a round in which a candidate answered nothing, four times as long. */
async function measureRound(
  candidates: readonly Candidate[],
  seconds: number,
  attempt = 1,
): Promise<Sample[]> {
  try {
    const samples: Sample[] = [];
    for (const { measure } of candidates) samples.push(await measure(seconds));
    return samples;
  } catch (error) {
    if (!(error instanceof NothingAnswered) || attempt === maxAttempts) throw error;
    return measureRound(candidates, seconds * 4, attempt + 1);
  }
}

export function figure(values: readonly number[]): Figure {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const median = ((sorted[Math.floor(middle)] as number) + (sorted[Math.ceil(middle)] as number)) / 2;
  return { median, low: sorted[0] as number, high: sorted.at(-1) as number };
}

export function seriesOf(series: readonly Series[], name: string): Series {
  const found = series.find((each) => each.name === name);
  if (!found) throw new Error(`${name} was not measured`);
  return found;
}

/** Microseconds of CPU time per operation, of the service and of its database. */
export const cpuTime = ({ processor = 0, database = 0 }: Sample): number => processor + database;

/** Divides the values of the same round, because other load on the machine affects both of them alike. */
export function ratio(
  ours: Series,
  theirs: Series,
  of: (sample: Sample) => number = ({ rate }) => rate,
): Figure {
  return figure(ours.samples.map((sample, at) => of(sample) / of(theirs.samples[at] as Sample)));
}
