import { connect, type Socket } from 'node:net';
import { clientsOf } from '../fleet-clients.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const slowSockets: Row = {
  name: 'slow-sockets',
  requirement:
    '1,000 slow sockets: p99 of healthy callers under 100 ms, or on a slow machine 5 times the usual, and every slow one closed within 15 s',
  databases: ['SQLite'],
  alone: true,
  run,
};

/** Milliseconds after which every slow socket must be closed. */
const longest = 15_000;
/** Maximum p99 of healthy callers in milliseconds, and relative to the time before the slow sockets were opened. */
const [slowestHealthy, mostTimes] = [100, 5];
/** Milliseconds between two bytes of a slow sender. */
const drip = 1000;

const post = 'POST /sessions/authorize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n';

/** The first bytes of a slow socket, and what it sends once a second. */
const habits: readonly (readonly [first: string, then: string])[] = [
  ['', ''],
  ['G', 'E'],
  ['GET /applications HTTP/1.1\r\nHost: x\r\nX-Slow: ', 'a'],
  ['GET /applications HTTP/1.1\r\nHost: x\r\n', 'X-Slow: a\r\n'],
  [`${post}Content-Length: 1000\r\n\r\n`, ' '],
  [`${post}Transfer-Encoding: chunked\r\n\r\n`, '1\r\n \r\n'],
];

async function run(context: Context): Promise<Outcome> {
  const count = context.sized(1000, 60);
  const fleet = await context.start({ nodes: 1 });
  const { call, application } = clientsOf(context, fleet);
  const { key } = await fleet.tenant();
  const healthy = await application(key, { permissions: ['application:read'] });
  /** Sends requests of a healthy caller and returns the milliseconds of each. */
  const timed = async (goOn: (sent: number) => boolean) => {
    const waits: number[] = [];
    while (goOn(waits.length)) {
      const asked = performance.now();
      const { status } = await call(0, 'GET', '/applications/key', { key: healthy.key });
      waits.push(performance.now() - asked);
      if (status !== 200) failures.push(`a healthy caller got ${status}`);
      await Bun.sleep(5);
    }
    return waits;
  };
  const failures: string[] = [];
  const usual = p99Of(await timed((sent) => sent < context.sized(200, 10)));
  const slow = Array.from({ length: count }, (_, index) => new Slow(fleet.at(0).url, index));
  context.defer(() => slow.forEach((each) => void each.end()));
  await Promise.all(slow.map((each) => each.opened));
  const began = performance.now();

  // The short run checks no latency and does not wait for the sockets to close, because other tests run in parallel.
  const until = context.sized(longest + 1000, 500);
  const waits = await timed(
    () => performance.now() - began < until && slow.some((each) => each.closedAt === undefined),
  );

  const lives = slow.map((each) => (each.closedAt ?? Number.POSITIVE_INFINITY) - each.openedAt);
  const left = lives.filter((life) => life > longest).length;
  const lastClosed = left > 0 ? 'more than 15' : Number((Math.max(...lives) / 1000).toFixed(1));
  const p99 = p99Of(waits);
  if (context.size === 'full' && left > 0) failures.push(`${left} slow sockets were open after 15 s`);
  if (context.size === 'full' && p99 > Math.max(slowestHealthy, mostTimes * usual))
    failures.push(`p99 of healthy callers was ${p99.toFixed(1)} ms`);
  return {
    figures: {
      'slow sockets': count,
      'healthy requests': waits.length,
      'ms p99': Number(p99.toFixed(1)),
      ...(context.size === 'full' && { 's until the last was closed': lastClosed }),
    },
    failures: failures.slice(0, 10),
  };
}

function p99Of(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] as number;
}

class Slow {
  readonly opened: Promise<void>;
  readonly openedAt = performance.now();
  closedAt: number | undefined;
  readonly #socket: Socket;
  #timer: Timer | undefined;

  constructor(url: string, index: number) {
    const { hostname, port } = new URL(url);
    const [first, then] = habits[index % habits.length] as (typeof habits)[number];
    const opened = Promise.withResolvers<void>();
    this.opened = opened.promise;
    this.#socket = connect(Number(port), hostname, () => {
      this.#socket.write(first);
      this.#timer = setInterval(() => this.#socket.write(then), drip);
      opened.resolve();
    });
    this.#socket.on('data', () => {});
    this.#socket.on('error', opened.reject);
    this.#socket.on('close', () => {
      clearInterval(this.#timer);
      this.closedAt ??= performance.now();
    });
  }

  end(): void {
    this.#socket.destroy();
  }
}
