import { describe, expect, test } from 'bun:test';
import type { Minted } from '../../src/domain/key.ts';
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

  async function opened() {
    const tenant = await on.tenant();
    const application = await on.application(tenant, { type: 'public' });
    return { tenant, application, session: await on.session(tenant, application.id) };
  }
  const find = (key: Minted) => on.store.credentials.find(key);

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
});
