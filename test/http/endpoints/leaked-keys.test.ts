import { describe, expect, test } from 'bun:test';
import { systemTenant } from '../../../src/audit/records.ts';
import type { Db, Transaction } from '../../../src/db/db.ts';
import { boundOf, type Statement } from '../../../src/db/statement.ts';
import { parseKey } from '../../../src/domain/key.ts';
import { longestSession } from '../../../src/domain/session.ts';
import { auditEntries, dumpDatabase } from '../../support/database.ts';
import { unknownKey } from '../../support/keys.ts';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const valid = [200, 200];
const invalid = [401, 401];

/** Records the statements that changes run, in order. */
function changeRecorder() {
  let statements: string[] = [];
  const through = (db: Db): Db => ({
    ...db,
    change: (work, ...rest) => db.change((tx) => work(recorded(tx)), ...rest),
  });
  const recorded = (tx: Transaction): Transaction => ({
    ...tx,
    get: <R>(statement: Statement) => {
      statements.push(boundOf(statement)[0]);
      return tx.get<R>(statement);
    },
    run: (statement) => {
      statements.push(boundOf(statement)[0]);
      return tx.run(statement);
    },
    returning: (statement) => {
      statements.push(boundOf(statement)[0]);
      return tx.returning(statement);
    },
    defer: (write, row) => {
      statements.push('deferred insert');
      return tx.defer(write, row);
    },
  });
  const take = () => {
    const taken = statements;
    statements = [];
    return taken;
  };
  return { through, take };
}

describe.each(databases)('POST /keys/revoke on %s', async (name, database) => {
  const recorder = changeRecorder();
  const env = { SALLYPORT_MASTER_KEY: testMasterKey, SALLYPORT_TRUSTED_PROXIES: '127.0.0.1' };
  const server = await openTestServer(database, env, recorder.through);
  const node = await openTestServer(server.config.databaseUrl);
  const tenant: { id: string; key: string } = await server.tenant();

  let addresses = 0;
  /** Each call comes from a new address, so that the rate limit does not apply. */
  const revoke = (key: unknown, from = `198.51.100.${++addresses}`) =>
    server.call('POST', '/keys/revoke', {
      body: { key },
      headers: { 'X-Forwarded-For': from, 'User-Agent': 'scanner' },
    });
  const statuses = (key: string) =>
    Promise.all(
      [server, node].map(async (at) => (await at.call('GET', '/applications/key', { key })).status),
    );
  const readable = (fields: object = {}) =>
    server.application(tenant.key, { permissions: ['application:read'], ...fields });
  const entries = async () =>
    (await auditEntries(server.config.databaseUrl)).filter(({ operation }) => operation === 'key.revoke');

  test('revokes one key of an application on every node, and the sessions that it limits', async () => {
    const backend = await readable();
    const path = `/applications/${backend.id}/keys`;
    const { body: other } = await server.call('POST', path, { key: tenant.key });
    const web = await readable({ type: 'public' });
    const { body: session } = await server.call('POST', '/sessions', { key: web.key });
    const grant = { nonce: session.nonce, permissions: ['application:read'] };
    await server.call('POST', '/sessions/authorize', { key: backend.key, body: grant });
    for (const key of [backend.key, session.session_key]) expect(await statuses(key)).toEqual(valid);
    expect(await revoke(backend.key, '192.0.2.7')).toMatchObject({ status: 204, body: '' });
    for (const key of [backend.key, session.session_key]) expect(await statuses(key)).toEqual(invalid);
    expect(await statuses(other.key)).toEqual(valid);
    const [entry] = (await entries()).slice(-1);
    expect(entry).toMatchObject({
      tenant_id: tenant.id,
      actor: { kind: 'anonymous' },
      result: 'success',
      entity: { kind: 'application', id: backend.id },
      difference: { keys: { from: { id: expect.any(String), ending: backend.key.slice(-4) } } },
      from: { ip: '192.0.2.7', user_agent: 'scanner' },
    });
  });

  test.each([['session:authorize'], ['application:create']])(
    'ends sessions without a ceiling that a key with %s authorized',
    async (permission) => {
      const backend = await readable({ permissions: ['application:read', permission], type: 'management' });
      const { body: other } = await server.call('POST', `/applications/${backend.id}/keys`, {
        key: tenant.key,
      });
      const web = await readable({ type: 'public' });
      const authorized = async (by: string) => {
        const { body } = await server.call('POST', '/sessions', { key: web.key });
        const grant = { nonce: body.nonce, permissions: ['application:read'] };
        await server.call('POST', '/sessions/authorize', { key: by, body: grant });
        return body.session_key;
      };
      const [leaked, unaffected] = [await authorized(backend.key), await authorized(other.key)];
      const listed = async () => {
        const query = `/sessions?authorized_by=${backend.id}`;
        return (await server.call('GET', query, { key: tenant.key })).body.data.length;
      };
      expect([await statuses(leaked), await statuses(unaffected), await listed()]).toEqual([valid, valid, 2]);
      await revoke(backend.key);
      expect([await statuses(leaked), await statuses(unaffected), await listed()]).toEqual([
        invalid,
        valid,
        1,
      ]);
    },
  );

  test('a session that is authorized while its authorizer is being revoked is invalid', async () => {
    const backend = await readable({ permissions: ['application:read', 'session:authorize'] });
    const web = await readable({ type: 'public' });
    const { body: session } = await server.call('POST', '/sessions', { key: web.key });
    const { sessions, credentials } = server.app.store;
    const { digest } = parseKey(backend.key)!;
    await revoke(backend.key);
    // As in a request that was authenticated before the revocation.
    await sessions.authorize(tenant.id, parseKey(session.nonce)!.digest, {
      permissions: ['application:read'],
      rules: [],
      by: backend.id,
      ceiling: undefined,
      unlimitedBy: digest,
      expiresAt: undefined,
      maxLifetime: 60_000,
    });
    expect(await credentials.find(parseKey(session.session_key)!)).toBeUndefined();
  });

  test('the sweep forgets a leaked key when every session that it authorized has expired', async () => {
    const { key } = await readable();
    await revoke(key);
    const { sweep } = server.app.maintenance;
    const digest = parseKey(key)!.digest.toHex();
    const literal = server.config.databaseUrl.startsWith('sqlite:') ? `x'${digest}'` : `'\\x${digest}'`;
    const stored = async () =>
      (await runSql(server.config.databaseUrl, `select 1 from leaked_keys where digest = ${literal}`))[0];
    server.clock.advance(longestSession - 1);
    await sweep(100);
    expect(await stored()).toBeDefined();
    server.clock.advance(1);
    await sweep(100);
    expect((await stored()) ?? undefined).toBeUndefined();
  });

  test('ends the session of a session key', async () => {
    const web = await readable({ type: 'public' });
    const { body: session } = await server.call('POST', '/sessions', { key: web.key });
    expect((await revoke(session.session_key)).status).toBe(204);
    expect(await statuses(session.session_key)).toEqual(invalid);
    const grant = { nonce: session.nonce, permissions: ['application:read'] };
    const authorized = await server.call('POST', '/sessions/authorize', { key: tenant.key, body: grant });
    expect(authorized.body.code).toBe('nonce_not_found');
    expect((await entries()).at(-1)).toMatchObject({ result: 'success', entity: { kind: 'session' } });
  });

  test('revokes the last management key, and returns the same for a key of a disabled tenant', async () => {
    const other = await server.tenant();
    const { maintenance } = server.app;
    await maintenance.tenants.disable(other.id);
    expect((await revoke(other.key)).status).toBe(204);
    await maintenance.tenants.enable(other.id);
    expect(await statuses(other.key)).toEqual(invalid);
    expect(await statuses(tenant.key)).toEqual(valid);
  });

  test('gives the same response for every text after the same statements, whether or not a key existed', async () => {
    const { id, key: known } = await readable();
    const expires_at = new Date(server.clock.now() + 1000).toISOString();
    const path = `/applications/${id}/keys`;
    const { body: expiring } = await server.call('POST', path, { key: tenant.key, body: { expires_at } });
    server.clock.advance(1000);
    const web = await readable({ type: 'public' });
    const { body: session } = await server.call('POST', '/sessions', { key: web.key });
    const unknown = (['mgt', 'pvt', 'ses'] as const).map((kind) => unknownKey(kind).secret.reveal());
    const typo = `${tenant.key.slice(0, -1)}${tenant.key.endsWith('0') ? '1' : '0'}`;
    const incomplete = [typo, tenant.key.slice(0, -1), `${tenant.key}0`, tenant.key.slice('slp_mgt_'.length)];
    const other = ['x', ' ', 'é', 'x'.repeat(200), `key: ${tenant.key}`, `x${web.key}`];
    const seen = [];
    for (const key of [known, known, expiring.key, session.nonce, ...unknown, ...incomplete, ...other]) {
      recorder.take();
      const { status, body, headers } = await revoke(key);
      const names = [...headers.keys()].sort();
      const statements = recorder.take();
      // A Citus cluster would commit a statement about two tables in two phases. There only a valid key is inserted, and
      // all responses wait for the same time.
      const compared =
        name === 'Citus' ? statements.filter((one) => !/^insert into leaked/.test(one)) : statements;
      seen.push({ status, body, names, statements: compared });
    }
    expect(seen[0]).toMatchObject({ status: 204, body: '', statements: { length: 5 } });
    for (const each of seen) expect(each).toEqual(seen[0]!);
    const last = (await entries()).slice(1 - seen.length);
    for (const entry of last)
      expect(entry).toMatchObject({ tenant_id: systemTenant, result: 'failed', reason: 'not_found' });
    expect(
      (await server.call('GET', '/logs?operation=key.revoke', { key: tenant.key })).body.data,
    ).toHaveLength((await entries()).filter(({ tenant_id }) => tenant_id === tenant.id).length);
    expect(await statuses(tenant.key)).toEqual(valid);
    const grant = { nonce: session.nonce, permissions: ['application:read'] };
    const authorized = await server.call('POST', '/sessions/authorize', { key: tenant.key, body: grant });
    expect(authorized.status).toBe(204);
  });

  test('ignores white space around a key, as headers do', async () => {
    const { key } = await readable();
    expect((await revoke(` ${key}\r\n`)).status).toBe(204);
    expect(await statuses(key)).toEqual(invalid);
  });

  test('rejects public keys by their prefix alone, and invalid bodies', async () => {
    const web = await readable({ type: 'public' });
    const publicKeys = [
      web.key,
      ` ${web.key}`,
      unknownKey('pub').secret.reveal(),
      web.key.slice(0, -1),
      'slp_pub_',
    ];
    const rejected = await Promise.all(publicKeys.map((key) => revoke(key)));
    for (const { status, body } of rejected) {
      expect({ status, errors: body.errors }).toEqual({ status: 400, errors: rejected[0]!.body.errors });
      expect(body.errors.key[0]).toMatch(/public application/);
    }
    expect(await statuses(web.key)).toEqual(valid);
    for (const key of ['', 7, null, ['x'], 'x'.repeat(201)])
      expect((await revoke(key)).body.errors).toHaveProperty('key');
    const more = await server.call('POST', '/keys/revoke', { body: { key: tenant.key, why: 'x' } });
    expect(more.body.errors).toHaveProperty('why');
    expect((await server.call('POST', '/keys/revoke', { body: 'x'.repeat(1025) })).status).toBe(413);
    expect(await statuses(tenant.key)).toEqual(valid);
    expect((await server.call('GET', '/keys/revoke')).headers.get('allow')).toBe('POST, OPTIONS');
  });

  test('is limited per address, also for invalid requests, and never stores the key', async () => {
    const { key } = await readable();
    const from = '203.0.113.9';
    await Promise.all(Array.from({ length: 59 }, (_, at) => revoke(at % 2 ? 'junk' : '', from)));
    expect((await revoke(key, from)).status).toBe(204);
    const refused = await revoke(tenant.key, from);
    expect(refused).toMatchObject({ status: 429, body: { code: 'too_many_requests' } });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await statuses(tenant.key)).toEqual(valid);
    expect((await revoke('junk', '203.0.113.10')).status).toBe(204);
    await server.flush();
    expect(JSON.stringify(await auditEntries(server.config.databaseUrl))).not.toContain(key);
    expect(server.logged.join('')).not.toContain(key);
    expect(await dumpDatabase(server.config.databaseUrl)).not.toContain(key);
  });
});
