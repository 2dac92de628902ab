/** A key that loses access while its request waits gets the answer of a request that is sent afterwards. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { connect } from 'node:net';
import { noOpenssl } from '../../support/certificates.ts';
import {
  chargeRequest,
  json,
  openReceiver,
  type Receiver,
  tokenUseRule,
} from '../../support/destination-receiver.ts';
import { openTestServer, sqlite, type TestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const origin = 'https://shop.example';
const purpose = { 'SVC-PURPOSE': 'support' };

describe.skipIf(noOpenssl)('a request that waits', () => {
  let server: TestServer;
  let receiver: Receiver;
  /** Called while a request resolves the name of its destination: after its check, before its transaction. */
  let meanwhile: (() => Promise<unknown>) | undefined;
  beforeAll(async () => {
    receiver = await openReceiver();
    receiver.answer((socket) => socket.write(json({ id: 'ch_1' })));
    const settings = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_MASTER_KEY: testMasterKey };
    server = await openTestServer(sqlite, settings, undefined, {
      resolve: async () => {
        await meanwhile?.();
        return ['127.0.0.1'];
      },
    });
  });

  interface Setting {
    readonly tenant: { readonly id: string; readonly key: string };
    readonly backend: { readonly id: string; readonly key: string };
    readonly web: { readonly id: string; readonly key: string };
    readonly session: { readonly id: string; readonly key: string };
    manage(method: string, path: string, body?: unknown): Promise<void>;
    sql(text: string): Promise<unknown>;
  }
  type Holder = 'backend' | 'session' | 'web';

  async function newSetting(): Promise<Setting> {
    const tenant = await server.tenant();
    const call = (key: string, method: string, path: string, body?: unknown) =>
      server.call(method, path, { key, body });
    const manage = async (method: string, path: string, body?: unknown) => {
      const { status } = await call(tenant.key, method, path, body);
      expect([method, path, status < 300]).toEqual([method, path, true]);
    };
    const fields = { name: 'payments', origin: receiver.origin, ca: receiver.ca, requests: [chargeRequest] };
    const { body: destination } = await call(tenant.key, 'POST', '/destinations', fields);
    await manage('POST', '/tokens', { id: 'card-1', container: '/cards/', data: { number: '4242' } });
    const rule = { ...tokenUseRule('/', [destination.id]), permissions: ['token:use', 'token:create'] };
    const expires_at = new Date(server.clock.now() + 60_000).toISOString();
    const backend = await server.application(tenant.key, { name: 'backend', rules: [rule], expires_at });
    const permissions = ['token:create'];
    const web = await server.application(tenant.key, {
      name: 'web',
      type: 'public',
      permissions,
      allowed_origins: [origin],
    });
    const opened = await server.call('POST', '/sessions', { key: web.key, headers: { origin } });
    const { container: _, ...granted } = rule;
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/' }];
    const grant = { nonce: opened.body.nonce, rules: [{ ...granted, conditions }] };
    const authorized = await call(backend.key, 'POST', '/sessions/authorize', grant);
    expect(authorized.status).toBe(204);
    const id = authorized.headers.get('svc-session-id') as string;
    const sql = (text: string) => runSql(server.config.databaseUrl, text);
    return { tenant, backend, web, session: { id, key: opened.body.session_key }, manage, sql };
  }

  const change =
    (application: 'backend' | 'web', fields: object) =>
    async ({ manage, ...of }: Setting) => {
      const { id } = of[application];
      await manage('PUT', `/applications/${id}`, {
        name: application,
        permissions: ['token:create'],
        ...fields,
      });
    };

  const refusals: [
    what: string,
    holder: Holder,
    status: number,
    refuse: (of: Setting) => Promise<unknown>,
  ][] = [
    [
      'is revoked',
      'backend',
      401,
      ({ manage, backend }) => manage('POST', '/keys/revoke', { key: backend.key }),
    ],
    [
      'is regenerated',
      'backend',
      401,
      ({ manage, backend }) => manage('POST', `/applications/${backend.id}/regenerate`),
    ],
    ['expires', 'backend', 401, async () => server.clock.advance(60_000)],
    [
      'is of a deleted application',
      'backend',
      401,
      ({ manage, backend }) => manage('DELETE', `/applications/${backend.id}`),
    ],
    [
      'is of a disabled tenant',
      'backend',
      401,
      ({ sql, tenant }) => sql(`update tenants set disabled_at = 1 where id = '${tenant.id}'`),
    ],
    [
      'is put into quarantine',
      'backend',
      403,
      ({ manage, backend }) => manage('POST', `/applications/${backend.id}/quarantine`),
    ],
    ['may not be used from here', 'backend', 403, change('backend', { allowed_networks: ['10.0.0.0/8'] })],
    ['loses its permission', 'backend', 403, change('backend', { permissions: ['token:read'] })],
    [
      'may not state this purpose',
      'backend',
      400,
      ({ sql, tenant }) => sql(`update tenants set purposes = '["chargeback"]' where id = '${tenant.id}'`),
    ],
    [
      'is of a session that has ended',
      'session',
      401,
      ({ manage, session }) => manage('DELETE', `/sessions/${session.id}`),
    ],
    [
      'is of a session whose authorizer is revoked',
      'session',
      401,
      ({ manage, backend }) => manage('POST', '/keys/revoke', { key: backend.key }),
    ],
    [
      'is of a session whose authorizer loses a permission',
      'session',
      403,
      change('backend', { permissions: ['token:read'] }),
    ],
    [
      'is of a session whose authorizer is in quarantine',
      'session',
      403,
      ({ manage, backend }) => manage('POST', `/applications/${backend.id}/quarantine`),
    ],
    [
      'is of a session whose application is in quarantine',
      'session',
      403,
      ({ manage, web }) => manage('POST', `/applications/${web.id}/quarantine`),
    ],
    [
      'is of a session whose application is deleted',
      'session',
      401,
      ({ manage, web }) => manage('DELETE', `/applications/${web.id}`),
    ],
    [
      'may not be used by this origin',
      'session',
      403,
      change('web', { allowed_origins: ['https://other.example'] }),
    ],
    [
      'may not be used by this page',
      'web',
      403,
      change('web', { allowed_origins: ['https://other.example'] }),
    ],
    [
      'is of a public application that loses its permission',
      'web',
      403,
      change('web', { permissions: ['decision:create'], allowed_origins: [origin] }),
    ],
  ];

  const headersOf = (key: string) => ({ 'SVC-API-KEY': key, Origin: origin, ...purpose });
  const answerOf = ({
    status,
    body: { code, detail, errors },
  }: {
    status: number;
    body: Record<string, unknown>;
  }) => ({
    status,
    code,
    detail,
    errors,
  });
  const send = async (key: string, path: string, body: object) => {
    const response = await fetch(server.url + path, {
      method: 'POST',
      headers: { ...headersOf(key), 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const charge = (key: string) =>
    send(key, '/proxy/payments/v1/charges/7', { card: { number: '{{ token: card-1 }}' } });
  const create = (key: string) => send(key, '/tokens', { data: 'x' });

  /** Sends the headers of `POST /tokens`, calls `refuse` after they were handled, and then sends the body. */
  async function createLate(key: string, refuse: () => Promise<unknown>) {
    const { hostname, port } = new URL(server.url);
    const body = JSON.stringify({ data: 'x' });
    const headers = {
      ...headersOf(key),
      Host: 'localhost',
      Connection: 'close',
      'Content-Type': 'application/json',
    };
    const lines = Object.entries({ ...headers, 'Content-Length': body.length }).map((pair) =>
      pair.join(': '),
    );
    const socket = connect(Number(port), hostname);
    let received = '';
    socket.on('data', (chunk) => (received += chunk.toString()));
    const closed = new Promise((resolve) => socket.on('close', resolve));
    socket.write(`POST /tokens HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
    for (let turn = 0; turn < 3; turn++) await server.call('GET', '/livez');
    await refuse();
    socket.write(body);
    await closed;
    const [head = '', text = ''] = received.split('\r\n\r\n');
    return { status: Number(head.split(' ')[1]), body: JSON.parse(text) };
  }

  test.each(refusals)(
    'while its key %s (%s) gets %d, for a late body and before a use',
    async (_, holder, status, refuse) => {
      const before = await newSetting();
      const late = await createLate(before[holder].key, () => refuse(before));
      expect(late.status).toBe(status);
      expect(answerOf(late)).toEqual(answerOf(await create(before[holder].key)));
      if (holder === 'web') return;
      const after = await newSetting();
      let isCalled = false;
      meanwhile = () => {
        meanwhile = undefined;
        isCalled = true;
        return refuse(after);
      };
      const used = await charge(after[holder].key);
      expect([isCalled, used.status]).toEqual([true, status]);
      expect(answerOf(used)).toEqual(answerOf(await charge(after[holder].key)));
      expect(receiver.received).toEqual([]);
    },
  );

  test('while its key has its access succeeds', async () => {
    const setting = await newSetting();
    for (const holder of ['backend', 'session', 'web'] as const) {
      const { status } = await createLate(setting[holder].key, () => create(setting.web.key));
      expect([holder, status]).toEqual([holder, 201]);
    }
    expect((await charge(setting.session.key)).status).toBe(200);
  });
});
