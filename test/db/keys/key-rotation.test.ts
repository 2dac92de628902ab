import { beforeEach, describe, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { newMasterKey, parseMasterKeys } from '../../../src/db/keys/cipher.ts';
import type { Rotation } from '../../../src/db/keys/key-rotation.ts';
import { JsonText } from '../../../src/domain/json-text.ts';
import { newId } from '../../../src/domain/key.ts';
import type { Store, TokenContent } from '../../../src/store/store.ts';
import { untilBlocked } from '../../support/postgres-locks.ts';
import { databases, postgres, testMasterKey } from '../../support/test-server.ts';
import { masterKeys, openTestStore, type TestStore } from '../../support/test-store.ts';

const text = ({ bytes }: { bytes: Uint8Array }) => Buffer.from(bytes).toString('base64');
const idOf = (key: string) => parseMasterKeys(key)[0]?.id as string;

describe.each(databases)('a rotation of the master key on %s', (_, database) => {
  let on: TestStore;
  const old = testMasterKey;
  let next: string;
  let tenants: string[];

  beforeEach(async () => {
    on = await openTestStore(database);
    next = text(newMasterKey());
    tenants = await Promise.all(Array.from({ length: 60 }, on.tenant));
    for (const tenant of tenants) await on.store.tokens.get(tenant, 'none');
    const entry = { actor: { kind: 'operator' }, operation: 'test', result: 'success', from: {} } as const;
    await on.store.audit.write([{ at: on.clock.now(), ...entry }]);
    await on.maintenance.audit.seal();
    expect(await on.maintenance.audit.heads()).toMatchObject([{ seq: 1 }]);
  });

  const content: TokenContent = {
    type: 'card',
    container: '/a/',
    data: JsonText.of('secret'),
    mask: undefined,
    masked: undefined,
    metadata: undefined,
    expiresAt: undefined,
  };
  const create = (store: Store, tenant: string, id: string) =>
    store.tokens.create(tenant, id, content, { by: newId(1), at: on.clock.now() });
  const read = async (store: Store, tenant: string, id: string) =>
    (await store.tokens.get(tenant, id))?.plaintext().value();

  const to = (key: string, done: Rotation['done'] = () => {}): Rotation => ({
    next: () => masterKeys(key).current(),
    done,
  });
  const mastersInRows = async () => {
    const rows = await on.runSql<{ id: string }>(
      'select id from master_key union select master_id from data_keys union select master_id from audit_key',
    );
    return rows.map(({ id }) => id).sort();
  };

  test('rewraps all data keys and audit keys; the old key no longer opens the database', async () => {
    await create(on.store, tenants[0] as string, 'card-1');
    let inUse: readonly string[] = [];
    const both = await on.open(masterKeys(next, old));
    const rotated = await both.maintenance.rotateMasterKey(
      to(next, (ids) => {
        inUse = ids;
      }),
    );
    expect(rotated).toEqual({ from: idOf(old), to: idOf(next), rewrapped: 61 });
    expect(inUse).toEqual([idOf(next)]);
    expect(await mastersInRows()).toEqual([idOf(next)]);
    await expect(on.openNode(masterKeys(old))).rejects.toThrow(
      `the database needs the master key ${idOf(next)}`,
    );
    const after = await on.open(masterKeys(next));
    expect(await read(after.store, tenants[0] as string, 'card-1')).toBe('secret');
    expect(await after.maintenance.audit.seal()).toBe(0);
  });

  test('does not affect nodes that hold both keys, and tokens and tenants can be created concurrently', async () => {
    const [reader, writer, both] = await Promise.all([
      on.openNode(masterKeys(next, old)),
      on.openNode(masterKeys(next, old)),
      on.open(masterKeys(next, old)),
    ]);
    let running = true;
    const made: [tenant: string, id: string][] = [];
    const load = async (lane: number) => {
      for (let count = 0; running || count < 10; count++) {
        const tenant = count % 3 === 0 ? await on.tenant() : (tenants[(lane * 7 + count) % 60] as string);
        const id = `card-${lane}-${count}`;
        await create(writer, tenant, id);
        expect(await read(reader, tenant, id)).toBe('secret');
        made.push([tenant, id]);
      }
    };
    const loads = Promise.all([0, 1, 2, 3].map(load));
    const rotated = await both.maintenance.rotateMasterKey(to(next));
    running = false;
    await loads;
    expect(rotated.rewrapped).toBeGreaterThanOrEqual(61);
    expect(await mastersInRows()).toEqual([idOf(next)]);
    const after = await on.openNode(masterKeys(next));
    for (const [tenant, id] of made) expect(await read(after, tenant, id)).toBe('secret');
  });

  test('on another node refuses changes of a new tenant as unavailable, and of a deleted one as unauthenticated', async () => {
    const both = await on.open(masterKeys(next, old));
    await both.maintenance.rotateMasterKey(to(next));
    const tenant = await on.tenant();
    const change = () =>
      on.store.change(tenant, async (tx) =>
        tx.record({
          tenantId: tenant,
          at: on.clock.now(),
          actor: { kind: 'operator' },
          operation: 'test',
          result: 'success',
          from: {},
        }),
      );
    await expect(change()).rejects.toMatchObject({ code: 'unavailable' });
    await on.maintenance.tenants.markDeleted(tenant);
    await expect(change()).rejects.toMatchObject({ code: 'unauthenticated' });
  });

  test('that fails halfway leaves everything readable with both keys, and the next rotation finishes it', async () => {
    await create(on.store, tenants[0] as string, 'card-1');
    const broken = tenants.at(-1) as string;
    const [row] = await on.runSql<{ wrapped: Uint8Array }>(
      `select wrapped from data_keys where tenant_id = '${broken}'`,
    );
    const set = (bytes: Uint8Array) => {
      const hex = Buffer.from(bytes).toString('hex');
      const literal = database.name === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'`;
      return on.runSql(`update data_keys set wrapped = ${literal} where tenant_id = '${broken}'`);
    };
    await set(new Uint8Array(60));
    const both = await on.open(masterKeys(next, old));
    await expect(both.maintenance.rotateMasterKey(to(next))).rejects.toThrow(
      `the data key ${broken} cannot be unwrapped`,
    );
    expect(await mastersInRows()).toEqual([idOf(old), idOf(next)].sort());
    await set(row?.wrapped as Uint8Array);

    await expect(on.openNode(masterKeys(old))).rejects.toThrow('the database needs the master key');
    await expect(on.openNode(masterKeys(next))).rejects.toThrow(
      `a rotation of the master key is not finished and needs the old key ${idOf(old)}`,
    );
    const still = await on.open(masterKeys(next, old));
    for (const tenant of tenants) await still.store.tokens.get(tenant, 'none');
    expect(await read(still.store, tenants[0] as string, 'card-1')).toBe('secret');

    const rest = await still.maintenance.rotateMasterKey(to(next));
    expect(rest).toMatchObject({ from: idOf(next), to: idOf(next) });
    expect(rest.rewrapped).toBeGreaterThan(0);
    expect(await mastersInRows()).toEqual([idOf(next)]);
  });

  test('can run concurrently with another: both finish, and neither drops a key that is in use', async () => {
    const other = text(newMasterKey());
    const [one, two] = await Promise.all([
      on.open(masterKeys(next, other, old)),
      on.open(masterKeys(other, next, old)),
    ]);
    // Only one rotation at a time calls these functions.
    let current = '';
    const dropped: boolean[] = [];
    const keeping = (key: string) => {
      const rotation = to(key, (ids) => dropped.push(!ids.includes(current)));
      const next = (before: string) => {
        const made = rotation.next(before);
        current = made.id;
        return made;
      };
      return { ...rotation, next };
    };
    await Promise.all([
      one.maintenance.rotateMasterKey(keeping(next)),
      two.maintenance.rotateMasterKey(keeping(other)),
    ]);
    expect(await mastersInRows()).toEqual([current]);
    expect(dropped).toEqual([false, false]);
  });
});

describe('a rotation of the master key on PostgreSQL while a node creates a data key', () => {
  test('waits, and rewraps the new data key', async () => {
    const on = await openTestStore(postgres);
    const next = text(newMasterKey());
    const [maker, both] = [
      await on.openNode(masterKeys(testMasterKey, next)),
      await on.open(masterKeys(next, testMasterKey)),
    ];
    const tenant = await on.tenant();
    const holder = new SQL(on.url, { max: 1 });
    let work: Promise<unknown>[] = [];
    await holder.begin(async (tx) => {
      await tx`lock table data_keys in exclusive mode`;
      const making = Promise.resolve(maker.tokens.get(tenant, 'none'));
      await untilBlocked(on.url);
      const rotation = { next: () => masterKeys(next).current(), done: () => {} };
      work = [making, both.maintenance.rotateMasterKey(rotation)];
      await untilBlocked(on.url, 2);
    });
    await Promise.all(work);
    const rows = await on.runSql<{ master_id: string }>('select master_id from data_keys');
    expect(rows).toEqual([{ master_id: idOf(next) }]);
    await holder.close();
  });
});
