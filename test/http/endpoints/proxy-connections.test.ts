/** Connections to destinations: addresses, certificates, slow and large replies, and what metrics say about them. */
import { beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { TLSSocket } from 'node:tls';
import { RequestMemory, Reservation } from '../../../src/http/pipeline/request-memory.ts';
import { noOpenssl } from '../../support/certificates.ts';
import { json, openReceiver, type Receiver, tokenUseRule } from '../../support/destination-receiver.ts';
import { openTestServer, sqlite, type TestServer, testMasterKey } from '../../support/test-server.ts';

const settings = {
  SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1',
  SALLYPORT_MASTER_KEY: testMasterKey,
  SALLYPORT_USES_PER_TOKEN: '0',
  SALLYPORT_METRICS_PORT: '0',
};
const requests = [
  { method: 'POST', path: '/v1/charges', placeholders: [{ at: '/number' }], reply: ['/id', '/text'] },
];

describe.skipIf(noOpenssl)('a connection to a destination', () => {
  let server: TestServer;
  let receiver: Receiver;
  let guarded: Receiver;
  let key: string;
  /** The answers of the name server, one after another. The last one is repeated. */
  let answers: string[];
  let lookups = 0;
  /** No budget for large replies, except for one at a time. */
  const memory = new RequestMemory({ perApplication: 0, total: 0 });
  beforeAll(async () => {
    [receiver, guarded] = [await openReceiver(), await openReceiver(true)];
    server = await openTestServer(sqlite, settings, undefined, {
      memory,
      resolve: async () => {
        lookups++;
        return [(answers.length > 1 ? answers.shift() : answers[0]) as string];
      },
    });
    ({ key } = await server.tenant());
    await call('/tokens', { id: 'card', data: '4242424242424242' });
  });
  beforeEach(() => {
    answers = ['127.0.0.1'];
    lookups = 0;
    for (const each of [receiver, guarded]) each.received.length = 0;
    receiver.answer((socket) => socket.write(json({ id: 'ch_1' })));
  });

  const call = (path: string, body: unknown, as = key) => server.call('POST', path, { key: as, body });

  /** Creates a destination, and returns its id and a function that uses it. */
  async function destination(
    name: string,
    { origin, ca }: Pick<Receiver, 'origin' | 'ca'>,
    fields: object = {},
  ) {
    const { body } = await call('/destinations', { name, origin, ca, requests, timeout: 60, ...fields });
    const { key: user } = await server.application(key, { rules: [tokenUseRule('/', [body.id])] });
    const charge = () => call(`/proxy/${name}/v1/charges`, { number: '{{ token: card }}' }, user);
    return { id: body.id as string, charge };
  }

  test('uses the address that was checked, also if the next answer of the name server is another one', async () => {
    const { charge } = await destination('rebinding', receiver);
    answers = ['127.0.0.1', '169.254.169.254'];
    expect([(await charge()).status, lookups]).toEqual([200, 1]);
    const { body } = await charge();
    expect([body.code, lookups, receiver.received.length]).toEqual(['destination_unreachable', 2, 1]);
  });

  test('callers that may read the destination get the reason of a failure', async () => {
    const { id, charge } = await destination('private', receiver);
    answers = ['10.0.0.8'];
    const refused = (await charge()).body;
    expect(refused.detail).toBe('Sallyport could not connect to the destination. The request was not sent.');
    const grants = { permissions: ['destination:read'], rules: [tokenUseRule('/', [id])] };
    const { key: reader } = await server.application(key, grants);
    const told = await call('/proxy/private/v1/charges', { number: '{{ token: card }}' }, reader);
    expect(told.body.detail).toBe(
      `${refused.detail} The reason: ${new URL(receiver.origin).hostname} resolves to 10.0.0.8, which is not public; add it to SALLYPORT_DESTINATION_NETWORKS to allow it`,
    );
  });

  test('works with an address instead of a name', async () => {
    const { charge } = await destination('by-address', { ...receiver, origin: receiver.addressOrigin });
    expect([(await charge()).status, lookups]).toEqual([200, 0]);
  });

  test('identifies itself with the client certificate', async () => {
    guarded.answer((socket) => socket.write(json({ id: socket.getPeerCertificate().subject.CN })));
    const { charge } = await destination('guarded', guarded, {
      client_certificate: guarded.clientCertificate,
    });
    expect((await charge()).body).toEqual({ id: 'client' });
    const without = await destination('unidentified', guarded);
    expect((await without.charge()).status).toBe(502);
    expect(guarded.received).toHaveLength(1);
  });

  test('ends at the timeout, even while bytes arrive', async () => {
    const { charge } = await destination('dripping', receiver, { timeout: 1 });
    receiver.answer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n');
      const drip = setInterval(() => socket.write(' '), 20);
      socket.on('close', () => clearInterval(drip));
    });
    const { body } = await charge();
    expect([body.code, body.sent]).toEqual(['destination_timeout', true]);
  });

  test('sends nothing if there is no memory for the reply', async () => {
    const { charge } = await destination('large', receiver);
    const text = 'x'.repeat(600_000);
    receiver.answer((socket) => socket.write(json({ text })));
    expect(await charge()).toMatchObject({ status: 200, body: { text } });
    const held = new Reservation(memory, 'other');
    held.add(100_000);
    receiver.received.length = 0;
    const refused = await charge();
    expect([refused.status, refused.body.sent, receiver.received]).toEqual([503, undefined, []]);
    expect(memory.reservedBytes).toBe(100_000);
    held.release();
    expect((await charge()).status).toBe(200);
    expect(memory.reservedBytes).toBe(0);
  });

  /** A server of its own, and a function that uses its destination. */
  async function busy(limited: RequestMemory, reply: unknown, max_in_flight: number) {
    const resolve = async () => ['127.0.0.1'];
    const other = await openTestServer(sqlite, settings, undefined, { memory: limited, resolve });
    const { key: owner } = await other.tenant();
    const { origin, ca } = receiver;
    const all = [{ method: 'GET', path: '/all', reply }];
    const body = { name: 'busy', origin, ca, requests: all, max_in_flight };
    const created = await other.call('POST', '/destinations', { key: owner, body });
    const { key: user } = await other.application(owner, { rules: [tokenUseRule('/', [created.body.id])] });
    const headers = { 'SVC-API-KEY': user };
    return async () => {
      const response = await fetch(`${other.url}/proxy/busy/all`, { headers });
      await response.text();
      return response.status;
    };
  }

  test.each([
    ['ordinary replies', [''], 3 * 131_072],
    ['streams', 'stream', 3 * 300_000],
  ])(
    'has as many %s at a time as fit into memory: the others get 429, and are not sent',
    async (_, reply, budget) => {
      const limited = new RequestMemory({ perApplication: budget, total: 2 * budget });
      const get = await busy(limited, reply, 1000);
      const held: TLSSocket[] = [];
      const { promise: isFull, resolve: full } = Promise.withResolvers<void>();
      receiver.answer((socket) => {
        if (held.push(socket) === 3) full();
      });
      const replies = [get(), get(), get()];
      await isFull;
      expect([await get(), await get()]).toEqual([429, 429]);
      for (const socket of held) socket.write(json({ id: 'ch_1' }));
      expect(await Promise.all(replies)).toEqual([200, 200, 200]);
      expect([limited.reservedBytes, held.length]).toEqual([0, 3]);
    },
  );

  test('has at most `max_in_flight` requests at a time, and serves all that wait', async () => {
    const get = await busy(new RequestMemory({ perApplication: 1e9, total: 1e9 }), [''], 5);
    const running: TLSSocket[] = [];
    let most = 0;
    const answerAll = () => {
      for (const socket of running.splice(0)) socket.write(json({ id: 'ch_1' }));
    };
    receiver.answer((socket) => {
      most = Math.max(most, running.push(socket));
      // In a later turn: requests that are sent without a slot would arrive before.
      if (running.length === 4 || receiver.received.length === 30) setImmediate(answerAll);
    });
    const statuses = await Promise.all(Array.from({ length: 30 }, get));
    expect(statuses).toEqual(statuses.map(() => 200));
    // One application takes four fifths.
    expect([most, receiver.received.length]).toEqual([4, 30]);
  });

  test.each([204, 205, 304])('returns the status %d without a body', async (status) => {
    const { charge } = await destination(`empty-${status}`, receiver);
    receiver.answer((socket) =>
      socket.end(
        `HTTP/1.1 ${status} x\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"id":1}`,
      ),
    );
    expect(await charge()).toMatchObject({ status, body: '' });
  });

  test('is counted by destination and outcome, with bounded series', async () => {
    const scrape = async () => (await fetch(server.app.metricsUrl as string)).text();
    const measured = await destination('measured', receiver);
    await measured.charge();
    const failing = await destination('failing', receiver, { ca: guarded.ca });
    for (let time = 0; time < 6; time++) await failing.charge();
    const text = await scrape();
    const total = 'sallyport_destination_requests_total';
    expect(text).toContain(`\n${total}{destination="${measured.id}",outcome="replied"} 1\n`);
    const duration = 'sallyport_destination_request_duration_seconds_count';
    expect(text).toContain(`\n${duration}{destination="${measured.id}"} 1\n`);
    expect(text).toContain(`\n${total}{destination="${failing.id}",outcome="destination_unreachable"} 5\n`);
    expect(text).toContain(`\n${total}{destination="${failing.id}",outcome="destination_suspended"} 1\n`);
    expect(text).toContain(`\nsallyport_destination_suspended{destination="${failing.id}"} 1\n`);
    for (let at = 0; at < 50; at++) {
      const { charge } = await destination(`many-${at}`, receiver);
      expect((await charge()).status).toBe(200);
    }
    const series = new Set((await scrape()).match(new RegExp(`${total}{destination="[^"]*"`, 'g')));
    expect(series.size).toBe(51);
    expect([...series].at(-1)).toContain('"other"');
  });
});
