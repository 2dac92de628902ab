import { describe, expect, test } from 'bun:test';
import { auditEntries } from '../../support/database.ts';
import { shell } from '../../support/shell.ts';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

describe.each(databases)('tenants from the command line on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });

  /** Runs a command on the database of the running service. */
  function operate(argv: string[], answers?: string[]) {
    const { databaseUrl, dataDir } = server.config;
    const env = {
      DATABASE_URL: databaseUrl,
      SALLYPORT_DATA_DIR: dataDir,
      SALLYPORT_MASTER_KEY: testMasterKey,
    };
    return shell(argv, { env, ...(answers && { answers }) });
  }

  async function json(...argv: string[]) {
    const { code, out, err } = await operate([...argv, '--json']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    return JSON.parse(out);
  }

  const create = async (name: string): Promise<{ id: string; key: string }> => {
    const { tenant_id: id, key } = await json('tenants', 'create', name);
    return { id, key };
  };
  const status = async (key: string) => (await server.call('GET', '/tenants/self', { key })).status;
  const operations = async (id: string) =>
    (await auditEntries(server.config.databaseUrl)).filter(({ tenant_id }) => tenant_id === id);

  test('tenants key creates another management key, logged as created by the operator', async () => {
    const { id, key: lost } = await create('with keys');
    const created = await json('tenants', 'key', 'with keys');
    expect(created).toMatchObject({ tenant_id: id, application_id: expect.any(String) });
    expect(created.key).not.toBe(lost);
    const { status: answered, body } = await server.call('GET', '/applications/key', { key: created.key });
    expect([answered, body.id, body.type]).toEqual([200, created.application_id, 'management']);
    expect(
      (await server.call('GET', '/applications', { key: created.key })).body.pagination.total_items,
    ).toBe(2);
    expect(await operations(id)).toMatchObject([
      { operation: 'tenant.create' },
      {
        operation: 'application.create',
        actor: { kind: 'operator' },
        entity: { kind: 'application', id: created.application_id },
      },
    ]);
    expect(await operate(['tenants', 'key', 'nobody'])).toMatchObject({ code: 1 });
  });

  test('tenants max-lifetime limits new applications and keys; doctor lists those that exceed it', async () => {
    const { id, key } = await create('limited');
    const { body: management } = await server.call('GET', '/applications/key', { key });
    const doctor = async () => {
      const { checks } = JSON.parse((await operate(['doctor', '--json'])).out);
      return checks.find(({ name }: { name: string }) => name === 'lifetimes');
    };
    expect(await doctor()).toMatchObject({ state: 'ok' });
    expect(await json('tenants', 'max-lifetime', 'limited', '90d')).toMatchObject({
      max_lifetime: 7_776_000,
    });
    const { state, message } = await doctor();
    expect(state).toBe('warn');
    expect(message).toContain(
      `2 applications and keys exceed the maximum lifetime of their tenant: "${management.name}" (${management.id}), key …${key.slice(-4)} of "${management.name}"`,
    );
    const added = await json('tenants', 'key', 'limited');
    const { body } = await server.call('GET', '/applications/key', { key: added.key });
    expect(Date.parse(body.expires_at)).toBe(Date.parse(body.created_at) + 7_776_000_000);
    expect((await doctor()).message).toContain('2 applications and keys');
    await json('tenants', 'max-lifetime', 'limited', 'none');
    await json('tenants', 'max-lifetime', 'limited', 'none');
    expect(await doctor()).toMatchObject({ state: 'ok' });
    expect((await operations(id)).slice(1)).toMatchObject([
      { operation: 'tenant.max_lifetime', difference: { max_lifetime: { to: 7_776_000 } } },
      { operation: 'application.create' },
      { operation: 'tenant.max_lifetime', difference: { max_lifetime: { from: 7_776_000 } } },
    ]);
    for (const wrong of ['0', 'never', '90'])
      expect(await operate(['tenants', 'max-lifetime', 'limited', wrong])).toMatchObject({
        code: 2,
        err: expect.stringContaining('DURATION must be'),
      });
  });

  test('a tenant is created, renamed, disabled and enabled, with an audit entry each', async () => {
    const { id, key } = await create('shop');
    expect(await json('tenants', 'rename', 'shop', 'store')).toMatchObject({ id, name: 'store' });
    expect((await server.call('GET', '/tenants/self', { key })).body.name).toBe('store');
    expect((await json('tenants', 'disable', 'store')).disabled_at).toBeString();
    expect(await status(key)).toBe(401);
    expect(await json('tenants', 'enable', id.toUpperCase())).not.toHaveProperty('disabled_at');
    expect(await status(key)).toBe(200);
    const entries = await operations(id);
    expect(entries.map(({ operation }) => operation)).toEqual([
      'tenant.create',
      'tenant.rename',
      'tenant.disable',
      'tenant.enable',
    ]);
    for (const { actor, entity, result } of entries)
      expect({ actor, entity, result }).toEqual({
        actor: { kind: 'operator' },
        entity: { kind: 'tenant', id },
        result: 'success',
      });
    expect(entries[1]?.difference).toEqual({ name: { from: 'shop', to: 'store' } });
    const { body } = await server.call('GET', '/logs?operation=tenant.disable', { key });
    expect(body.data).toHaveLength(1);
  });

  test('tenants list prints the state', async () => {
    const { id } = await create('listed');
    await operate(['tenants', 'disable', id]);
    const { out } = await operate(['tenants', 'list']);
    const [head, ...rows] = out
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/ {2,}/));
    expect(head).toEqual(['ID', 'CREATED', 'STATE', 'NAME']);
    const states = Object.fromEntries(rows.map(([of, , state, name]) => [name, [of, state]]));
    expect(states).toMatchObject({ default: [expect.any(String), 'active'], listed: [id, 'disabled'] });
  });

  test('disabling or enabling twice adds no audit entry', async () => {
    const { id } = await create('paused');
    const first = await json('tenants', 'disable', id);
    expect(await json('tenants', 'disable', id)).toEqual(first);
    await json('tenants', 'enable', id);
    await json('tenants', 'enable', id);
    expect((await operations(id)).map(({ operation }) => operation)).toEqual([
      'tenant.create',
      'tenant.disable',
      'tenant.enable',
    ]);
  });

  test('tenants purposes limits what requests may state, with an audit entry', async () => {
    const { id, key } = await create('purposeful');
    const limited = await json('tenants', 'purposes', 'purposeful', 'chargeback,support,chargeback');
    expect(limited).toMatchObject({ id, purposes: ['chargeback', 'support'] });
    const status = async (purpose: string) =>
      (await server.call('GET', '/tenants/self', { key, headers: { 'SVC-PURPOSE': purpose } })).status;
    expect([await status('support 12'), await status('curiosity')]).toEqual([200, 400]);
    for (const wrong of ['Chargeback', 'a b', ',', ''])
      expect(await operate(['tenants', 'purposes', 'purposeful', wrong])).toMatchObject({ code: 2 });
    for (let twice = 0; twice < 2; twice++) await json('tenants', 'purposes', 'purposeful', 'any');
    expect(await status('curiosity')).toBe(200);
    const { body } = await server.call('GET', '/logs?operation=tenant.purposes', { key });
    const changes = body.data.map(({ difference }: { difference: object }) => difference);
    const purposes = ['chargeback', 'support'];
    expect(changes).toEqual([{ purposes: { from: purposes } }, { purposes: { to: purposes } }]);
  });

  test('deleting a tenant removes all its rows but the audit log, and none of other tenants', async () => {
    const [shop, other] = [await create('closing'), await create('remaining')];
    for (const { key } of [shop, other]) {
      const web = await server.application(key, { type: 'public' });
      for (let i = 0; i < 3; i++) {
        const { nonce } = (await server.call('POST', '/sessions', { key: web.key })).body;
        const grant = { nonce, permissions: ['mine:x'], subject: 'user:42' };
        if (i === 0) await server.call('POST', '/sessions/authorize', { key, body: grant });
        const body = { data: 'x', container: '/a/b/', metadata: { a: 'b' } };
        await server.call('POST', '/tokens', { key, body, headers: { 'Idempotency-Key': `n${i}` } });
      }
      await server.call('DELETE', '/sessions?subject=user:42', { key });
      await server.call('GET', '/applications', { key });
      const leaked = await server.application(key, { permissions: ['token:read'] });
      await server.call('POST', '/keys/revoke', { body: { key: leaked.key } });
    }
    await server.flush();
    const before = await rowsOf(other.id);
    expect(Object.keys(before)).toEqual(Object.keys(await rowsOf(shop.id)));
    expect(Object.keys(before)).toEqual(
      expect.arrayContaining([
        'application_uses',
        'data_keys',
        'ended_subjects',
        'leaked_keys',
        'request_counts',
        'token_containers',
      ]),
    );

    expect(await json('tenants', 'delete', 'closing', '--yes')).toEqual({ deleted: shop.id });
    expect(await status(shop.key)).toBe(401);
    expect(Object.keys(await rowsOf(shop.id)).sort()).toEqual([
      'audit_chains',
      'audit_index',
      'audit_pending',
      'audit_segments',
    ]);
    expect(await rowsOf(other.id)).toEqual(before);
    expect(await status(other.key)).toBe(200);
    const deletion = (await operations(shop.id)).find(({ operation }) => operation === 'tenant.delete');
    expect(deletion?.actor).toEqual({ kind: 'operator' });
  });

  /** The number of rows of the tenant by table, without empty tables. */
  async function rowsOf(tenant: string): Promise<Record<string, number>> {
    const { databaseUrl } = server.config;
    const tables = await runSql<{ name: string }>(
      databaseUrl,
      databaseUrl.startsWith('sqlite:')
        ? `select m.name from sqlite_schema m join pragma_table_info(m.name) c on c.name = 'tenant_id'
           where m.type = 'table' order by m.name`
        : `select table_name as name from information_schema.columns
           where column_name = 'tenant_id' and table_schema = 'public' and table_name not like '%\\_m_' order by table_name`,
    );
    const counts: Record<string, number> = {};
    for (const { name } of [...tables, { name: 'tenants' }]) {
      const column = name === 'tenants' ? 'id' : 'tenant_id';
      const sql = `select count(*) as count from ${name} where ${column} = '${tenant}'`;
      const count = Number((await runSql<{ count: number }>(databaseUrl, sql))[0]?.count);
      if (count > 0) counts[name] = count;
    }
    return counts;
  }

  test('tenants rotate-search-key indexes the tokens again, with an audit entry, and finishes an interrupted rotation', async () => {
    const { id, key } = await create('shop');
    const rotate = () => json('tenants', 'rotate-search-key', 'shop');
    expect(await rotate()).toEqual({ tenant_id: id, rotated: false, indexed: 0 });
    const body = { id: 'card', data: { number: '42' }, search: { pan: '{{ data.number }}' } };
    await server.call('POST', '/tokens', { key, body });
    const found = async () =>
      (await server.call('POST', '/tokens/search', { key, body: { equals: { pan: '42' } } })).body.data
        .length;
    expect([await rotate(), await found()]).toEqual([{ tenant_id: id, rotated: true, indexed: 1 }, 1]);
    await server.app.maintenance.tenants.rotateSearchKey(id);
    expect([await found(), await rotate(), await found()]).toEqual([
      1,
      { tenant_id: id, rotated: false, indexed: 1 },
      1,
    ]);
    await server.app.maintenance.tenants.rotateSearchKey(id);
    await server.flush();
    expect([await rotate(), await found()]).toEqual([{ tenant_id: id, rotated: true, indexed: 1 }, 1]);
    const entries = (await operations(id)).filter(
      ({ operation }) => operation === 'tenant.rotate_search_key',
    );
    expect(entries).toHaveLength(2);
  });

  test('deleting requires the name to be typed', async () => {
    const { id, key } = await create('typed');
    for (const answers of [[], [''], ['yes'], ['TYPED'], ['default']]) {
      const { code, err } = await operate(['tenants', 'delete', id], answers);
      expect([code, err]).toEqual([
        1,
        expect.stringContaining('and all its data. Type the name to confirm: '),
      ]);
    }
    expect(await status(key)).toBe(200);
    expect((await operate(['tenants', 'delete', id], ['typed'])).code).toBe(0);
    expect(await status(key)).toBe(401);
  });

  test('deleting without a terminal requires --yes', async () => {
    const { id, key } = await create('kept');
    const { code, err } = await operate(['tenants', 'delete', id]);
    expect([code, err]).toEqual([2, expect.stringContaining('--yes')]);
    expect(await status(key)).toBe(200);
  });

  test('an interrupted deletion can only be finished', async () => {
    const { id, key } = await create('halfway');
    await server.application(key);
    await server.app.maintenance.tenants.markDeleted(id);
    expect(await status(key)).toBe(401);
    const { out } = await operate(['tenants', 'list']);
    expect(out).toContain('being deleted  halfway');
    for (const argv of [
      ['rename', id, 'x'],
      ['disable', id],
      ['enable', id],
    ]) {
      const { code, err } = await operate(['tenants', ...argv]);
      expect([code, err]).toEqual([
        1,
        expect.stringContaining(`run \`sallyport tenants delete ${id}\` to finish the deletion`),
      ]);
    }
    expect((await operate(['tenants', 'delete', id, '--yes'])).code).toBe(0);
    expect(await server.app.store.tenants.get(id)).toBeUndefined();
  });

  test.each<[string, string[]]>([
    ['rename', ['x']],
    ['disable', []],
    ['enable', []],
    ['delete', ['--yes']],
  ])('tenants %s rejects an unknown or ambiguous tenant', async (command, rest) => {
    const name = `twins of ${command}`;
    const twins = [await create(name), await create(name)];
    for (const wanted of ['nobody', crypto.randomUUID(), '']) {
      const { code, out, err } = await operate(['tenants', command, wanted, ...rest]);
      expect([code, out]).toEqual([1, '']);
      expect(err).toBe(
        `sallyport: error: no tenant with the id or name "${wanted}"\nsallyport: hint: run \`sallyport tenants list\`\n`,
      );
    }
    const { code, err } = await operate(['tenants', command, name, ...rest]);
    expect([code, err]).toEqual([1, expect.stringContaining(`2 tenants are named "${name}"`)]);
    for (const { id, key } of twins) {
      expect(err).toContain(id);
      expect((await server.call('GET', '/tenants/self', { key })).body.name).toBe(name);
    }
  });

  test('an invalid name is rejected', async () => {
    const { id } = await create('named');
    const { code, err } = await operate(['tenants', 'rename', id, ' ']);
    expect([code, err]).toEqual([2, expect.stringContaining('NAME must not be only white space')]);
    expect((await server.app.store.tenants.get(id))?.name).toBe('named');
  });
});
