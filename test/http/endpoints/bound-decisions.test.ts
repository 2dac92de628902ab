import { describe, expect, test } from 'bun:test';
import { type BoundClient, openBound } from '../../support/bound-client.ts';
import { auditEntries } from '../../support/database.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const url = 'https://shop.example/invoices/42';

describe.each(databases)('decisions about bound sessions on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_SESSION_TTL: '100000' });
  const key = (await server.tenant()).key;
  const otherBackend = (await server.application(key, { permissions: ['decision:create'] })).key;
  const web = await server.application(key, { type: 'public' });
  const permissions = ['invoice:read', 'decision:create'];
  const client: BoundClient = await openBound(server, web.key, { key, permissions });

  /** The field `proof` of a decision: the client has sent a request with this proof to a backend at `url`. */
  const presented = (changes: object = {}, proof: object = {}) => ({
    jwt: client.proof('GET', '', { url, ...proof }),
    method: 'GET',
    url: `${url}?page=2`,
    ...changes,
  });

  /** Asks `POST /decisions` and AuthZEN, each with a new proof. Both must give the same decision. */
  async function ask(proof: () => object | undefined, as = key) {
    const body = { credential: client.key, permission: 'invoice:read', proof: proof() };
    const decision = (await server.call('POST', '/decisions', { key: as, body })).body;
    const properties = { credential: client.key, proof: proof() };
    const evaluation = {
      subject: { type: 'session', id: 'ignored', properties },
      action: { name: 'read' },
      resource: { type: 'invoice', id: '42' },
    };
    const evaluated = await server.call('POST', '/access/v1/evaluation', { key: as, body: evaluation });
    const { context } = evaluated.body;
    expect(evaluated.body.decision).toBe(decision.allowed);
    expect(context.dpop?.error).toBe(decision.dpop?.error);
    expect(context.reason).toBe(decision.reason);
    return decision;
  }

  test('a proof for the URL of the backend allows the session', async () => {
    const decision = await ask(() => presented());
    expect(decision).toMatchObject({ allowed: true, principal: { kind: 'session' } });
    expect(decision.dpop).toBeUndefined();
  });

  test.each<[string, string, object, object]>([
    ['for another URL', 'is for another URL', { url: 'https://evil.example/invoices/42' }, {}],
    ['for another method', 'is for another method', { method: 'POST' }, {}],
    ['for another session key', 'is for another session key', {}, { key: 'slp_ses_x' }],
    ['that is no JWT', 'is not one JWT', { jwt: 'x' }, {}],
  ])('a proof %s is denied', async (_, reason, changes, proof) => {
    const decision = await ask(() => presented(changes, proof));
    expect(decision).toEqual({
      allowed: false,
      reason: `the session is bound, and the DPoP proof ${reason}`,
      dpop: { nonce: expect.any(String), error: 'invalid_dpop_proof' },
    });
  });

  test('without a proof, the key is denied', async () => {
    expect(await ask(() => undefined)).toMatchObject({
      allowed: false,
      dpop: { error: 'invalid_dpop_proof' },
    });
  });

  test('a proof without a nonce is denied with the nonce for the next one', async () => {
    const { allowed, dpop } = await ask(() => presented({}, { nonce: undefined }));
    expect([allowed, dpop.error]).toEqual([false, 'use_dpop_nonce']);
    expect((await ask(() => presented({}, { nonce: dpop.nonce }))).allowed).toBe(true);
  });

  test('a proof is accepted once, or again for the same request of the same backend', async () => {
    const once = presented();
    const repeated = presented({ request: 'r-1' });
    for (const [proof, as, allowed] of [
      [once, key, true],
      [once, key, false],
      [repeated, key, true],
      [repeated, key, true],
      [{ ...repeated, request: 'r-2' }, key, false],
      [{ ...repeated, request: undefined }, key, false],
      [repeated, otherBackend, false],
    ] as const) {
      const body = { credential: client.key, permission: 'invoice:read', proof };
      expect((await server.call('POST', '/decisions', { key: as, body })).body.allowed).toBe(allowed);
    }
  });

  test('a bound session asks about itself with the proof of the same request', async () => {
    const body = { credential: client.key, permission: 'invoice:read' };
    const own = await client.call('POST', '/decisions', { body });
    expect([own.status, own.body.allowed]).toEqual([200, true]);
    const unproven = await client.call('POST', '/decisions', { body, proof: null });
    expect(unproven.status).toBe(401);
    const evaluation = {
      subject: { type: 'session', id: 'ignored', properties: { credential: client.key } },
      action: { name: 'read' },
      resource: { type: 'invoice', id: '42' },
    };
    const evaluated = await client.call('POST', '/access/v1/evaluation', { body: evaluation });
    expect([evaluated.status, evaluated.body.decision]).toEqual([200, true]);
  });

  test('AuthZEN accepts the key of a bound session in the Authorization header only with a proof', async () => {
    const evaluation = {
      subject: { type: 'session', id: 'ignored', properties: { credential: client.key } },
      action: { name: 'read' },
      resource: { type: 'invoice', id: '42' },
    };
    for (const scheme of ['Bearer', 'DPoP'])
      for (const [proof, status] of [
        [{}, 200],
        [null, 401],
      ] as const) {
        const headers = { Authorization: `${scheme} ${client.key}` };
        const asked = { key: undefined, headers, proof, body: evaluation };
        expect((await client.call('POST', '/access/v1/evaluation', asked)).status).toBe(status);
      }
  });

  test('refused proofs are in the audit log with the session, the backend and the reason', async () => {
    const { id, key: backend } = await server.application(key, { permissions: ['decision:create'] });
    for (const url of ['https://evil.example/', 'https://evil.example/2'])
      await ask(() => presented({ url }), backend);
    await ask(() => undefined, backend);
    await ask(() => presented({}, { nonce: undefined }), backend);
    const { id: session } = (await ask(() => presented(), backend)).principal;
    await server.flush();
    const entries = (await auditEntries(server.config.databaseUrl)).filter(
      ({ reported_by }) => reported_by === id,
    );
    expect(entries.map(({ decision, count = 1 }) => [decision?.reason, count])).toEqual([
      ['the DPoP proof is for another URL', 4],
      ['the DPoP proof is missing', 2],
    ]);
    for (const entry of entries)
      expect(entry).toMatchObject({
        actor: { kind: 'session', id: session },
        operation: 'decision.create',
        result: 'denied',
        reason: 'unauthenticated',
        request_id: expect.any(String),
      });
    expect(JSON.stringify(entries)).not.toContain('evil.example');
  });

  test('evaluations of one batch share a proof', async () => {
    const body = {
      subject: { type: 'session', id: 'x', properties: { credential: client.key, proof: presented() } },
      action: { name: 'read' },
      evaluations: ['1', '2', '3'].map((id) => ({ resource: { type: 'invoice', id } })),
    };
    const { evaluations } = (await server.call('POST', '/access/v1/evaluations', { key, body })).body;
    expect(evaluations.map(({ decision }: { decision: boolean }) => decision)).toEqual([true, true, true]);
  });

  test('an allowed decision has a new nonce when the one of the proof gets old', async () => {
    server.clock.advance(60_001);
    const decision = await ask(() => presented());
    expect([decision.allowed, decision.dpop]).toEqual([true, { nonce: expect.any(String) }]);
  });
});
