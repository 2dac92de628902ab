/** Rules that require a purpose, `transform` of reads, and the purposes that a tenant accepts. */
import { describe, expect, test } from 'bun:test';
import { databases, openTestServer } from '../../support/test-server.ts';

const data = { number: '4242424242424242' };
const masked = { number: 'XXXXXXXXXXXX4242' };
const mask = { number: '{{ data.number | reveal_last: 4 }}' };
const all = ['token:read', 'token:create', 'token:update', 'decision:create'];
const chargeback = { 'SVC-PURPOSE': 'chargeback 4711' };

describe.each(databases)('purposes on %s', async (_, database) => {
  const server = await openTestServer(database);
  const tenant: { id: string; key: string } = await server.tenant();
  for (const id of ['card-1', 'card-2'])
    await server.call('POST', '/tokens', {
      key: tenant.key,
      body: { id, container: '/cards/', data, mask },
    });

  const rule = (container: string, fields: object = { transform: 'reveal', require_purpose: true }) => ({
    priority: 1,
    container,
    permissions: all,
    ...fields,
  });
  const application = (...rules: object[]) => server.application(tenant.key, { permissions: [], rules });

  async function session(by: string, ...rules: object[]): Promise<string> {
    const web = await server.application(tenant.key, { type: 'public' });
    const { session_key, nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
    const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/cards/' }];
    const body = {
      nonce,
      rules: rules.map((one) => ({ priority: 1, permissions: all, conditions, ...one })),
    };
    expect((await server.call('POST', '/sessions/authorize', { key: by, body })).status).toBe(204);
    return session_key;
  }

  /** The data of one token, without a purpose and with one. */
  const seen = async (key: string, query = '') => {
    const get = async (headers: Record<string, string> = {}) =>
      (await server.call('GET', `/tokens/card-1${query}`, { key, headers })).body.data;
    return [await get(), await get(chargeback)];
  };

  test('a rule that requires a purpose decides, and masks the data of a request that states none', async () => {
    const desk = await application(rule('/cards/'), rule('/', { transform: 'reveal', priority: 2 }));
    expect(await seen(desk.key)).toEqual([masked, data]);
    const list = async (headers: Record<string, string>) =>
      (await server.call('GET', '/tokens', { key: desk.key, headers })).body.data.map(
        (token: { data: unknown }) => token.data,
      );
    expect(await list({})).toEqual([masked, masked]);
    expect(await list(chargeback)).toEqual([data, data]);
    for (const blank of ['', '\u00a0']) {
      const headers = { 'SVC-PURPOSE': blank };
      const { status, body } = await server.call('GET', '/tokens/card-1', { key: desk.key, headers });
      expect(blank === '' ? body.data : status).toEqual(blank === '' ? masked : 400);
    }
    await server.flush();
    const logged = await server.call('GET', `/logs?actor=${desk.id}&transform=reveal`, { key: tenant.key });
    const purposes = logged.body.data.map((entry: { purpose?: string }) => entry.purpose);
    expect(purposes).toEqual(['chargeback 4711', 'chargeback 4711']);
  });

  test('the stricter of session and authorizer decides for each request', async () => {
    const [strict, free] = [
      await application(rule('/cards/')),
      await application(rule('/', { transform: 'reveal' })),
    ];
    const purpose = { transform: 'reveal', require_purpose: true };
    expect(await seen(await session(strict.key, { transform: 'reveal' }))).toEqual([masked, data]);
    expect(await seen(await session(free.key, purpose))).toEqual([masked, data]);
    expect(await seen(await session(strict.key, { transform: 'redact' }))).toEqual([undefined, undefined]);
    const masking = await application(rule('/cards/', { transform: 'mask' }));
    expect(await seen(await session(masking.key, purpose))).toEqual([masked, masked]);
  });

  test('transform makes the response of a read stricter, and never less strict', async () => {
    const [reveals, redacts] = [
      await application(rule('/cards/', { transform: 'reveal' })),
      await application(rule('/cards/', { transform: 'redact' })),
    ];
    expect(await seen(reveals.key, '?transform=mask')).toEqual([masked, masked]);
    expect(await seen(reveals.key, '?transform=redact')).toEqual([undefined, undefined]);
    expect(await seen(redacts.key, '?transform=mask')).toEqual([undefined, undefined]);
    const { body } = await server.call('GET', '/tokens?transform=mask', { key: reveals.key });
    expect(body.data.map((token: { data: unknown }) => token.data)).toEqual([masked, masked]);
    await server.flush();
    const logged = await server.call('GET', `/logs?actor=${reveals.id}&transform=reveal`, {
      key: tenant.key,
    });
    expect(logged.body.data).toEqual([]);
    for (const path of ['/tokens?transform=reveal', '/tokens/card-1?transform=reveal', '/tokens/card-1?x=1'])
      expect((await server.call('GET', path, { key: reveals.key })).status).toBe(400);
  });

  test('a change that needs reveal needs the purpose, too', async () => {
    const desk = await application(rule('/cards/'));
    const body = { mask: { number: '{{ data.number | reveal_last: 2 }}' } };
    const patch = (headers: Record<string, string> = {}) =>
      server.call('PATCH', '/tokens/card-2', { key: desk.key, body, headers });
    expect((await patch()).body.code).toBe('reveal_required');
    const changed = await patch(chargeback);
    expect([changed.status, changed.body.data]).toEqual([200, data]);
  });

  test('a token cannot be moved to where its data is revealed with a purpose, or without one', async () => {
    const move = async (key: string, from: string, headers: Record<string, string> = {}) => {
      const created = { container: from, data, mask };
      const { id } = (await server.call('POST', '/tokens', { key: tenant.key, body: created })).body;
      const body = { container: '/there/' };
      return (await server.call('PATCH', `/tokens/${id}`, { key, body, headers })).status;
    };
    const here = (transform: string) => rule('/here/', { transform });
    const masking = await application(here('mask'), rule('/there/'));
    expect([await move(masking.key, '/here/'), await move(masking.key, '/here/', chargeback)]).toEqual([
      403, 403,
    ]);
    const purpose = await application(rule('/here/'), rule('/there/', { transform: 'reveal' }));
    expect([await move(purpose.key, '/here/'), await move(purpose.key, '/here/', chargeback)]).toEqual([
      403, 200,
    ]);
    const same = await application(rule('/here/'), rule('/there/'));
    expect(await move(same.key, '/here/')).toBe(200);
  });

  test('a retry without the purpose does not repeat the plaintext', async () => {
    const desk = await application(rule('/cards/'));
    const create = async (headers: Record<string, string>) =>
      server.call('POST', '/tokens', {
        key: desk.key,
        body: { container: '/cards/x/', data, mask },
        headers: { 'Idempotency-Key': 'once', ...headers },
      });
    expect((await create(chargeback)).body.data).toEqual(data);
    expect((await create({})).body.data).toEqual(masked);
  });

  test('a decision takes the purpose from its body, never from the header of the asker', async () => {
    const desk = await application(rule('/cards/'));
    const own = await session(desk.key, { transform: 'reveal' });
    const decide = async (key: string, credential: string, purpose?: string) => {
      const body = { credential, permission: 'token:read', resource: { container: '/cards/' }, purpose };
      return (await server.call('POST', '/decisions', { key, body, headers: chargeback })).body;
    };
    for (const [asker, credential] of [
      [tenant.key, desk.key],
      [own, own],
    ] as const) {
      expect(await decide(asker, credential)).toMatchObject({ transform: 'mask' });
      expect(await decide(asker, credential, 'support')).toMatchObject({ transform: 'reveal' });
    }
    expect((await decide(tenant.key, desk.key)).reason).toBe(
      'rule 1 grants token:read with the transform mask, or reveal with a purpose: container is /cards/',
    );
  });

  test('AuthZEN takes the purpose from the context', async () => {
    const desk = await application(rule('/cards/'));
    const evaluation = {
      subject: { type: 'application', id: desk.id },
      action: { name: 'read' },
      resource: { type: 'token', id: 'card-1' },
    };
    const evaluate = (body: object, path = 'evaluation') =>
      server.call('POST', `/access/v1/${path}`, { key: tenant.key, body, headers: chargeback });
    const transforms = [{}, { purpose: 'support' }].map(
      async (context) => (await evaluate({ ...evaluation, context })).body.context.transform,
    );
    expect(await Promise.all(transforms)).toEqual(['mask', 'reveal']);
    const batch = {
      ...evaluation,
      context: { purpose: 'x' },
      evaluations: [{}, { context: {} }, { context: { purpose: 7 } }],
    };
    const { evaluations } = (await evaluate(batch, 'evaluations')).body;
    expect(evaluations.map((one: { context: { transform?: string } }) => one.context.transform)).toEqual([
      'reveal',
      'mask',
      undefined,
    ]);
    expect((await evaluate({ ...evaluation, context: { purpose: '' } })).status).toBe(400);
  });

  test('a recorded decision has the purpose of its body', async () => {
    const desk = await application(rule('/cards/'));
    for (const container of ['/cards/', '/elsewhere/']) {
      const question = { credential: desk.key, permission: 'token:read', resource: { container } };
      const body = { ...question, purpose: 'support 12', record: true };
      await server.call('POST', '/decisions', { key: tenant.key, body, headers: chargeback });
    }
    await server.flush();
    const { body } = await server.call('GET', `/logs?actor=${desk.id}&purpose=support%2012`, {
      key: tenant.key,
    });
    const results = body.data.map(({ result }: { result: string }) => result);
    expect(results.toSorted()).toEqual(['denied', 'success']);
  });

  test('an access review shows reveal with require_purpose', async () => {
    const [strict, free] = [
      await application(rule('/who/')),
      await application(rule('/who/', { transform: 'reveal' })),
    ];
    const { data: entries, totals } = (
      await server.call('GET', '/access/who?container=/who/', { key: tenant.key })
    ).body;
    const shown = (id: string) => {
      const { transform, require_purpose } = entries.find(
        (entry: { subject: { id: string } }) => entry.subject.id === id,
      );
      return [transform, require_purpose];
    };
    expect([shown(strict.id), shown(free.id)]).toEqual([
      ['reveal', true],
      ['reveal', undefined],
    ]);
    expect(totals.reveal).toBeGreaterThanOrEqual(2);
  });

  test('the impact of an update names reveal with a purpose', async () => {
    const desk = await application(rule('/cards/', { transform: 'reveal' }));
    await seen(desk.key);
    const body = { name: 'desk', rules: [rule('/cards/')] };
    const path = `/applications/${desk.id}?dry_run=true`;
    const { changes, reads } = (await server.call('PUT', path, { key: tenant.key, body })).body;
    const changed = { permission: 'token:read', from: 'reveal', to: 'reveal_with_purpose' };
    expect(changes).toContainEqual({ ...changed, container: '/cards/' });
    expect(reads.data).toEqual([
      { permission: 'token:read', from: 'reveal', to: 'mask', count: 1, applications: 1 },
    ]);
  });

  test('require_purpose is only for reveal', async () => {
    const create = (fields: object) =>
      server.call('POST', '/applications', {
        key: tenant.key,
        body: { name: 'x', type: 'private', rules: [rule('/cards/', fields)] },
      });
    for (const transform of ['mask', 'redact']) {
      const { status, body } = await create({ transform, require_purpose: true });
      expect([status, Object.keys(body.errors)]).toEqual([400, ['rules.0.require_purpose']]);
      expect((await create({ transform, require_purpose: false })).status).toBe(201);
    }
    expect((await create({ transform: 'reveal', require_purpose: null })).body.rules[0]).not.toHaveProperty(
      'require_purpose',
    );
    expect((await create({ transform: 'reveal', require_purpose: true })).body.rules[0].require_purpose).toBe(
      true,
    );
  });

  test('a tenant that lists its purposes accepts only these, with or without a reference', async () => {
    const { id, key } = await server.tenant();
    const { tenants } = server.app.maintenance;
    await tenants.setPurposes(id, ['chargeback', 'support']);
    const self = (purpose: string, by = key) =>
      server.call('GET', '/tenants/self', { key: by, headers: { 'SVC-PURPOSE': purpose } });
    for (const purpose of ['chargeback', 'chargeback 4711', 'support:12', ''])
      expect([purpose, (await self(purpose)).status]).toEqual([purpose, 200]);
    for (const purpose of ['chargebacks', 'charge', 'Support', '4711 support'])
      expect([purpose, (await self(purpose)).body.errors]).toEqual([
        purpose,
        {
          'svc-purpose': [
            'must be one of chargeback, support, which may be followed by a space and a reference',
          ],
        },
      ]);
    expect((await self('support')).body.purposes).toEqual(['chargeback', 'support']);
    expect((await self('anything', tenant.key)).status).toBe(200);
    const decision = { credential: key, permission: 'token:read', purpose: 'curiosity' };
    const asked = await server.call('POST', '/decisions', { key, body: decision });
    expect([asked.status, Object.keys(asked.body.errors)]).toEqual([400, ['purpose']]);
    const evaluation = {
      subject: { type: 'application', id },
      action: { name: 'read' },
      resource: { type: 'token', id: 'x' },
      context: { purpose: 'curiosity' },
    };
    expect((await server.call('POST', '/access/v1/evaluation', { key, body: evaluation })).status).toBe(400);
    const batch = { ...evaluation, evaluations: [{}] };
    const answer = await server.call('POST', '/access/v1/evaluations', { key, body: batch });
    expect(answer.body.evaluations[0].context.error.message).toStartWith('context.purpose must be one of');
    await tenants.setPurposes(id, undefined);
    expect((await self('anything')).status).toBe(200);
  });
});
