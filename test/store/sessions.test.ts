import { describe, expect, test } from 'bun:test';
import type { Minted } from '../../src/domain/key.ts';
import { Rule } from '../../src/domain/rule.ts';
import type { Authorization } from '../../src/store/store.ts';
import { databases } from '../support/test-server.ts';
import { grants, newSession, openTestStore } from '../support/test-store.ts';

const someone = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const week = 604_800_000;

function authorization(fields: Partial<Authorization> = {}): Authorization {
  return { ...grants, by: someone, ceiling: undefined, expiresAt: undefined, maxLifetime: week, ...fields };
}

describe.each(databases)('the store on %s: sessions', async (_, database) => {
  const on = await openTestStore(database, 8);

  async function opened(fields: { expiresAt?: number } = {}) {
    const tenant = await on.tenant();
    const application = await on.application(tenant, { type: 'public', ...fields });
    return { tenant, application, session: await on.session(tenant, application.id) };
  }
  const find = (key: Minted) => on.store.credentials.find(key);

  test('a new session is known to every node and has no permissions', async () => {
    const { tenant, application, session } = await opened();
    const node = await on.openNode();
    const found = await node.credentials.find(session.key);
    expect(found?.policy.grants).toEqual({ permissions: [], rules: [] });
    expect(found).toEqual({
      kind: 'session',
      tenantId: tenant,
      tenantTag: session.key.tag,
      applicationId: application.id,
      sessionId: session.id,
      authorizedBy: undefined,
      isLimited: false,
      policy: expect.anything(),
      ceiling: undefined,
      authority: undefined,
      origins: undefined,
      digest: session.key.digest,
      now: on.clock.now(),
    });
  });

  test('a bound session has its thumbprint before and after it is authorized, on every node', async () => {
    const { tenant, application } = await opened();
    const session = await on.session(tenant, application.id, { jkt: 'a thumbprint' });
    expect((await find(session.key))?.jkt).toBe('a thumbprint');
    await on.store.sessions.authorize(tenant, session.nonce.digest, authorization());
    const node = await on.openNode();
    for (const { credentials } of [on.store, node])
      expect((await credentials.find(session.key))?.jkt).toBe('a thumbprint');
    const { rows } = await on.store.sessions.list(tenant, {}, { size: 10, page: 1 });
    expect(rows.map(({ id, bound }) => [id === session.id, bound])).toEqual([
      [true, true],
      [false, false],
    ]);
  });

  test('a session is not created for an unknown application or one of another tenant', async () => {
    const { tenant, application } = await opened();
    const fresh = (id: string) =>
      newSession(on.clock.now(), id, on.mint('ses', tenant), on.mint('non', tenant));
    const refused = async (tenant: string, application: string) =>
      expect(on.store.sessions.create(tenant, fresh(application))).rejects.toMatchObject({
        code: 'unauthenticated',
      });
    await refused(tenant, someone);
    await refused(await on.tenant(), application.id);
  });

  test('pending sessions of an application are counted up to a maximum', async () => {
    const { tenant, application, session } = await opened();
    const other = await on.application(tenant, { type: 'public' });
    await on.session(tenant, other.id);
    for (let i = 0; i < 3; i++) await on.session(tenant, application.id);
    await on.session(tenant, application.id, { expiresAt: on.clock.now() });
    const waiting = (most: number) => on.store.sessions.count(tenant, application.id, 'pending', most);
    expect([await waiting(100), await waiting(4), await waiting(2)]).toEqual([4, 4, 2]);
    await on.store.sessions.authorize(tenant, session.nonce.digest, authorization());
    expect(await waiting(100)).toBe(3);
    expect(await on.store.sessions.count(await on.tenant(), application.id, 'pending', 100)).toBe(0);
  });

  test('exactly one of fifty concurrent authorizations of one nonce succeeds', async () => {
    const { tenant, session } = await opened();
    const nodes = [on.store, await on.openNode(), await on.openNode()];
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, async (_, index) => {
        const permissions = [`own:p${index}`];
        const node = nodes[index % nodes.length]!;
        const { outcome } = await node.sessions.authorize(
          tenant,
          session.nonce.digest,
          authorization({ permissions }),
        );
        return { outcome, permissions };
      }),
    );
    const won = outcomes.filter(({ outcome }) => outcome === 'authorized');
    expect(won).toHaveLength(1);
    expect(outcomes.filter(({ outcome }) => outcome === 'used')).toHaveLength(49);
    expect((await find(session.key))?.policy.grants).toEqual({
      permissions: won[0]!.permissions,
      rules: [],
    });
  });

  test('an authorization beside the end of all sessions of its subject ends, too, or comes afterwards', async () => {
    const { tenant, application } = await opened();
    const nodes = [on.store, await on.openNode(), await on.openNode()];
    const [ender, ...authorizers] = nodes as [typeof on.store, ...(typeof on.store)[]];
    const isValid = async (key: Minted) => (await find(key)) !== undefined;
    for (let round = 0; round < 10; round++) {
      const signIn = async (node = on.store) => {
        const session = await on.session(tenant, application.id);
        await node.sessions.authorize(tenant, session.nonce.digest, authorization({ subject: 'user:42' }));
        return session.key;
      };
      const before = await signIn();
      const beside: Minted[][] = authorizers.map(() => []);
      await Promise.all([
        ender.sessions.endAll(tenant, 'user:42'),
        ...authorizers.map(async (node, at) => {
          for (let each = 0; each < 5; each++) beside[at]?.push(await signIn(node));
        }),
      ]);
      const after = await signIn();
      expect([await isValid(before), await isValid(after)]).toEqual([false, true]);
      // Of the sessions that one node authorized one after the other, the first ones ended.
      for (const keys of beside) {
        const valid = await Promise.all(keys.map(isValid));
        expect(valid).toEqual(valid.toSorted());
      }
      // No clock decides which came first.
      on.clock.advance(-1);
      await ender.sessions.endAll(tenant, 'user:42');
      for (const key of [after, ...beside.flat()]) expect(await isValid(key)).toBe(false);
    }
  });

  test('the grants apply to this session only', async () => {
    const { tenant, application, session } = await opened();
    const other = await on.session(tenant, application.id);
    const before = await on.store.applications.get(tenant, application.id);
    const rules = [
      Rule.parse({
        priority: 2,
        conditions: [{ attribute: 'id', operator: 'equals', value: 'ü' }],
        transform: 'reveal',
        permissions: ['token:read'],
      }),
    ];
    await on.store.sessions.authorize(tenant, session.nonce.digest, authorization({ rules }));
    expect((await find(session.key))?.policy.grants).toEqual({ permissions: ['token:read'], rules });
    expect((await find(other.key))?.policy.grants).toEqual({ permissions: [], rules: [] });
    expect(await on.store.applications.get(tenant, application.id)).toEqual(before);
  });

  test('a nonce that is unknown, expired or of another tenant authorizes nothing', async () => {
    const { tenant, session } = await opened();
    const { sessions } = on.store;
    const nonce = session.nonce.digest;
    expect(await sessions.authorize(tenant, on.mint('non', tenant).digest, authorization())).toEqual({
      outcome: 'unknown',
    });
    expect(await sessions.authorize(await on.tenant(), nonce, authorization())).toEqual({
      outcome: 'unknown',
    });
    expect(await sessions.authorize(tenant, session.key.digest, authorization())).toEqual({
      outcome: 'unknown',
    });
    on.clock.advance(179_999);
    expect((await find(session.key))?.policy.grants.permissions).toEqual([]);
    on.clock.advance(1);
    expect(await sessions.authorize(tenant, nonce, authorization())).toEqual({ outcome: 'unknown' });
  });

  test('the nonce of a deleted application is unknown, used or not', async () => {
    const { tenant, application, session } = await opened();
    await on.store.applications.delete(tenant, application.id);
    const nonce = session.nonce.digest;
    expect(await on.store.sessions.authorize(tenant, nonce, authorization())).toEqual({ outcome: 'unknown' });
  });

  test('a session expires to the millisecond, at the time that its authorization set', async () => {
    const now = on.clock.now();
    const { tenant, session, application } = await opened();
    const [shorter, longer] = [
      await on.session(tenant, application.id),
      await on.session(tenant, application.id),
    ];
    const authorize = (nonce: Buffer, expiresAt?: number) =>
      on.store.sessions.authorize(tenant, nonce, authorization({ expiresAt }));
    await authorize(session.nonce.digest);
    await authorize(shorter.nonce.digest, now + 10);
    await authorize(longer.nonce.digest, now + 300_000);
    const alive = async () =>
      (await Promise.all([shorter, session, longer].map(({ key }) => find(key)))).map(Boolean);
    expect(await alive()).toEqual([true, true, true]);
    on.clock.advance(9);
    expect(await alive()).toEqual([true, true, true]);
    on.clock.advance(1);
    expect(await alive()).toEqual([false, true, true]);
    on.clock.advance(180_000 - 11);
    expect(await alive()).toEqual([false, true, true]);
    on.clock.advance(1);
    expect(await alive()).toEqual([false, false, true]);
    on.clock.advance(120_000 - 1);
    expect(await alive()).toEqual([false, false, true]);
    on.clock.advance(1);
    expect(await alive()).toEqual([false, false, false]);
  });

  test('an expiry beyond the longest lifetime is rejected with the latest one, and the nonce stays valid', async () => {
    const now = on.clock.now();
    const { tenant, session } = await opened();
    const authorize = (expiresAt: number) =>
      on.store.sessions.authorize(
        tenant,
        session.nonce.digest,
        authorization({ expiresAt, maxLifetime: 200_000 }),
      );
    expect(await authorize(now + 200_001)).toEqual({ outcome: 'too_long', latest: now + 200_000 });
    expect((await find(session.key))?.policy.grants.permissions).toEqual([]);
    expect(await authorize(now + 200_000)).toMatchObject({ outcome: 'authorized' });
  });

  test('an expiry after that of the application is rejected in the same way', async () => {
    const now = on.clock.now();
    const { tenant, session } = await opened({ expiresAt: now + 190_000 });
    const authorize = (expiresAt: number) =>
      on.store.sessions.authorize(tenant, session.nonce.digest, authorization({ expiresAt }));
    expect(await authorize(now + 190_001)).toEqual({ outcome: 'too_long', latest: now + 190_000 });
    expect(await authorize(now + 190_000)).toMatchObject({ outcome: 'authorized' });
  });

  test('a used nonce is distinguished from one with an expiry that is too late', async () => {
    const { tenant, session } = await opened();
    const nonce = session.nonce.digest;
    await on.store.sessions.authorize(tenant, nonce, authorization());
    const again = authorization({ expiresAt: on.clock.now() + 2 * week });
    expect(await on.store.sessions.authorize(tenant, nonce, again)).toEqual({ outcome: 'used' });
  });
});
