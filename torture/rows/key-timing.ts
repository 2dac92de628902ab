import { mint, newTag } from '../../src/domain/key.ts';
import { Client, written } from '../client.ts';
import { clientsOf, oneNode } from '../fleet-clients.ts';
import type { Random } from '../random.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

/** Above this value of Welch’s t, two samples differ significantly. */
const limit = 4.5;

export const keyTiming: Row = {
  name: 'key-timing',
  requirement: `timing of 401 for revoked keys and for unknown keys, 2 × 20,000 requests: Welch’s t under ${limit}`,
  databases: bothDatabases,
  alone: true,
  run,
};

/**
 * Timing must not reveal whether an invalid key was ever issued. `known` has revoked keys, and keys that differ from a
 * valid one in the last random digit. `never` has keys that were not issued.
 */
async function run(context: Context): Promise<Outcome> {
  const samples = context.sized(20_000, 200);
  /** Number of keys per side. */
  const keysOfEach = context.sized(200, 9);
  const fleet = await oneNode(context);
  const { must, application } = clientsOf(context, fleet);
  const { key } = await fleet.tenant();
  const known: string[] = [];
  for (let index = 0; index < keysOfEach; index++) {
    const made = await application(key);
    known.push(index % 3 === 2 ? neighbourOf(made.key) : made.key);
    if (index % 3 === 0) await must(0, 'DELETE', `/applications/${made.id}`, { key });
    if (index % 3 === 1) await must(0, 'POST', `/applications/${made.id}/regenerate`, { key });
  }
  const never = Array.from({ length: keysOfEach }, () => mint('pvt', newTag()).secret.reveal());

  const client = new Client(fleet.at(0).url);
  context.defer(() => client.close());
  const ask = (one: string) => client.send(written('GET', '/applications/key', { key: one }));
  for (let warm = 0; warm < samples / 10; warm++) await ask(context.random.one(never));
  const times = await measured(samples, context.random, known, never, ask);

  const cut = percentile([...times.known, ...times.unknown], 0.95);
  const t = welch(
    times.known.filter((time) => time <= cut),
    times.unknown.filter((time) => time <= cut),
  );
  const failures = times.odd > 0 ? [`${times.odd} responses were not 401`] : [];
  if (context.size === 'full' && Math.abs(t) >= limit) failures.push(`t is ${t.toFixed(2)}`);
  return {
    figures: {
      samples: 2 * samples,
      'µs median of known': micros(percentile(times.known, 0.5)),
      'µs median of unknown': micros(percentile(times.unknown, 0.5)),
      '= t': Math.abs(t).toFixed(2),
    },
    failures,
  };
}

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Another well-formed key, whose last random digit differs by one. */
function neighbourOf(key: string): string {
  const random = 'slp_pvt_'.length + 6;
  const indexes = Array.from(key.slice(random, -6), (digit) => digits.indexOf(digit));
  const last = indexes.length - 1;
  const made = mint('pvt', key.slice('slp_pvt_'.length, random), (into) => {
    into.set(indexes.with(last, (indexes[last] as number) ^ 1));
    return into;
  }).secret.reveal();
  if (made === key || !made.startsWith(key.slice(0, random + last)))
    throw new Error('the generated key does not differ in the last random digit only');
  return made;
}

/** Measures in random order, so that drift affects both sides alike. */
async function measured(
  samples: number,
  random: Random,
  known: readonly string[],
  never: readonly string[],
  ask: (key: string) => Promise<{ status: number }>,
) {
  const order = random.shuffled([...Array(samples).fill(true), ...Array(samples).fill(false)]) as boolean[];
  const times = { known: [] as number[], unknown: [] as number[], odd: 0 };
  for (const isKnown of order) {
    const key = random.one(isKnown ? known : never);
    const began = Bun.nanoseconds();
    const { status } = await ask(key);
    times[isKnown ? 'known' : 'unknown'].push(Bun.nanoseconds() - began);
    if (status !== 401) times.odd++;
  }
  return times;
}

function welch(a: readonly number[], b: readonly number[]): number {
  const [ofA, ofB] = [moments(a), moments(b)];
  return (ofA.mean - ofB.mean) / Math.sqrt(ofA.variance / a.length + ofB.variance / b.length);
}

function moments(values: readonly number[]): { mean: number; variance: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, variance: squares / (values.length - 1) };
}

function percentile(values: readonly number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] as number;
}

function micros(nanoseconds: number): number {
  return Number((nanoseconds / 1000).toFixed(1));
}
