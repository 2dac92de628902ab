/**
 * Load generator over raw sockets. Without `rate`, each connection sends its next request as soon as the last response
 * arrived. With `rate`, operations start at constant intervals, even if the server is too slow. An operation waits if
 * no connection is free, and its latency counts from the time at which it should have started. At the end, the
 * generator waits for the responses that are still missing, so that they do not disturb the next measurement.
 */
import type { Socket } from 'bun';

/** What to send. */
export interface Plan {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  /** Operations per second. */
  readonly rate?: number;
  /** Raw requests, sent in rotation. */
  readonly requests: readonly string[];
  /** The expected status. */
  readonly status: number;
  /** Sent after each response, with the nonce of the response in place of `NONCE`. Both requests are one operation. */
  readonly second?: { readonly request: string; readonly status: number };
}

export interface Report {
  /** Operations that were completed in time. */
  readonly done: number;
  /** All completed operations, for costs per operation. */
  readonly completed: number;
  readonly failed: number;
  /** Unexpected responses by status. */
  readonly wrong: Record<string, number>;
  readonly seconds: number;
  /** Microseconds of the generator's CPU time. */
  readonly processor: number;
  /** Latency in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
}

interface Connection {
  status: string;
  startedAt: number;
  /** Bytes of an incomplete response. */
  rest: Buffer | undefined;
}

const headEnd = Buffer.from('\r\n\r\n');
const nonceField = Buffer.from('"nonce":"');
const nonceLength = 63;
/** How long to wait for missing responses at the end. */
const maxDrain = 10_000;

/** Length of the whole response, or 0 while its head is incomplete. */
function responseLength(answer: Buffer): number {
  const end = answer.indexOf(headEnd);
  if (end < 0) return 0;
  const head = answer.toString('latin1', 0, end);
  const length = /content-length: *(\d+)/i.exec(head)?.[1];
  return end + headEnd.length + Number(length ?? 0);
}

async function load(plan: Plan): Promise<Report> {
  const requests = plan.requests.map((text) => Buffer.from(text, 'latin1'));
  const [first, last] = [String(plan.status), String(plan.second?.status)];
  const waits: number[] = [];
  const wrong: Record<string, number> = {};
  const free: Socket<Connection>[] = [];
  const late = new Queue();
  let [next, done, completed, failed, running] = [0, 0, 0, 0, false];
  const busy = new Set<Socket<Connection>>();

  function send(socket: Socket<Connection>, request: Buffer, status: string): void {
    socket.data.status = status;
    if (socket.write(request) !== request.length) failed++;
  }

  function begin(socket: Socket<Connection>, startedAt: number): void {
    socket.data.startedAt = startedAt;
    busy.add(socket);
    send(socket, requests[next++ % requests.length] as Buffer, first);
  }

  function goOn(socket: Socket<Connection>): void {
    if (late.length > 0) begin(socket, late.take());
    else if (plan.rate === undefined && running) begin(socket, performance.now());
    else {
      busy.delete(socket);
      free.push(socket);
    }
  }

  function answered(socket: Socket<Connection>, answer: Buffer): void {
    const { status, startedAt } = socket.data;
    const got = answer.toString('latin1', 9, 12);
    if (got !== status) {
      failed++;
      wrong[got] = (wrong[got] ?? 0) + 1;
    } else if (!plan.second || status === last) {
      completed++;
      if (running) done++;
      if (running || plan.rate !== undefined) waits.push(performance.now() - startedAt);
    }
    if (!plan.second || status === last) {
      goOn(socket);
      return;
    }
    const at = answer.indexOf(nonceField) + nonceField.length;
    const nonce = answer.toString('latin1', at, at + nonceLength);
    send(socket, Buffer.from(plan.second.request.replace('NONCE', nonce), 'latin1'), last);
  }

  async function beginAtRate(interval: number, end: number): Promise<void> {
    for (let due = performance.now(); due < end; await shortPause())
      for (const now = performance.now(); due <= now; due += interval) {
        // In turn, because a server closes connections that are idle for long.
        const socket = free.shift();
        if (socket) begin(socket, due);
        else late.add(due);
      }
  }

  const sockets: Socket<Connection>[] = [];
  for (let each = 0; each < plan.connections; each++) {
    const socket = await Bun.connect<Connection>({
      hostname: '127.0.0.1',
      port: plan.port,
      data: { status: '', startedAt: 0, rest: undefined },
      socket: {
        data: (from, chunk) => {
          const answer = from.data.rest ? Buffer.concat([from.data.rest, chunk]) : chunk;
          const length = responseLength(answer);
          from.data.rest = length === 0 || answer.length < length ? Buffer.from(answer) : undefined;
          if (!from.data.rest) answered(from, answer);
        },
        close: (from) => {
          if (busy.has(from)) failed++;
        },
      },
    });
    sockets.push(socket);
  }
  running = true;
  const [began, used] = [performance.now(), process.cpuUsage()];
  for (const socket of sockets) goOn(socket);
  if (plan.rate === undefined) await Bun.sleep(plan.seconds * 1000);
  else await beginAtRate(1000 / plan.rate, began + plan.seconds * 1000);
  running = false;
  const now = performance.now();
  const { user, system } = process.cpuUsage(used);
  while (busy.size > 0 && performance.now() - now < maxDrain) await Bun.sleep(1);
  // Operations that still have no response count with the time that they have waited so far.
  if (plan.rate !== undefined) {
    for (const { data } of busy) waits.push(performance.now() - data.startedAt);
    while (late.length > 0) waits.push(performance.now() - late.take());
  }
  busy.clear();
  for (const socket of sockets) socket.end();
  waits.sort((a, b) => a - b);
  const share = (part: number) => waits[Math.floor(waits.length * part)] ?? 0;
  return {
    done,
    completed,
    failed,
    wrong,
    seconds: (now - began) / 1000,
    processor: user + system,
    p50: share(0.5),
    p99: share(0.99),
    p999: share(0.999),
  };
}

const neverChanged = new Int32Array(new SharedArrayBuffer(4));

/**
 * About a tenth of a millisecond. Leaves the CPU to the servers, unlike turns of the event loop alone. Timers are not
 * as exact.
 */
function shortPause(): Promise<unknown> {
  Atomics.wait(neverChanged, 0, 0, 0.05);
  return new Promise(setImmediate);
}

/** First in, first out. */
class Queue {
  #items: number[] = [];
  #taken = 0;

  get length(): number {
    return this.#items.length - this.#taken;
  }

  add(item: number): void {
    this.#items.push(item);
  }

  take(): number {
    return this.#items[this.#taken++] as number;
  }
}

if (import.meta.main) {
  process.on('message', async (plan: Plan) => process.send?.(await load(plan)));
  process.on('disconnect', () => process.exit(0));
}
