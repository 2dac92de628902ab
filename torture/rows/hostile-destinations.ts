/** A destination that breaks every rule of HTTP. Callers get the right problem, and no byte of a secret. */
import type { TLSSocket } from 'node:tls';
import { json, openReceiver, tokenUseRule } from '../../test/support/destination-receiver.ts';
import { type Body, clientsOf, forEachConcurrently } from '../fleet-clients.ts';
import { residentMegabytes } from '../process-usage.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const hostileDestinations: Row = {
  name: 'hostile-destinations',
  requirement:
    'a destination that drips, hangs, lies about lengths, sends 64 MiB or endless headers, repeats secrets, or ends anywhere, with streams and other replies: every caller gets the right problem or a cut stream and no byte of a secret, the log has the outcome, other requests are answered, and memory grows by less than 300 MB',
  databases: bothDatabases,
  run,
};

const mebibyte = 1_048_576;
const text = JSON.stringify({ id: 'ch_1', text: 'a "quoted" text, \u00e9 and more' });
const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n';
const withLength = json(text);
const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n${(20).toString(16)}\r\n${text.slice(0, 20)}\r\n${Buffer.byteLength(text.slice(20)).toString(16)}\r\n${text.slice(20)}\r\n0\r\n\r\n`;

/** The caller gets all of the reply, or this problem. `cut`: or a part of the stream. */
interface Ends {
  readonly code?: string;
  readonly isCut?: boolean;
  readonly bytes?: number;
}

interface Case {
  readonly name: string;
  readonly reply: (socket: TLSSocket, request: string) => unknown;
  /** Of an ordinary reply, and of a stream. */
  readonly ends: readonly [Ends, Ends];
  readonly isHanging?: boolean;
}

const whole: Ends = {};
const failed: readonly [Ends, Ends] = [
  { code: 'destination_failed' },
  { code: 'destination_failed', isCut: true },
];
const late: readonly [Ends, Ends] = [
  { code: 'destination_timeout' },
  { code: 'destination_timeout', isCut: true },
];
const echoed: readonly [Ends, Ends] = [
  { code: 'destination_echoed_data' },
  { code: 'destination_echoed_data', isCut: true },
];

async function drip(socket: TLSSocket, bytes: Buffer): Promise<void> {
  socket.setNoDelay(true);
  for (const byte of bytes) {
    socket.write(Uint8Array.of(byte));
    await new Promise((next) => setImmediate(next));
  }
}

async function pour(socket: TLSSocket, start: string, part: Buffer, times: number): Promise<void> {
  const closed: (() => void)[] = [];
  socket.once('close', () => closed.forEach((resume) => void resume()));
  socket.write(start);
  for (let at = 0; at < times && !socket.destroyed; at++)
    if (!socket.write(part))
      await new Promise<void>((resume) => {
        socket.once('drain', resume);
        closed.push(resume);
      });
}

/** The secret that the request has, which the destination knows. */
const secretIn = (request: string) => /authorization: Bearer (\S+)/.exec(request)?.[1] ?? '';
const tokenIn = (request: string) => /x-card: (\S+)/.exec(request)?.[1] ?? '';

function casesOf({ sized, random }: Context): Case[] {
  const megabytes = sized(64, 4);
  const large = megabytes * mebibyte;
  const cuts = [withLength, chunked].flatMap((reply, kind) => {
    const places = Array.from(Buffer.from(reply).keys());
    return places
      .filter(() => random.below(places.length) < sized(places.length, 8))
      .map((at) => ({ kind, reply, at }));
  });
  return [
    ...[withLength, chunked].map((reply, kind) => ({
      name: `drips ${kind}`,
      reply: (socket: TLSSocket) => drip(socket, Buffer.from(reply)),
      ends: [whole, whole] as const,
    })),
    {
      name: 'hangs after the headers',
      reply: (socket) => socket.write(`${head}Content-Length: 10\r\n\r\n`),
      ends: late,
      isHanging: true,
    },
    {
      name: 'hangs between bytes',
      reply: (socket) => socket.write(withLength.slice(0, -9)),
      ends: late,
      isHanging: true,
    },
    {
      name: 'sends less than its length',
      reply: (socket) => socket.end(`${head}Content-Length: 9999\r\n\r\n${text}`),
      ends: failed,
    },
    {
      name: 'sends more than its length',
      reply: (socket) => socket.write(`${head}Content-Length: 9\r\n\r\n${text}`),
      ends: [{ code: 'destination_failed' }, { bytes: 9 }],
    },
    {
      name: `sends ${megabytes} MiB`,
      reply: (socket) =>
        pour(socket, `${head}Content-Length: ${large}\r\n\r\n`, Buffer.alloc(65_536, 'sk_'), large / 65_536),
      ends: [{ code: 'destination_failed' }, { bytes: large }],
    },
    {
      name: 'sends endless headers',
      reply: (socket) => pour(socket, head, Buffer.from(`X-More: ${'x'.repeat(1000)}\r\n`), 1_000_000),
      ends: [{ code: 'destination_failed' }, { code: 'destination_failed' }],
    },
    {
      name: 'sends one endless line',
      reply: (socket) => pour(socket, 'HTTP/1.1 200 ', Buffer.alloc(1000, 'x'), 1_000_000),
      ends: [{ code: 'destination_failed' }, { code: 'destination_failed' }],
    },
    {
      name: 'ends at once',
      reply: (socket) => socket.destroy(),
      ends: [{ code: 'destination_failed' }, { code: 'destination_failed' }],
    },
    ...[secretIn, tokenIn].flatMap((valueIn, kind): Case[] => [
      {
        name: `repeats ${kind}`,
        reply: (socket, request) => socket.write(json({ a: 1, echo: valueIn(request) })),
        ends: echoed,
      },
      {
        name: `repeats ${kind} byte by byte, in base64`,
        reply: (socket, request) => drip(socket, Buffer.from(json({ echo: btoa(`x${valueIn(request)}y`) }))),
        ends: echoed,
      },
    ]),
    ...cuts.map(({ kind, reply, at }) => ({
      name: `ends ${kind} at ${at}`,
      reply: (socket: TLSSocket) => socket.end(Buffer.from(reply).subarray(0, at)),
      ends: failed,
    })),
  ];
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly bytes: number;
  readonly isWhole: boolean;
}

/** Reads as much as arrives. Keeps the first 100,000 characters. The status is 0 without a response. */
async function read(responding: Promise<Response>): Promise<Answer> {
  let [status, text, bytes] = [0, '', 0];
  const answer = (isWhole: boolean) => ({ status, text, bytes, isWhole });
  try {
    const response = await responding;
    status = response.status;
    for await (const part of response.body ?? []) {
      bytes += part.length;
      if (text.length < 100_000) text += Buffer.from(part).toString('latin1');
    }
    return answer(true);
  } catch {
    return answer(false);
  }
}

/** What is wrong with the answer, if something is. */
function fault(
  { status, text: got, bytes, isWhole }: Answer,
  { code, isCut, bytes: size }: Ends,
): string | undefined {
  const isProblem =
    status >= 500 && isWhole && got.includes(`"code":"${code}"`) && got.includes('"sent":true');
  if (code !== undefined) {
    if (isProblem || (isCut && status === 200 && !isWhole)) return undefined;
  } else if (status === 200 && isWhole && bytes === (size ?? Buffer.byteLength(text))) return undefined;
  return `the caller got ${status}, ${bytes} bytes, ${isWhole ? 'whole' : 'cut'}: ${got.slice(0, 200)}`;
}

async function run(context: Context): Promise<Outcome> {
  const env = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_USES_PER_TOKEN: '0' };
  const { fleet, call, must, application } = clientsOf(context, await context.start({ nodes: 1, env }));
  const receiver = await openReceiver();
  context.defer(() => receiver.close());
  const cases = casesOf(context);
  receiver.answer((socket, request) => {
    const at = Number(/^POST \/\w+\/(\d+) /.exec(request)?.[1]);
    if (Number.isNaN(at)) socket.write(withLength);
    else cases[at]?.reply(socket, request);
  });
  const { key } = await fleet.tenant();
  const secret = context.secrets.add('sk_live_51HhTbqFq9xLmZ82');
  const card = context.secrets.plaintext('4929135568201737');
  const placeholders = [{ at: 'header:x-card' }];
  const requests = [
    { method: 'POST', path: '/ok', reply: [''] },
    { method: 'POST', path: '/json/:case', placeholders, reply: [''] },
    { method: 'POST', path: '/stream/:case', placeholders, reply: 'stream' },
  ];
  const fields = {
    origin: receiver.addressOrigin,
    ca: receiver.ca,
    requests,
    headers: { authorization: `Bearer ${secret}` },
  };
  const destinations: string[] = [];
  for (const [name, timeout] of [
    ['patient', 60],
    ['impatient', 1],
  ] as const)
    destinations.push(
      (await must(0, 'POST', '/destinations', { key, body: { ...fields, name, timeout } })).id,
    );
  const user = async () =>
    (await application(key, { rules: [tokenUseRule('/', destinations)] })).key as string;
  const other = await user();

  const failures: string[] = [];
  const { pid, url } = fleet.at(0);
  const before = residentMegabytes(pid);
  let [most, others, isOver] = [before, 0, false];
  const meanwhile = (async () => {
    while (!isOver) {
      const { status } = await call(0, 'POST', '/proxy/patient/ok', { key: other, body: {} });
      if (status !== 200) failures.push(`another caller got ${status}`);
      others++;
      most = Math.max(most, residentMegabytes(pid));
    }
  })();

  const attacker = await user();
  const sent = cases.flatMap((each, at) =>
    ['json', 'stream'].map((kind, index) => ({ each, at, kind, ends: each.ends[index] as Ends })),
  );
  await forEachConcurrently(sent.length, 16, async (index) => {
    const { each, at, kind, ends } = sent[index] as (typeof sent)[number];
    // An echo stops the use of a token, and hanging suspends the destination for the application.
    const id = `card-${index}`;
    await must(0, 'POST', '/tokens', { key, body: { id, data: card } });
    const response = fetch(`${url}/proxy/${each.isHanging ? 'impatient' : 'patient'}/${kind}/${at}`, {
      method: 'POST',
      headers: {
        'SVC-API-KEY': each.isHanging ? await user() : attacker,
        'X-Card': `{{ token: ${id} }}`,
        'SVC-REQUEST-ID': id,
      },
    });
    const answer = await read(response);
    const wrong = fault(answer, ends);
    if (wrong) failures.push(`${each.name}, ${kind}: ${wrong}`);
    for (const value of [secret, card, btoa(`x${secret}`).slice(3, 12), btoa(`x${card}`).slice(3, 12)])
      if (answer.text.includes(value.slice(0, 6)))
        failures.push(`${each.name}, ${kind}: a part of a secret arrived`);
    const entries = await entriesOf(id, must, key);
    const outcome = entries.find(({ operation }) => operation === 'token.use.outcome');
    if (!entries.some(({ operation }) => operation === 'token.use') || outcome?.reason !== ends.code)
      failures.push(`${each.name}, ${kind}: the log has ${JSON.stringify(outcome)}`);
    if (answer.status === 200 && outcome?.use?.status !== 200)
      failures.push(`${each.name}, ${kind}: the log has the status ${outcome?.use?.status}`);
  });
  isOver = true;
  await meanwhile;
  const growth = Math.round(most - before);
  if (growth > 300) failures.push(`memory grew by ${growth} MB`);
  return {
    figures: { replies: sent.length, 'other requests answered': others, 'MB of memory': growth },
    failures: failures.slice(0, 10),
  };
}

/** The entries about a token. That of the outcome is written while the connection to the caller is closed. */
async function entriesOf(
  token: string,
  must: ReturnType<typeof clientsOf>['must'],
  key: string,
): Promise<Body[]> {
  for (let attempt = 0; ; attempt++) {
    const { data } = await must(0, 'GET', `/logs?token=${token}&size=10`, { key });
    if (attempt === 100 || data.some((entry: Body) => entry.operation === 'token.use.outcome')) return data;
    await Bun.sleep(20);
  }
}
