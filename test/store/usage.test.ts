import { describe, expect, test } from 'bun:test';
import { maxUses } from '../../src/domain/usage.ts';
import type { ApplicationUse } from '../../src/store/store.ts';
import { maxContainers, usage } from '../../src/store/usage.ts';
import { duringTransaction, untilBlocked } from '../support/postgres-locks.ts';
import { recorder } from '../support/statement-recorder.ts';
import { databases, postgres } from '../support/test-server.ts';
import { openTestStore } from '../support/test-store.ts';

const day = 86_400_000;
const moment = (at: number) => new Date(at).toISOString();

describe.each(databases)('the store on %s: usage', async (_, database) => {
  const on = await openTestStore(database);

  interface Made {
    readonly tenant: string;
    readonly id: string;
    readonly key: string;
  }

  async function made(): Promise<Made> {
    const tenant = await on.tenant();
    const { id } = await on.application(tenant);
    const [key] = await on.store.keys.list(tenant, id);
    return { tenant, id, key: key!.id };
  }

  function use({ tenant, id, key }: Made, at: number, ...containers: string[]): ApplicationUse {
    const places = new Map(containers.map((container) => [container, at]));
    return {
      tenantId: tenant,
      applicationId: id,
      at,
      keys: new Map([[key, { at, days: new Map([[Math.floor(at / day), 1]]) }]]),
      permissions: new Map(containers.length > 0 ? [['token:read', places]] : []),
    };
  }

  const seen = async ({ tenant, id }: Made) => ({
    application: (await on.store.applications.get(tenant, id))?.last_used_at,
    key: (await on.store.keys.list(tenant, id))[0]?.last_used_at,
    places: (await on.store.usage.list(tenant, id)).map(
      ({ permission, container, last_used_at }) => `${permission} ${container} ${last_used_at}`,
    ),
  });

  test('empty before the first write', async () => {
    expect(await seen(await made())).toEqual({ application: undefined, key: undefined, places: [] });
  });

  test('the latest time wins, in any order of nodes', async () => {
    const [it, node] = [await made(), await on.openNode()];
    await on.store.usage.write([use(it, 3000, '/a/')]);
    await node.usage.write([use(it, 2000, '/a/', '/b/')]);
    expect(await seen(it)).toEqual({
      application: moment(3000),
      key: moment(3000),
      places: [`token:read /a/ ${moment(3000)}`, `token:read /b/ ${moment(2000)}`],
    });
    await node.usage.write([use(it, 4000, '/b/')]);
    expect((await seen(it)).places).toEqual([
      `token:read /b/ ${moment(4000)}`,
      `token:read /a/ ${moment(3000)}`,
    ]);
  });

  test('uses of an application are written in five statements, each about one table', async () => {
    const [it, statements] = [await made(), recorder()];
    const { write } = usage(statements.through(on.db));
    await write([use(it, 1000, '/a/', '/b/')]);
    statements.take();
    await write([use(it, 2000, '/a/')]);
    const tables = statements.take().map(({ sql }) => /(?:from|into|update) (\w+)/.exec(sql)?.[1]);
    const [keys, uses] = ['application_keys', 'application_uses'];
    expect(tables.toSorted()).toEqual([keys, keys, uses, uses, 'applications']);
    expect((await seen(it)).places).toEqual([
      `token:read /a/ ${moment(2000)}`,
      `token:read /b/ ${moment(1000)}`,
    ]);
  });

  test('requests of a key by day add up over nodes, are stored for 30 days, and are only of its tenant', async () => {
    const [it, other, node] = [await made(), await made(), await on.openNode()];
    const days = async (now: number, tenant = it.tenant) =>
      (await on.store.usage.keys(tenant, it.id, now)).map(({ id, days }) => ({ id, days }));
    expect(await days(0)).toEqual([{ id: it.key, days: [] }]);
    await Promise.all([on.store.usage.write([use(it, 1000)]), node.usage.write([use(it, 2000)])]);
    await node.usage.write([use(it, day)]);
    const [first, second] = [
      { date: '1970-01-01', requests: 2 },
      { date: '1970-01-02', requests: 1 },
    ];
    expect(await days(30 * day - 1)).toEqual([{ id: it.key, days: [first, second] }]);
    expect(await days(30 * day)).toEqual([{ id: it.key, days: [second] }]);
    expect(await days(0, other.tenant)).toEqual([]);
    for (let number = 2; number < 40; number++) await node.usage.write([use(it, number * day)]);
    const [stored] = await on.runSql<{ daily_requests: string }>(
      `select daily_requests from application_keys where id = '${it.key}'`,
    );
    expect(JSON.parse(stored!.daily_requests)).toHaveLength(30);
    expect((await days(39 * day))[0]!.days.map(({ requests }) => requests)).toEqual(Array(30).fill(1));
  });

  test('deleted applications and keys are skipped, and the rest is written', async () => {
    const [gone, rekeyed, stays] = [await made(), await made(), await made()];
    await on.store.applications.delete(gone.tenant, gone.id);
    const change = { by: rekeyed.id, at: on.clock.now() };
    await on.store.applications.regenerate(rekeyed.tenant, rekeyed.id, change, () =>
      on.mint('pvt', rekeyed.tenant),
    );
    await on.store.usage.write([gone, rekeyed, stays].map((one) => use(one, 1000, '/a/')));
    expect(await on.store.usage.list(gone.tenant, gone.id)).toEqual([]);
    expect(await seen(rekeyed)).toMatchObject({ application: moment(1000), key: undefined });
    expect(await seen(stays)).toMatchObject({ application: moment(1000), key: moment(1000) });
  });

  test('if there are too many containers, neighbours are merged', async () => {
    const it = await made();
    const customers = (from: number) => Array.from({ length: 40 }, (_, at) => `/customers/${from + at}/`);
    await on.store.usage.write([use(it, 1000, '/pci/high/', ...customers(0))]);
    expect((await seen(it)).places).toHaveLength(41);
    await on.store.usage.write([use(it, 2000, ...customers(40))]);
    expect((await seen(it)).places).toEqual([
      `token:read /customers/ ${moment(2000)}`,
      `token:read /pci/high/ ${moment(1000)}`,
    ]);
    for (let round = 2; round < 8; round++) {
      await on.store.usage.write([use(it, round * 1000, ...customers(40 * round))]);
      expect((await seen(it)).places.length).toBeLessThanOrEqual(maxContainers);
    }
  });

  test('the number of uses per application is limited, and the most recent ones stay', async () => {
    const it = await made();
    const names = (round: number, count: number) =>
      Array.from({ length: count }, (_, at) => `invoice:action-${round}-${at}`);
    const write = (at: number, permissions: string[], containers: number) => {
      const places = new Map(Array.from({ length: containers }, (_, n) => [`/a/${n}/`, at]));
      const used = new Map(permissions.map((name) => [name, places]));
      return on.store.usage.write([{ ...use(it, at), permissions: used }]);
    };
    for (let round = 1; round <= 4; round++) {
      await write(round * 1000, names(round, 200), 20);
      const listed = await on.store.usage.list(it.tenant, it.id);
      expect(listed.length).toBeLessThanOrEqual(maxUses);
      const kept = new Set(listed.map(({ permission }) => permission));
      for (const name of names(round, 200)) expect(kept).toContain(name);
    }
    const rows = await on.runSql(`select 1 from application_uses where application_id = '${it.id}'`);
    expect(rows.length).toBeLessThanOrEqual(maxUses);
  });

  test('uses are deleted with the application, and other tenants do not see them', async () => {
    const [it, other] = [await made(), await made()];
    await on.store.usage.write([use(it, 1000, '/a/')]);
    expect(await on.store.usage.list(other.tenant, it.id)).toEqual([]);
    await on.store.applications.delete(it.tenant, it.id);
    await on.maintenance.sweep(10);
    expect(await on.runSql(`select 1 from application_uses where application_id = '${it.id}'`)).toEqual([]);
  });

  test('concurrent writes and key changes on several nodes do not deadlock', async () => {
    const tenant = await on.tenant();
    const nodes = [on.store, await on.openNode(), await on.openNode()];
    const all: Made[] = [];
    for (let index = 0; index < 10; index++) {
      const { id } = await on.application(tenant);
      const [key] = await on.store.keys.list(tenant, id);
      all.push({ tenant, id, key: key!.id });
    }
    const change = { by: tenant, at: on.clock.now() };
    for (let round = 1; round <= 5; round++) {
      const batch = all.map((one) => use(one, round * 1000, '/a/', '/b/'));
      await Promise.all([
        ...nodes.map((node) => node.usage.write(batch)),
        ...all
          .slice(0, 5)
          .map(({ id }) => on.store.keys.create(tenant, id, change, () => on.mint('pvt', tenant))),
        ...all
          .slice(5, 8)
          .map(({ id }) =>
            on.store.applications.regenerate(tenant, id, change, () => on.mint('pvt', tenant)),
          ),
      ]);
    }
    await on.store.applications.delete(tenant, all[9]!.id);
    for (const one of all.slice(0, 5)) expect((await seen(one)).application).toBe(moment(5000));
  });
});

test('on PostgreSQL, a concurrent earlier time does not overwrite a later one', async () => {
  const on = await openTestStore(postgres);
  const tenantId = await on.tenant();
  const { id: applicationId } = await on.application(tenantId);
  const later = `update applications set last_used_at = 3000 where id = '${applicationId}'`;
  const { writing } = await duringTransaction(on.url, later, async () => {
    const use = { tenantId, applicationId, at: 2000, keys: new Map(), permissions: new Map() };
    const writing = on.store.usage.write([use]);
    await untilBlocked(on.url);
    return { writing };
  });
  await writing;
  expect(await on.store.applications.get(tenantId, applicationId)).toMatchObject({
    last_used_at: moment(3000),
  });
});
