/** Use without seeing: requests through `/proxy/NAME/…` to a real TLS server on the loopback interface. */
import { beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { noOpenssl } from '../../support/certificates.ts';
import {
  chargeRequest,
  json,
  openReceiver,
  type Receiver,
  tokenUseRule,
} from '../../support/destination-receiver.ts';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

const settings = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_MASTER_KEY: testMasterKey };
const number = '4242424242424242';
const placeholder = '{{ token: card-1 }}';
const requests = [
  {
    ...chargeRequest,
    placeholders: [
      ...chargeRequest.placeholders,
      { at: '/card/whole' },
      { at: 'form:card[number]', from: '/number' },
      { at: 'header:x-name', from: '/name' },
    ],
    reply: [...chargeRequest.reply, '/status', '/list/1', '/echo'],
  },
  { method: 'GET', path: '/v1/charges/:id' },
];

describe.skipIf(noOpenssl).each(databases)('the proxy on %s', (_, database) => {
  let server: TestServer;
  let receiver: Receiver;
  let key: string;
  let user: string;
  let userId: string;
  let id: string;
  let resolved: string[] = ['127.0.0.1'];
  /** Called while a request resolves the name: after its check, before its transaction. */
  let meanwhile: (() => Promise<unknown>) | undefined;
  beforeAll(async () => {
    receiver = await openReceiver();
    server = await openTestServer(database, { ...settings, SALLYPORT_USES_PER_TOKEN: '1000' }, undefined, {
      resolve: async () => {
        const change = meanwhile;
        meanwhile = undefined;
        await change?.();
        return resolved;
      },
    });
    ({ key } = await server.tenant());
    id = await destination('payments');
    ({ key: user, id: userId } = await server.application(key, {
      permissions: ['decision:create'],
      rules: [tokenUseRule('/cards/', [id])],
    }));
    await token({ id: 'card-1', data: { number, name: 'Ada Lovelace', nested: { a: 1 }, lines: 'a\nb' } });
    await token({ id: 'elsewhere', container: '/other/', data: { number } });
  });
  beforeEach(async () => {
    // An earlier test may have had an echo.
    await call('DELETE', `/destinations/${id}/stops/card-1?application=${userId}`);
    receiver.received.length = 0;
    resolved = ['127.0.0.1'];
    receiver.answer((socket) => socket.write(json({ id: 'ch_1', status: 'paid', secret: 'hidden' })));
  });

  const call = (method: string, path: string, body?: unknown, as = key, headers = {}) =>
    server.call(method, path, { key: as, body, headers });
  const token = (fields: object) => call('POST', '/tokens', { container: '/cards/', ...fields });
  const fieldsOf = (name: string, fields: object = {}) => {
    const headers = { authorization: 'Bearer sk_live_12345678' };
    const given = { requests, headers, timeout: 60, ignored_headers: ['x-stainless-*'] };
    return { name, origin: receiver.origin, ca: receiver.ca, ...given, ...fields };
  };
  async function destination(name: string, fields: object = {}): Promise<string> {
    const created = await call('POST', '/destinations', fieldsOf(name, fields));
    expect(created.status).toBe(201);
    return created.body.id;
  }
  const charge = (
    body: unknown = { card: { number: placeholder }, amount: 5 },
    headers = {},
    path = '/v1/charges/7',
  ) => call('POST', `/proxy/payments${path}`, body, user, headers);
  const sentBody = () => receiver.received.at(-1)?.split('\r\n\r\n')[1];
  const codeOf = async (reply: ReturnType<typeof charge>) => (await reply).body.code;
  const uses = async () =>
    (await call('GET', `/logs?destination=${id}&size=2`)).body.data.map(
      ({ operation, reason, use }: { operation: string; reason?: string; use: { status?: number } }) => [
        operation,
        reason,
        use.status,
      ],
    );

  test('the data is inserted, the added headers are sent, and only the listed parts come back', async () => {
    receiver.answer((socket) =>
      socket.write(
        json(
          { id: 'ch_1', secret: 'hidden', list: ['a', 'b', 'c'] },
          'HTTP/1.1 402 Payment Required\r\nRequest-Id: r1\r\nSet-Cookie: a=b',
        ),
      ),
    );
    const headers = {
      'Idempotency-Key': 'i-1',
      'Accept-Language': 'de',
      'X-Stainless-Lang': 'js',
      'SVC-REQUEST-ID': 'req-77',
      'SVC-PURPOSE': 'order 7',
    };
    const reply = await charge(undefined, headers, '/v1/charges/7?expand=a%20b');
    expect([reply.status, reply.body]).toEqual([402, { id: 'ch_1', list: [null, 'b'] }]);
    expect(reply.headers.get('svc-destination')).toBe('payments');
    expect(reply.headers.get('request-id')).toBe('r1');
    expect(reply.headers.get('set-cookie')).toBe(null);
    const [sent = ''] = receiver.received;
    expect(sent).toStartWith('POST /v1/charges/7?expand=a+b HTTP/1.1\r\n');
    for (const line of [
      'authorization: Bearer sk_live_12345678',
      'idempotency-key: i-1',
      'accept-language: de',
      'svc-request-id: req-77',
    ])
      expect(sent).toContain(`${line}\r\n`);
    for (const absent of ['x-stainless-lang', user, 'svc-api-key'])
      expect(sent.toLowerCase()).not.toContain(absent.toLowerCase());
    expect(JSON.parse(sentBody() ?? '')).toEqual({ card: { number }, amount: 5 });
    const [outcome, before] = (await call('GET', '/logs?request_id=req-77')).body.data;
    const use = { destination: id, name: 'payments', method: 'POST', path: '/v1/charges/:id' };
    expect(before).toMatchObject({
      operation: 'token.use',
      resource: { ids: ['card-1'], container: '/cards/' },
      purpose: 'order 7',
      use,
    });
    expect(outcome).toMatchObject({ operation: 'token.use.outcome', use: { ...use, status: 402 } });
    expect(JSON.stringify(server.logged)).not.toContain(number);
  });

  const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
  test('forms, headers and whole values are inserted', async () => {
    await charge(new URLSearchParams({ 'card[number]': placeholder, amount: '5' }).toString(), form);
    expect(sentBody()).toBe(`card%5Bnumber%5D=${number}&amount=5`);
    for (const value of [placeholder, `Card ${placeholder}`]) {
      await charge({ amount: 1 }, { 'X-Card': value });
      expect(receiver.received.at(-1)).toContain(`x-card: Card ${number}\r\n`);
    }
    await charge({ card: { whole: placeholder } });
    expect(JSON.parse(sentBody() ?? '').card.whole.nested).toEqual({ a: 1 });
  });

  test.each<[string, string, unknown, object?, string?]>([
    ['an unlisted path', 'request_not_listed', {}, {}, '/v1/refunds'],
    ['an unlisted query parameter', 'request_not_listed', {}, {}, '/v1/charges/7?a=1'],
    ['a repeated query parameter', 'request_not_listed', {}, {}, '/v1/charges/7?expand=1&expand=2'],
    ['an escape in the path', 'request_not_listed', {}, {}, '/v1/charges/a%2fb'],
    ['a semicolon in the path', 'request_not_listed', {}, {}, '/v1/charges/a;b'],
    ['an empty segment', 'request_not_listed', {}, {}, '/v1//charges'],
    ['a trailing slash', 'request_not_listed', {}, {}, '/v1/charges/7/'],
    ['a placeholder elsewhere', 'placeholder_not_allowed', { note: placeholder }],
    ['a placeholder in text', 'placeholder_not_allowed', { card: { number: `x ${placeholder}` } }],
    ['a placeholder in a name', 'placeholder_not_allowed', { [placeholder]: 1 }],
    ['a placeholder in an unlisted header', 'placeholder_not_allowed', {}, { 'X-Other': placeholder }],
    [
      'a placeholder in the query',
      'placeholder_not_allowed',
      {},
      {},
      `/v1/charges/7?expand=${encodeURIComponent(placeholder)}`,
    ],
    ['data that is not text in a header', 'placeholder_unusable', {}, { 'X-Name': '{{ token: odd-1 }}' }],
    ['data with a line break in a header', 'placeholder_unusable', {}, { 'X-Name': '{{ token: odd-2 }}' }],
    ['data without the part', 'placeholder_unusable', { card: { number: '{{ token: odd-1 }}' } }],
    ['a name twice', 'validation_failed', '{"a":1,"b":{"c":1,"c":2}}'],
    ['a number that is not exact', 'validation_failed', '{"a":12345678901234567890}'],
    ['such a number in invalid JSON', 'validation_failed', '[1e400'],
    ['a form of 1,001 fields', 'validation_failed', '&'.repeat(1000), form],
    [
      'a placeholder in more than 64 KiB',
      'too_large',
      { card: { number: placeholder }, note: 'x'.repeat(65_536) },
    ],
    ['another content type', 'unsupported_media_type', 'x', { 'Content-Type': 'text/plain' }],
    ['an unknown token', 'not_found', { card: { number: '{{ token: unknown }}' } }],
    ['a token without access', 'permission_missing', { card: { number: '{{ token: elsewhere }}' } }],
  ])('%s is refused, and no request is sent', async (_, code, body, headers = {}, path = '/v1/charges/7') => {
    await token({ id: 'odd-1', data: { name: { a: 1 } } });
    await token({ id: 'odd-2', data: { name: 'a\r\nx-evil: 1' } });
    expect(await codeOf(charge(body, headers, path))).toBe(code);
    expect(receiver.received).toEqual([]);
  });

  test('a key needs a rule that names the destination, also without tokens', async () => {
    const rules = [tokenUseRule('/', [crypto.randomUUID()])];
    const { key: stranger } = await server.application(key, { rules });
    for (const as of [stranger, key])
      expect([403, 404]).toContain((await call('GET', '/proxy/payments/v1/charges/7', undefined, as)).status);
    expect((await call('GET', '/proxy/unknown/v1/charges/7', undefined, user)).status).toBe(404);
    expect(receiver.received).toEqual([]);
  });

  const split = (text: string) => [text.slice(0, 9), text.slice(9)];
  test.each<[string, unknown]>([
    ['plain', number],
    ['as a number', Number(number)],
    ['with separators', '4242 4242-4242.4242'],
    ['inside text', `card ${number} was charged`],
    ['as a name', { [number]: 1 }],
    ['split over a list', split(number)],
    ['base64', btoa(`ab${number}c`)],
    ['the secret of the destination', 'Bearer sk_live_12345678'],
  ])('a reply that contains the data is withheld: %s', async (_, echo) => {
    receiver.answer((socket) => socket.write(json({ id: 'ch_1', echo })));
    const { status, body } = await charge();
    expect([status, body.code, body.sent]).toEqual([502, 'destination_echoed_data', true]);
    expect((await uses())[0]).toEqual(['token.use.outcome', 'destination_echoed_data', 200]);
  });

  test('data that was inserted with a prefix is found without it', async () => {
    receiver.answer((socket) => socket.write(json({ id: 'ch_1', echo: number })));
    const reply = charge({}, { 'x-card': '{{ token: card-1 }}' });
    expect(await codeOf(reply)).toBe('destination_echoed_data');
  });

  test('a delegation sends as many requests as it has uses, also if they fail after sending', async () => {
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
    const use = {
      priority: 1,
      conditions,
      transform: 'redact',
      permissions: ['token:use'],
      destinations: [id],
    };
    const { body } = await call('POST', '/delegations', { max_uses: 2, rules: [use] }, user);
    receiver.answer((socket) => socket.write(json({ id: 'ch_1', echo: number })));
    const charges = Array.from({ length: 5 }, () =>
      call('POST', '/proxy/payments/v1/charges/7', { card: { number: '{{ token: card-1 }}' } }, body.key),
    );
    const statuses = (await Promise.all(charges)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([401, 401, 401, 502, 502]);
    expect(receiver.received).toHaveLength(2);
  });

  test('bodies without placeholders and replies may have almost 1 MiB', async () => {
    const text = 'x'.repeat(1_048_000);
    receiver.answer((socket) =>
      socket.write(json({ id: text.slice(0, 900_000), values: Array(39_000).fill(1) })),
    );
    expect((await charge({ card: { number: text } })).body).toEqual({ id: text.slice(0, 900_000) });
    expect(sentBody()).toHaveLength(text.length + 22);
  });

  test('a reply in chunks is read as a whole', async () => {
    const text = JSON.stringify({ id: 'ch_1', echo: number });
    const chunks = [...text].map((character) => `1\r\n${character}\r\n`).join('');
    receiver.answer((socket) =>
      socket.write(
        `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`,
      ),
    );
    expect(await codeOf(charge())).toBe('destination_echoed_data');
  });

  const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n';
  test.each<[string, string, Parameters<Receiver['answer']>[0]]>([
    ['a hang', 'destination_timeout', () => {}],
    [
      'a reply that never ends',
      'destination_timeout',
      (socket) => socket.write(`${head}Content-Length: 10\r\n\r\n{`),
    ],
    ['a reset', 'destination_failed', (socket) => socket.destroy()],
    [
      'a body that is too short',
      'destination_failed',
      (socket) => socket.end(`${head}Content-Length: 100\r\n\r\n{}`),
    ],
    [
      'two lengths',
      'destination_failed',
      (socket) => socket.write(`${head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`),
    ],
    [
      'length and chunks',
      'destination_failed',
      (socket) => socket.write(`${head}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}`),
    ],
    [
      '100 MB',
      'destination_failed',
      (socket) => socket.write(`${head}Content-Length: 100000000\r\n\r\n${'x'.repeat(2_000_000)}`),
    ],
    [
      '100 MB without a length',
      'destination_failed',
      (socket) => socket.write(`${head}\r\n${'x'.repeat(2_000_000)}`),
    ],
    [
      'a compressed body',
      'destination_failed',
      (socket) => socket.write(json('{}', 'HTTP/1.1 200 OK\r\nContent-Encoding: gzip')),
    ],
    [
      'JSON of 33 levels',
      'destination_failed',
      (socket) => socket.write(json(`{"id":${'['.repeat(32)}${']'.repeat(32)}}`)),
    ],
    [
      'JSON of 40,001 values',
      'destination_failed',
      (socket) => socket.write(json(`[${Array(40_000).fill(1).join()}]`)),
    ],
    ['invalid JSON', 'destination_failed', (socket) => socket.write(json('{'))],
    ['no HTTP', 'destination_failed', (socket) => socket.write('SSH-2.0-OpenSSH\r\n\r\n')],
  ])(
    'after %s, the error says that the request was sent, and it is not repeated',
    async (_, code, answer) => {
      receiver.answer(answer);
      const limit = (timeout: number) =>
        call('PUT', `/destinations/${id}`, fieldsOf('payments', { timeout }));
      if (code === 'destination_timeout') await limit(1);
      const { body } = await charge();
      await limit(60);
      expect([body.code, body.sent]).toEqual([code, true]);
      expect(receiver.received).toHaveLength(1);
      expect((await uses()).map(([operation, reason]: string[]) => [operation, reason])).toEqual([
        ['token.use.outcome', code],
        ['token.use', undefined],
      ]);
      receiver.answer((socket) => socket.write(json({ id: 'ok' })));
      expect((await charge()).body).toEqual({ id: 'ok' });
    },
  );

  test('an application in quarantine gets an error that says so, before and after the request is checked', async () => {
    const rules = [tokenUseRule('/cards/', [id])];
    const suspect = await server.application(key, { rules });
    await call('POST', `/applications/${suspect.id}/quarantine`);
    const { status, body } = await call('POST', '/proxy/payments/v1/charges/7', {}, suspect.key);
    expect([status, body.code]).toEqual([403, 'quarantined']);
  });

  test('a DELETE with a body is refused, because the body would not be sent', async () => {
    await destination('deleting', {
      requests: [{ method: 'DELETE', path: '/v1/charges/:id', reply: ['/id'] }],
    });
    const { id: deleting } = (await call('GET', '/destinations?name=deleting')).body.data[0];
    const { key: as } = await server.application(key, { rules: [tokenUseRule('/cards/', [deleting])] });
    const remove = (body?: unknown) => call('DELETE', '/proxy/deleting/v1/charges/7', body, as);
    expect((await remove()).status).toBe(200);
    expect((await remove({ number: placeholder })).body.errors).toEqual({
      body: ['cannot be sent with GET or DELETE'],
    });
    expect(receiver.received).toHaveLength(1);
  });

  test('a redirect is not followed', async () => {
    receiver.answer((socket) =>
      socket.write(json({ id: 'x' }, `HTTP/1.1 302 Found\r\nLocation: ${receiver.origin}/stolen`)),
    );
    const reply = await charge();
    expect([reply.status, reply.headers.get('location')]).toEqual([302, null]);
    expect(receiver.received).toHaveLength(1);
  });

  test('a connection is used again, and not after the server has closed it', async () => {
    await charge();
    const before = receiver.connections();
    await charge();
    expect(receiver.connections()).toBe(before);
    receiver.answer((socket) => socket.end(json({ id: 'last' })));
    expect((await charge()).body).toEqual({ id: 'last' });
    receiver.answer((socket) => socket.write(json({ id: 'next' })));
    expect((await charge()).body).toEqual({ id: 'next' });
  });

  test.each([['10.0.0.1'], ['169.254.169.254'], ['::1'], ['127.0.0.2'], ['::ffff:169.254.169.254']])(
    'a destination that resolves to %s is not reached',
    async (address) => {
      resolved = ['127.0.0.1', address];
      const { status, body } = await charge();
      expect([status, body.code, body.sent]).toEqual([502, 'destination_unreachable', undefined]);
      resolved = ['127.0.0.1'];
      expect((await charge()).status).toBe(200);
    },
  );

  test('a server with another certificate authority is not reached, and no use is recorded', async () => {
    const name = 'untrusted';
    const other = await destination(name, { ca: undefined });
    const { key: as } = await server.application(key, { rules: [tokenUseRule('/', [other])] });
    const body = { card: { number: placeholder } };
    for (let time = 0; time < 5; time++)
      expect((await call('POST', `/proxy/${name}/v1/charges/7`, body, as)).body.code).toBe(
        'destination_unreachable',
      );
    const suspended = await call('POST', `/proxy/${name}/v1/charges/7`, body, as);
    expect([suspended.status, suspended.body.code]).toEqual([503, 'destination_suspended']);
    expect((await call('GET', `/logs?destination=${other}`)).body.data).toEqual([]);
    expect(receiver.received).toEqual([]);
  });

  const changes: [string, string, () => Promise<unknown>][] = [
    [
      'the quarantine of the application',
      'quarantined',
      () => call('POST', `/applications/${userId}/quarantine`),
    ],
    [
      'other rules',
      'permission_missing',
      () => call('PUT', `/applications/${userId}`, { name: 'a', permissions: ['mine:x'] }),
    ],
    ['the deletion of the key', 'unauthenticated', () => call('POST', `/applications/${userId}/regenerate`)],
    ['the deletion of the token', 'not_found', () => call('DELETE', '/tokens/card-9')],
    [
      'a move of the token',
      'permission_missing',
      () => call('PATCH', '/tokens/card-9', { container: '/other/', data: 'x' }),
    ],
    ['the deletion of the destination', 'not_found', () => call('DELETE', `/destinations/${id}`)],
  ];
  test.each(changes)(
    '%s between the check and the transaction is noticed, and no request is sent',
    async (_, code, change) => {
      const [usual, usualUser, usualId] = [id, user, userId];
      try {
        id = await destination('changing');
        const rules = [tokenUseRule('/cards/', [id])];
        ({ key: user, id: userId } = await server.application(key, { rules }));
        await token({ id: 'card-9', data: { number } });
        meanwhile = change;
        const body = { card: { number: '{{ token: card-9 }}' } };
        expect((await call('POST', '/proxy/changing/v1/charges/7', body, user)).body.code).toBe(code);
        expect(receiver.received).toEqual([]);
        expect((await call('GET', `/logs?destination=${id}`)).body.data).toEqual([]);
      } finally {
        await call('DELETE', '/tokens/card-9');
        await call('DELETE', `/destinations/${id}`);
        [id, user, userId] = [usual, usualUser, usualId];
      }
    },
  );

  test('rules that change between the check and the transaction are those that the entries name', async () => {
    const rule = tokenUseRule('/cards/', [id]);
    const other = await server.application(key, { name: 'ruled', rules: [rule] });
    meanwhile = () =>
      call('PUT', `/applications/${other.id}`, {
        name: 'ruled',
        rules: [
          { ...rule, priority: 9, permissions: ['token:read'], destinations: undefined, transform: 'mask' },
          rule,
        ],
      });
    const body = { card: { number: placeholder } };
    expect((await call('POST', '/proxy/payments/v1/charges/7', body, other.key)).status).toBe(200);
    const { body: log } = await call('GET', `/logs?destination=${id}&actor=${other.id}`);
    const rules = log.data.map(({ decision }: { decision: { rule: object } }) => decision.rule);
    expect(rules).toEqual(Array(2).fill({ of: 'application', rule: 2 }));
  });

  test('data that is replaced between the check and the transaction is sent in its new state', async () => {
    await token({ id: 'card-8', data: { number } });
    meanwhile = async () => {
      await call('DELETE', '/tokens/card-8');
      await token({ id: 'card-8', data: { number: '5555555555554444' } });
    };
    expect((await charge({ card: { number: '{{ token: card-8 }}' } })).status).toBe(200);
    expect(receiver.received.map((text) => text.split('\r\n\r\n')[1])).toEqual([
      '{"card":{"number":"5555555555554444"}}',
    ]);
  });

  test('uses of one token are limited, and only requests that are sent count, each once', async () => {
    const limited = await openTestServer(server.config.databaseUrl, settings, undefined, {
      resolve: async () => {
        await meanwhile?.();
        meanwhile = undefined;
        return resolved;
      },
    });
    const body = { card: { number: '{{ token: card-7 }}' } };
    const path = '/proxy/payments/v1/charges/7';
    const use = (headers = {}) => limited.call('POST', path, { key: user, body, headers });
    const replace = async () => {
      await call('DELETE', '/tokens/card-7');
      await token({ id: 'card-7', data: { number } });
    };
    const statuses = async (times: number, send: typeof use) => {
      const all = new Set<number>();
      for (let time = 0; time < times; time++) all.add((await send()).status);
      return [...all];
    };
    await replace();
    await token({ id: 'unusable', data: { name: 'x' } });
    expect(await statuses(10, () => use({ 'X-Card': 'Card {{ token: elsewhere }}' }))).toEqual([403]);
    expect(await statuses(10, () => use({ 'X-Card': 'Card {{ token: unusable }}' }))).toEqual([400]);
    resolved = ['10.0.0.1'];
    expect(await statuses(4, use)).toEqual([502]);
    resolved = ['127.0.0.1'];
    meanwhile = replace;
    expect((await use()).status).toBe(200);
    expect(await statuses(29, use)).toEqual([200]);
    expect((await use()).status).toBe(429);
    // The others of a request that is refused are not counted.
    expect(await statuses(31, () => use({ 'X-Card': 'Card {{ token: card-1 }}' }))).toEqual([429]);
    body.card.number = placeholder;
    expect(await statuses(30, use)).toEqual([200]);
    expect((await limited.call('GET', path, { key: user })).status).toBe(200);
  });
});
