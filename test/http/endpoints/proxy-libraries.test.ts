/** What the libraries of providers need of `/proxy`: their key in `Authorization`, and problems that they can read. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { noOpenssl } from '../../support/certificates.ts';
import { createUser, json, openReceiver, type Receiver } from '../../support/destination-receiver.ts';
import { openTestServer, sqlite, type TestServer } from '../../support/test-server.ts';

describe.skipIf(noOpenssl)('libraries under /proxy:', () => {
  let server: TestServer;
  let receiver: Receiver;
  let user: string;
  beforeAll(async () => {
    receiver = await openReceiver();
    const { origin, ca } = receiver;
    const settings = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1' };
    server = await openTestServer(sqlite, settings, undefined, { resolve: async () => ['127.0.0.1'] });
    const { key } = await server.tenant();
    const post = async (path: string, body: object) => (await server.call('POST', path, { key, body })).body;
    const requests = [{ method: 'POST', path: '/v1/charges', headers: ['authorization'], reply: ['/id'] }];
    user = await createUser(post, { origin, ca, requests });
  });
  afterAll(async () => {
    await server.close();
    await receiver.close();
  });
  beforeEach(() => {
    receiver.received.length = 0;
    receiver.answer((socket) => socket.write(json({ id: 'ch_1' })));
  });

  const send = (headers: Record<string, string>, path = '/proxy/payments/v1/charges', body: unknown = {}) =>
    server.call('POST', path, { body, headers });

  test.each(['Bearer', 'bearer', 'token'])(
    'a key in `Authorization: %s` is accepted, and not passed on',
    async (scheme) => {
      expect((await send({ Authorization: `${scheme} ${user}` })).status).toBe(200);
      expect(receiver.received.join('')).not.toContain(user);
      expect(receiver.received.join('')).not.toMatch(/^authorization:/im);
    },
  );

  test('beside a key in SVC-API-KEY, `Authorization` is a header like others', async () => {
    expect((await send({ 'SVC-API-KEY': user, Authorization: 'Bearer other' })).status).toBe(200);
    expect(receiver.received.join('')).toMatch(/^authorization: Bearer other\r$/im);
  });

  test('other endpoints do not accept a key in `Authorization`', async () => {
    expect((await send({ Authorization: `Bearer ${user}` }, '/tokens')).status).toBe(401);
  });

  const bearer = () => ({ Authorization: `Bearer ${user}` });
  const sendAndCut = () => {
    receiver.answer((socket) => socket.destroy());
    return send(bearer());
  };
  const cases: [string, number, string, () => Promise<Awaited<ReturnType<typeof send>>>][] = [
    ['request_not_listed', 400, 'invalid_request_error', () => send(bearer(), '/proxy/payments/v1/x')],
    ['validation_failed', 400, 'invalid_request_error', () => send(bearer(), undefined, '{')],
    ['unauthenticated', 401, 'authentication_error', () => send({ Authorization: 'Bearer x' })],
    ['not_found', 404, 'not_found_error', () => send(bearer(), '/proxy/other/v1/x')],
    ['destination_failed', 502, 'api_error', () => sendAndCut()],
  ];
  test.each(cases)(
    'the problem %s has `error`, and says that a repetition does not help',
    async (code, status, type, ask) => {
      const { body, headers, status: actual } = await ask();
      expect([actual, body.error]).toEqual([status, { type, message: expect.any(String), code }]);
      for (const name of ['x-should-retry', 'stripe-should-retry']) expect(headers.get(name)).toBe('false');
    },
  );

  test('a problem that a repetition may solve does not say so', async () => {
    await receiver.close();
    const { body, headers } = await send(bearer());
    expect([body.code, body.error.type]).toEqual(['destination_unreachable', 'api_error']);
    expect(headers.get('x-should-retry')).toBeNull();
    receiver = await openReceiver();
  });

  test('the messages of invalid fields are in the message', async () => {
    const { body } = await send(bearer(), undefined, '{');
    expect(body.error.message).toContain(body.errors.body[0]);
  });

  test.each([
    ['application/vnd.github.v3+json', 'application/json'],
    ['application/json', 'application/json'],
    ['application/problem+json, application/json', 'application/problem+json'],
    ['application/json, */*', 'application/problem+json'],
    ['text/event-stream', 'application/problem+json'],
  ])('with `Accept: %s` a problem has the type %s', async (Accept, type) => {
    const { headers } = await fetch(`${server.url}/proxy/payments/x`, { headers: { ...bearer(), Accept } });
    expect(headers.get('content-type')).toBe(type);
  });
});
