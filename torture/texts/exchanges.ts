/** Requests to a destination whose reply, or the data of whose token, is a bad text or value. */
import { json, openReceiver, tokenUseRule } from '../../test/support/destination-receiver.ts';
import { chunks } from '../client.ts';
import type { Tenant } from '../fleet.ts';
import type { Body, Clients } from '../fleet-clients.ts';
import type { Context } from '../row.ts';
import { allTexts, badTexts, badValues } from './grammar.ts';

export interface Exchange {
  readonly name: string;
  /** JSON of the token. */
  data(): string;
  reply(): Buffer;
  /** The body of the request with this token. */
  body(token: string): unknown;
  readonly isForm?: true;
}

const mostBytes = 1_048_576;
const short = '{"number":"4929 1357 2468 0135"}';
const long = `{"number":"${'b'.repeat(999)}a"}`;
const atNumber = (token: string) => ({ card: { number: `{{ token: ${token} }}` } });
const wholly = (token: string) => ({ card: { all: `{{ token: ${token} }}` } });
const reply = (text: string) => Buffer.from(json(text));
/** Any run of one letter almost occurs in it. */
const runs = reply(JSON.stringify([...'ba4 '].map((letter) => letter.repeat(100_000))));

export function exchanges({ random, sized }: Context): Exchange[] {
  const texts = badTexts(random, allTexts, sized(260_000, 40_000), JSON.stringify);
  const inHeader = badTexts(random, sized(allTexts, 10), 12_000, String);
  const replyBytes = sized(mostBytes, 100_000);
  const inReply = badTexts(random, allTexts, replyBytes - 100, JSON.stringify);
  const some = random.shuffled(inReply).slice(0, sized(20, 2));
  const marks = texts.map(({ name, text }) => ({
    name: `token: ${name}`,
    data: () => JSON.stringify({ number: text() }),
    body: atNumber,
    reply: () => runs,
  }));
  const forms = random
    .shuffled(texts)
    .slice(0, sized(allTexts, 5))
    .map(({ name, text }) => ({
      name: `token in a form: ${name}`,
      data: () => JSON.stringify({ number: text() }),
      body: (token: string) => ({ number: `{{ token: ${token} }}` }),
      reply: () => runs,
      isForm: true as const,
    }));
  const values = badValues.map((bad) => ({
    name: `token: ${bad.name}`,
    data: () => bad.json(sized(200_000, 60_000), { number: '1' }),
    body: wholly,
    reply: () => runs,
  }));
  const ordinary = (name: string, made: () => Buffer): Exchange => ({
    name: `reply: ${name}`,
    data: () => random.one([short, long]),
    body: atNumber,
    reply: made,
  });
  const whole = (text: string) => JSON.stringify({ a: text });
  return [
    ...marks,
    ...forms,
    ...values,
    ...inReply.map(({ name, text }) => ordinary(name, () => reply(whole(text())))),
    ...badValues.map((bad) => ordinary(bad.name, () => reply(bad.json(replyBytes, { id: 'x' })))),
    ...some.map(({ name, text }) =>
      ordinary(`${name}, in chunks of one byte`, () => {
        const body = Buffer.from(whole(text())).subarray(0, mostBytes);
        const head =
          'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
        return Buffer.concat([Buffer.from(head), chunks(body)]);
      }),
    ),
    ...inHeader.map(({ name, text }) =>
      ordinary(`header with ${name}`, () => withHeader(`X-Reply: ${text().replace(/[\0\r\n]/g, ' ')}`)),
    ),
    ordinary('many headers', () =>
      withHeader(Array.from({ length: 2000 }, (_, at) => `a${at}: b`).join('\r\n')),
    ),
    ordinary('a header without end', () => withHeader(`X-Reply: ${'b'.repeat(mostBytes)}`)),
  ];
}

function withHeader(lines: string): Buffer {
  return Buffer.from(json('{"id":"x"}', `HTTP/1.1 200 OK\r\n${lines}`));
}

export interface Destination {
  readonly path: string;
  /** A key that may use all tokens there. */
  readonly key: string;
  /** Creates the token of the exchange, and sets the reply. Returns the body of the request. */
  prepare(exchange: Exchange): Promise<{ token: string; body: unknown } | undefined>;
  /** Allows more connections after failures. */
  renew(): Promise<void>;
}

export async function openDestination(
  context: Context,
  { must, call, application }: Clients,
  { key: owner, id: tenant }: Tenant,
): Promise<Destination> {
  const receiver = await openReceiver();
  context.defer(receiver.close);
  const name = `texts-${tenant.slice(-8)}`;
  const listed = (method: string) => {
    const inBody = [
      { at: '/card/number', from: '/number' },
      { at: '/card/all' },
      { at: 'form:number', from: '/number' },
    ];
    const placeholders = method.startsWith('P') ? inBody : [{ at: 'header:x-card', from: '/number' }];
    const passed = { query: ['q', 'unknown'], headers: ['x-any'], reply: ['', 'header:x-reply'] };
    return { method, path: '/v1/:id', placeholders, ...passed };
  };
  const fields = {
    name,
    ca: receiver.ca,
    headers: { 'x-secret': 'secret-of-the-destination' },
    requests: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].map(listed),
  };
  const body = { ...fields, origin: receiver.addressOrigin };
  const { id } = (await must(0, 'POST', '/destinations', { key: owner, body })) as Body;
  const { key } = await application(owner, { permissions: [], rules: [tokenUseRule('/', [id])] });
  let renewed = 0;
  return {
    path: `/proxy/${name}/v1/1`,
    key,
    prepare: async (exchange) => {
      receiver.received.length = 0;
      const bytes = exchange.reply();
      receiver.answer((socket) => void socket.write(bytes));
      const made = await call(0, 'POST', '/tokens', { key: owner, body: `{"data":${exchange.data()}}` });
      if (made.status !== 201) return undefined;
      const token = JSON.parse(made.text).id as string;
      return { token, body: exchange.body(token) };
    },
    renew: async () => {
      const headers = { 'x-secret': `secret-of-the-destination-${renewed++}` };
      await must(0, 'PUT', `/destinations/${id}`, { key: owner, body: { ...fields, headers } });
    },
  };
}
