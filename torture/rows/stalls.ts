/**
 * How long one request holds up the others: the processor time that the main thread of a node spends between the
 * arrival of another request and its response. Measured for the most expensive requests of every route.
 */
import { allRoutes } from '../../src/http/routes.ts';
import { Client } from '../client.ts';
import { clientsOf } from '../fleet-clients.ts';
import { mainThreadTime } from '../process-usage.ts';
import { databaseTimeout } from '../retry.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';
import { largeBody, makeWorld, type WorstRequest, worstRequests } from '../worst/routes.ts';

/** Milliseconds of processor time, apart from one `JSON.parse` of the body. */
const longestStall = 20;
/** The same on a slow machine, as a multiple of the time of one `JSON.parse` of the largest body. */
const mostParses = 5;

export const stalls: Row = {
  name: 'stalls',
  requirement: `the most expensive requests of every route, one at a time and eight at a time: every request is answered, and none holds up others for more than ${longestStall} ms of processor time, or on a slow machine ${mostParses} times the parsing of 1 MB, not counting the parsing of the body`,
  databases: bothDatabases,
  alone: true,
  run,
};

interface Measured {
  readonly name: string;
  readonly alone: number;
  readonly together: number;
}

async function run(context: Context): Promise<Outcome> {
  const uses = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_USES_PER_TOKEN: '0' };
  const fleet = await context.start({ nodes: 1, env: { ...databaseTimeout(context), ...uses } });
  const clients = clientsOf(context, fleet);
  const world = await makeWorld(context, clients, await fleet.tenant());
  const { pid, url } = fleet.at(0);
  const client = new Client(url);
  const prober = new Client(url);
  context.defer(() => [client, prober].forEach((each) => void each.close()));
  const probe = () => prober.call('GET', '/livez');
  const failures = new Set<string>();
  const measured: Measured[] = [];
  const rounds = context.sized(5, 3);
  const crowd = context.sized(8, 2);

  /** The longest stall while `count` requests are answered. The other requests are to `/livez`. */
  async function stall(method: string, request: WorstRequest, count: number): Promise<number> {
    let [isRunning, longest] = [true, 0];
    const sent = Promise.all(
      Array.from({ length: count }, () => client.call(method, request.path, request).catch(() => undefined)),
    ).finally(() => {
      isRunning = false;
    });
    do {
      const began = mainThreadTime(pid);
      await probe().catch(probe);
      longest = Math.max(longest, mainThreadTime(pid) - began);
    } while (isRunning);
    for (const answer of await sent) {
      if (!answer) failures.add(`${request.what}: ${method} had no response`);
      const { status, text } = answer ?? { status: 0, text: '' };
      if (status >= 400 && !isExpected(request, method, status))
        failures.add(`${request.what}: ${method} was answered with ${status}: ${JSON.parse(text).detail}`);
    }
    return longest;
  }

  for (const { name, method } of allRoutes) {
    const first = (await worstRequests[name]?.(world)) ?? [];
    for (const [index, { what }] of first.entries()) {
      const next = async () => (await worstRequests[name]?.(world))?.[index] as WorstRequest;
      const exempt = parseTime(first[index]?.body);
      // Collections and compilation happen in some rounds only, so the shortest stall of several rounds counts.
      const shortest = async (count: number) => {
        const stalls: number[] = [];
        for (let round = 0; round < rounds; round++) stalls.push(await stall(method, await next(), count));
        return Math.max(0, Math.min(...stalls) - exempt);
      };
      await stall(method, await next(), 1);
      measured.push({ name: `${name}, ${what}`, alone: await shortest(1), together: await shortest(crowd) });
    }
  }

  // The short run shares its machine with other tests, which may be slow.
  const limit = Math.max(longestStall * context.sized(1, 3), mostParses * parseTime(largeBody));
  for (const { name, alone } of measured) {
    if (alone > limit) failures.add(`${name}: others wait for ${alone.toFixed(1)} ms`);
  }
  const worst = (of: 'alone' | 'together') => measured.toSorted((a, b) => b[of] - a[of])[0] as Measured;
  return {
    figures: {
      routes: allRoutes.length,
      requests: measured.length,
      [`ms at most (${worst('alone').name})`]: Number(worst('alone').alone.toFixed(1)),
      [`ms with ${crowd} at a time (${worst('together').name})`]: Number(
        worst('together').together.toFixed(1),
      ),
    },
    failures: [...failures],
  };
}

/** Of eight equal changes, one succeeds and the others find it done. */
function isExpected({ expected = [] }: WorstRequest, method: string, status: number): boolean {
  return expected.includes(status) || (method !== 'GET' && [404, 409].includes(status));
}

/** Milliseconds that `JSON.parse` of the body takes here. Forms are small and do not count. */
function parseTime(body: unknown): number {
  if (body === undefined) return 0;
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  if (!/^[[{"]/.test(text)) return 0;
  const times = Array.from({ length: 5 }, () => {
    const began = performance.now();
    JSON.parse(text);
    return performance.now() - began;
  });
  return Math.min(...times);
}
