import { describe, expect, test } from 'bun:test';
import { databases, manyConnections, openTestServer } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

describe.each(databases)('the audit log on %s', async (_, database) => {
  const server = await openTestServer(database, manyConnections);

  function bytesLiteral(text: string): string {
    const hex = Buffer.from(text).toString('hex');
    return database.name === 'SQLite' ? `x'${hex}'` : `'\\x${hex}'`;
  }

  const logs = async (key: string, query = '') =>
    (await server.call('GET', `/logs${query}`, { key })).body.data;

  test('a change has an entry when its response arrives', async () => {
    const { key, id: tenant_id } = await server.tenant();
    const created = await server.application(key, { name: 'before', permissions: ['token:read'] });
    await server.call('PUT', `/applications/${created.id}`, {
      key,
      body: { name: 'after', permissions: ['token:create'] },
      headers: { 'SVC-REQUEST-ID': 'my-request', 'User-Agent': 'a test' },
    });
    const [update, create] = await logs(key);
    expect(create).toMatchObject({
      operation: 'application.create',
      entity: { kind: 'application', id: created.id },
    });
    const actor = (await server.call('GET', '/applications/key', { key })).body.id;
    expect(update).toMatchObject({
      tenant_id,
      actor: { kind: 'application', id: actor, application_id: actor },
      operation: 'application.update',
      result: 'success',
      from: { ip: '127.0.0.1', user_agent: 'a test' },
      request_id: 'my-request',
      difference: {
        name: { from: 'before', to: 'after' },
        permissions: { from: ['token:read'], to: ['token:create'] },
      },
    });
  });

  test('denials have a reason and are aggregated', async () => {
    const { key } = await server.tenant();
    const weak = await server.application(key, { permissions: ['token:read'] });
    for (let i = 0; i < 5; i++) await server.call('DELETE', `/applications/${weak.id}`, { key: weak.key });
    await server.flush();
    const [denied] = await logs(key, '?result=denied');
    expect(denied).toMatchObject({
      actor: { id: weak.id },
      operation: 'application.delete',
      reason: 'permission_missing',
      count: 5,
    });
  });

  test('entries that were altered in the database are listed as unreadable, and others are still listed', async () => {
    const { key, id } = await server.tenant();
    for (const name of ['first', 'second']) {
      await server.application(key, { name });
      await server.flush();
    }
    const [newest] = await logs(key);
    await runSql(
      server.config.databaseUrl,
      `update audit_segments set entries = ${bytesLiteral('x')} where number = 1 and tenant_id = '${id}'`,
    );
    const after = await logs(key);
    expect(after).toHaveLength(2);
    expect(after[0]).toEqual(newest);
    expect(after[1]).toMatchObject({
      actor: { kind: 'unknown' },
      operation: 'unknown',
      result: 'failed',
      reason: 'unreadable',
    });
  });

  test.each(['x', '{}', 'null', '\u0002'])(
    'a pending entry that was replaced by %j is listed as unreadable',
    async (text) => {
      const { key, id } = await server.tenant();
      await server.application(key);
      const [{ id: entry }] = await logs(key);
      const url = server.config.databaseUrl;
      await runSql(url, `update audit_pending set entry = '${text}' where tenant_id = '${id}'`);
      for (const _ of ['pending', 'sealed']) {
        expect(await logs(key)).toMatchObject([{ id: entry, operation: 'unknown', reason: 'unreadable' }]);
        await server.flush();
      }
    },
  );

  test.each(['9223372036854775807', '-9223372036854775807'])(
    'an entry whose time was set to %s is listed, and sealed with others',
    async (at) => {
      const { key, id } = await server.tenant();
      await server.application(key);
      const [{ id: _, at: __, ...rest }] = await logs(key);
      await runSql(
        server.config.databaseUrl,
        `update audit_pending set at = ${at} where tenant_id = '${id}'`,
      );
      expect(await logs(key)).toMatchObject([rest]);
      await server.flush();
      expect(await logs(key)).toMatchObject([rest]);
    },
  );

  test('a failed change has no entry, and a change without an entry is rolled back', async () => {
    const { key } = await server.tenant();
    await server.call('POST', '/applications', {
      key,
      body: { name: 'x', type: 'public', permissions: ['application:create'] },
    });
    expect(await logs(key)).toEqual([]);
  });

  test('entries do not contain token data', async () => {
    const { key } = await server.tenant();
    await server.call('POST', '/tokens', { key, body: { id: 'card', data: 'secret-one' } });
    await server.call('PATCH', '/tokens/card', { key, body: { data: 'secret-two', container: '/a/' } });
    const entries = await logs(key);
    expect(entries[0].difference).toEqual({ container: { from: '/general/', to: '/a/' }, data: {} });
    expect(JSON.stringify(entries)).not.toContain('secret-');
  });

  test('lists by cursor and filters, within one tenant', async () => {
    const { key } = await server.tenant();
    const { key: other } = await server.tenant();
    const ids = [];
    for (let i = 0; i < 5; i++) ids.push((await server.application(key)).id);
    const first = (await server.call('GET', '/logs?size=2', { key })).body;
    expect(first.pagination).toEqual({ page_size: 2, next: expect.any(String) });
    const second = (await server.call('GET', `/logs?size=2&start=${first.pagination.next}`, { key })).body;
    const seen = [...first.data, ...second.data].map((entry: { entity: { id: string } }) => entry.entity.id);
    expect(seen).toEqual(ids.toReversed().slice(0, 4));
    expect(await logs(key, `?entity=${ids[3]}`)).toHaveLength(1);
    expect(await logs(key, '?operation=application.delete')).toEqual([]);
    expect(await logs(other)).toEqual([]);
  });

  test.each(['operation', 'entity'])('a control character in %s is rejected', async (filter) => {
    const { key } = await server.tenant();
    const { status, body } = await server.call('GET', `/logs?${filter}=%00`, { key });
    expect([status, Object.keys(body.errors)]).toEqual([400, [filter]]);
  });

  describe('a retry with an Idempotency-Key', () => {
    const create = (key: string, name: string, idempotency: string) =>
      server.call('POST', '/applications', {
        key,
        body: { name, type: 'private', permissions: ['token:read'] },
        headers: { 'Idempotency-Key': idempotency },
      });

    test('gets the same response with the key, and creates nothing', async () => {
      const { key } = await server.tenant();
      const first = await create(key, 'once', 'a');
      const again = await create(key, 'once', 'a');
      expect(again.body).toEqual(first.body);
      expect(again.headers.get('idempotency-replayed')).toBe('true');
      expect((await server.call('GET', '/applications?name=once', { key })).body.pagination.total_items).toBe(
        1,
      );
      expect(await logs(key)).toHaveLength(1);
    });

    test('with another body is rejected', async () => {
      const { key } = await server.tenant();
      await create(key, 'one', 'b');
      const other = await create(key, 'two', 'b');
      expect(other).toMatchObject({ status: 422, body: { code: 'idempotency_mismatch' } });
    });

    test('concurrent to the first creates one application', async () => {
      const { key } = await server.tenant();
      const answers = await Promise.all(Array.from({ length: 10 }, () => create(key, 'same', 'c')));
      expect(answers.every(({ status }) => status === 201 || status === 409)).toBe(true);
      expect((await server.call('GET', '/applications?name=same', { key })).body.pagination.total_items).toBe(
        1,
      );
    });

    test('creates a new session, since browsers share the public key', async () => {
      const { key } = await server.tenant();
      const web = await server.application(key, { type: 'public', permissions: ['token:create'] });
      const start = () =>
        server.call('POST', '/sessions', { key: web.key, headers: { 'Idempotency-Key': 'guessed' } });
      const [mine, yours] = [await start(), await start()];
      expect(yours.status).toBe(201);
      expect(yours.body.session_key).not.toBe(mine.body.session_key);
    });

    test('is a new request after a day and for another caller', async () => {
      const { key } = await server.tenant();
      const first = await create(key, 'daily', 'd');
      const peer = await server.application(key, { permissions: ['application:create', 'token:read'] });
      const ofPeer = await create(peer.key, 'daily', 'd');
      expect(ofPeer.status).toBe(201);
      expect(ofPeer.body.id).not.toBe(first.body.id);
      server.clock.advance(86_400_000);
      const later = await create(key, 'daily', 'd');
      expect(later.status).toBe(201);
      expect(later.body.id).not.toBe(first.body.id);
    });
  });
});
