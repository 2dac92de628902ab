/**
 * A holder of `token:use` tries to learn the data of a token that it may only use. The threat model lists the attacks.
 * Forms of echoes are in echoes.test.ts. Others are in proxy.test.ts: addresses, revocations during a request, and destinations that misbehave.
 */
import { beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { TLSSocket } from 'node:tls';
import { noOpenssl } from '../../support/certificates.ts';
import { chargeRequest, json, openReceiver, tokenUseRule } from '../../support/destination-receiver.ts';
import { openTestServer, sqlite, type TestServer, testMasterKey } from '../../support/test-server.ts';

const number = '4929135568201737';
const secret = 'sk_live_8Jq2LmZx';
const settings = {
  SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1',
  SALLYPORT_MASTER_KEY: testMasterKey,
  SALLYPORT_USES_PER_TOKEN: '1000',
  SALLYPORT_METRICS_PORT: '0',
};
const requests = [{ ...chargeRequest, reply: ['', 'header:x-echo'] }];

describe.skipIf(noOpenssl)('a holder of token:use', () => {
  let server: TestServer;
  let receiver: Awaited<ReturnType<typeof openReceiver>>;
  let key: string;
  let user: string;
  let userId: string;
  let id: string;
  const seen: string[] = [];
  beforeAll(async () => {
    receiver = await openReceiver();
    const resolve = async () => ['127.0.0.1'];
    server = await openTestServer(sqlite, settings, undefined, { resolve });
    ({ key } = await server.tenant());
    id = await destination('payments');
    ({ key: user, id: userId } = await server.application(key, {
      permissions: ['decision:create'],
      rules: [tokenUseRule('/cards/', [id])],
    }));
    for (const [name, data] of Object.entries(tokens))
      await admin('POST', '/tokens', { id: name, container: '/cards/', data });
  });
  beforeEach(async () => {
    for (const token of Object.keys(tokens)) await allow(token);
    receiver.received.length = 0;
    receiver.answer((socket) => socket.write(json({ id: 'ch_1' })));
  });

  const tokens = {
    card: { number },
    other: { number: '5105105105105100' },
    longer: { number: `${number}999` },
    short: { number: '7' },
    umlauts: { number: 'Grüße-Geheim' },
  };
  const admin = (method: string, path: string, body?: unknown) => server.call(method, path, { key, body });
  async function destination(name: string, fields: object = {}): Promise<string> {
    const headers = { authorization: `Bearer ${secret}` };
    const body = {
      name,
      origin: receiver.origin,
      ca: receiver.ca,
      requests,
      headers,
      timeout: 60,
      ...fields,
    };
    return (await admin('POST', '/destinations', body)).body.id;
  }
  /** Sends a request as the holder, and records the response. */
  async function attack(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
    as = user,
  ) {
    const reply = await server.call(method, path, { key: as, body, headers });
    seen.push(JSON.stringify([reply.body, ...reply.headers]));
    return reply;
  }
  const charge = (token = 'card', more: object = {}, headers = {}, path = '/v1/charges/7') =>
    attack('POST', `/proxy/payments${path}`, { card: { number: `{{ token: ${token} }}` }, ...more }, headers);

  const allow = (token: string) =>
    admin('DELETE', `/destinations/${id}/stops/${token}?application=${userId}`);

  test('gets one echo of a token: its use is then stopped for this application until it is allowed again', async () => {
    const echo = (socket: TLSSocket) => void socket.write(json({ echo: number }));
    const codeOf = async (token?: string, as = user) => {
      const body = { card: { number: `{{ token: ${token ?? 'card'} }}` } };
      return (await attack('POST', '/proxy/payments/v1/charges/7', body, {}, as)).body.code;
    };
    receiver.answer(echo);
    expect(await codeOf()).toBe('destination_echoed_data');
    receiver.answer((socket) => socket.write(json({ id: 'ch_1' })));
    receiver.received.length = 0;
    expect(await codeOf()).toBe('use_stopped');
    expect(receiver.received).toEqual([]);
    const { key: other } = await server.application(key, { rules: [tokenUseRule('/cards/', [id])] });
    expect([await codeOf('other'), await codeOf('card', other)]).toEqual([undefined, undefined]);
    const path = `/destinations/${id}/stops/card?application=${userId}`;
    expect((await attack('DELETE', path)).status).toBe(403);
    expect([(await allow('card')).status, (await allow('card')).status]).toEqual([204, 204]);
    expect(await codeOf()).toBe(undefined);
  });

  test('learns nothing from requests that were sent together with the one that got the echo', async () => {
    const sockets: TLSSocket[] = [];
    const { promise: allSent, resolve } = Promise.withResolvers<void>();
    receiver.answer((socket) => {
      sockets.push(socket);
      if (sockets.length === 8) resolve();
    });
    const replies = Array.from({ length: 8 }, () => charge());
    await allSent;
    (sockets[0] as TLSSocket).write(json({ echo: number }));
    await Promise.race(replies);
    for (const socket of sockets.slice(1)) socket.write(json({ id: 'ch_1' }));
    const codes = (await Promise.all(replies)).map(({ body }) => body.code);
    expect(codes).toEqual(codes.map(() => 'destination_echoed_data'));
  });

  test('gets no data from other endpoints', async () => {
    const question = { credential: user, permission: 'token:use', explain: true };
    const replies = [
      await attack('GET', '/tokens/card'),
      await attack('GET', '/tokens'),
      await attack('POST', '/tokens/search', { equals: { number } }),
      await attack('PATCH', '/tokens/card', { type: 'x' }),
      await attack('POST', '/tokens', { id: 'card', container: '/cards/', data: { number } }),
      await attack('GET', '/logs'),
      await attack('GET', `/destinations/${id}`),
      await attack('PUT', `/destinations/${id}`, { name: 'payments', requests }),
      await attack('GET', '/access/who?container=/cards/'),
    ];
    expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 403));
    const resource = { id: 'card', container: '/cards/', destination: 'payments' };
    const decision = await attack('POST', '/decisions', { ...question, resource });
    expect(decision.body).toMatchObject({ allowed: true, transform: 'redact' });
    const permission = await attack('POST', '/decisions', {
      ...question,
      permission: 'token:read',
      resource,
    });
    expect(permission.body.allowed).toBe(false);
  });

  test('gets the same refusal for every value, and no request is sent', async () => {
    const refusals = [
      (token: string) => charge(token, {}, {}, '/v1/refunds'),
      (token: string) => charge(token, { note: `{{ token: ${token} }}` }),
      (token: string) => charge(token, { card: { number: `{{ token: ${token} }}${number}` } }),
      (token: string) => charge(token, {}, {}, `/v1/charges/7?expand={{%20token:%20${token}%20}}`),
      (token: string) =>
        attack('POST', '/proxy/payments/v1/charges/7', 'x', { 'X-Card': `{{ token: ${token} }}` }),
    ];
    for (const refusal of refusals) {
      const texts = new Set<string>();
      for (const token of Object.keys(tokens)) {
        const { status, body } = await refusal(token);
        texts.add(JSON.stringify([status, { ...body, request_id: '', explanation: '' }]));
      }
      expect([...texts]).toHaveLength(1);
    }
    expect(receiver.received).toEqual([]);
  });

  test('gets a reply of the same form and length for every value', async () => {
    const lengths = new Set<number>();
    for (const token of Object.keys(tokens)) {
      const reply = await charge(token);
      const headers = [...reply.headers].filter(
        ([name]) => !/^(date|svc-request-id|x-request-id|ratelimit)/.test(name),
      );
      lengths.add(JSON.stringify([reply.status, reply.body, headers]).length);
    }
    expect(lengths.size).toBe(1);
  });

  // All parts of the reply are listed here, which is the worst case.
  const half = [number.slice(0, 8), number.slice(8)] as const;
  test.each<[string, object, string]>([
    ['in two objects', { a: { first: half[0] }, b: { second: half[1] } }, ''],
    ['in a list of objects', { parts: half.map((part) => ({ part })) }, ''],
    ['as a name and a value', { [half[0]]: half[1] }, ''],
    ['in a header', {}, number],
    ['in a header, in base64', {}, btoa(`card=${number}`)],
    ['in a header and in the body', { id: half[0] }, half[1]],
    ['in an error message of the destination', { error: { message: `card ${number} declined` } }, ''],
    ['in hexadecimal, within a text', { id: `x${Buffer.from(number).toString('hex')}y` }, ''],
    ['of the secret header', { authorization: `Bearer ${secret}` }, ''],
  ])('does not get an echo %s', async (_, body, header) => {
    const head = `HTTP/1.1 402 Payment Required${header ? `\r\nX-Echo: ${header}` : ''}`;
    receiver.answer((socket) => socket.write(json(body, head)));
    const reply = await charge();
    expect([reply.status, reply.body.code]).toEqual([502, 'destination_echoed_data']);
  });

  test('does not get an echo of umlauts in a header', async () => {
    receiver.answer((socket) => socket.write(json({}, 'HTTP/1.1 200 OK\r\nX-Echo: for Grüße-Geheim')));
    expect((await charge('umlauts')).body.code).toBe('destination_echoed_data');
  });

  test('cannot put a header, a request or another host into what is sent', async () => {
    const sent = async (headers: Record<string, string>, path?: string) => {
      await charge('card', {}, headers, path).catch(() => undefined);
      return receiver.received.splice(0).join('');
    };
    const many = await sent({
      Host: 'evil.example',
      'X-Forwarded-Host': 'evil.example',
      'Accept-Language': 'de',
      'Accept-Encoding': 'gzip',
      Authorization: 'Bearer mine',
    });
    expect(many).not.toContain('evil.example');
    for (const line of ['Bearer mine', 'x-forwarded', 'gzip', user])
      expect(many.toLowerCase()).not.toContain(line.toLowerCase());
    expect(many.match(/HTTP\/1\.1/g)).toHaveLength(1);
    expect(many).toContain(`Bearer ${secret}`);
    expect(await sent({ Cookie: 'a=b' })).toBe('');
    for (const path of [
      '//evil.example/v1/charges/7',
      '/v1/charges/7%0d%0aX: y',
      '/v1/charges/7#@evil.example',
      '/v1/charges/..',
    ])
      expect(await sent({}, path)).not.toContain('evil');
  });

  test('cannot make the service repeat a request or a reply with an Idempotency-Key', async () => {
    const one = { 'Idempotency-Key': 'order-7' };
    await charge('card', {}, one);
    receiver.answer((socket) => socket.write(json({ id: 'ch_2' })));
    expect((await charge('other', {}, one)).body).toEqual({ id: 'ch_2' });
    expect(receiver.received).toHaveLength(2);
  });

  test('with a session or a delegation reaches no destination that its authorizer does not reach', async () => {
    const elsewhere = await destination('elsewhere');
    const rule = { ...tokenUseRule('/cards/', [id, elsewhere]), container: undefined };
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
    const created = await server.call('POST', '/delegations', {
      key: user,
      body: { rules: [{ ...rule, conditions }] },
    });
    const body = { card: { number: '{{ token: card }}' } };
    const at = (name: string) => attack('POST', `/proxy/${name}/v1/charges/7`, body, {}, created.body.key);
    expect([(await at('payments')).status, (await at('elsewhere')).status]).toEqual([200, 404]);
    expect(receiver.received).toHaveLength(1);
  });

  test('cannot block other destinations and tenants with one that hangs', async () => {
    await destination('slow');
    const slow = (await admin('GET', '/destinations?name=slow')).body.data[0].id;
    const { key: busy } = await server.application(key, {
      permissions: ['mine:x'],
      rules: [tokenUseRule('/cards/', [slow, id])],
    });
    const body = { card: { number: '{{ token: card }}' } };
    const held: TLSSocket[] = [];
    const reply = json({ id: 'ok' });
    receiver.answer((socket, request) => {
      if (request.includes('/v1/charges/hang')) held.push(socket);
      else socket.write(reply);
    });
    let pending = 0;
    const hanging = Array.from({ length: 40 }, async () => {
      pending++;
      await server.call('POST', '/proxy/slow/v1/charges/hang', { key: busy, body });
      pending--;
    });
    expect((await server.call('POST', '/proxy/payments/v1/charges/7', { key: busy, body })).status).toBe(200);
    expect(pending).toBe(40);
    receiver.answer((socket) => socket.write(reply));
    for (const socket of held) socket.write(reply);
    await Promise.all(hanging);
  });

  test('finds neither data nor secrets in the responses, and the operator finds none in logs and metrics', async () => {
    receiver.answer((socket) =>
      socket.write(`HTTP/1.1 200 ${number}\r\nX-Echo: ${number}\r\nContent-Length: 1${number}\r\n\r\n`),
    );
    await charge();
    receiver.answer((socket) => socket.write(`${number}\r\n\r\n`));
    await charge();
    receiver.answer((socket) => socket.write(json(`{"a": ${number}${number}`)));
    await charge();
    await server.flush();
    const entries = (await admin('GET', '/logs?size=100')).body.data;
    const metrics = await fetch(server.app.metricsUrl as string).then((response) => response.text());
    expect(seen.length).toBeGreaterThan(2);
    for (const text of [...seen, ...server.logged, JSON.stringify(entries), metrics]) {
      expect(text).not.toContain(number);
      expect(text).not.toContain(secret);
    }
  });
});
