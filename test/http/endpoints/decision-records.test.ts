/** Decisions that other services report to the audit log. */
import { describe, expect, test } from 'bun:test';
import { failInserts } from '../../support/database.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

const permission = 'invoice:read';

describe.each(databases)('POST /decisions with record on %s', async (_, database) => {
  const server = await openTestServer(database);
  const { key: management } = await server.tenant();
  const guard: { id: string; key: string } = await server.application(management, {
    permissions: ['decision:create'],
  });
  const reader: { id: string; key: string } = await server.application(management, {
    permissions: [],
    rules: [
      { priority: 1, container: '/eu/', transform: 'reveal', permissions: [permission] },
      { priority: 2, container: '/us/', transform: 'mask', permissions: [permission] },
    ],
  });

  const ask = (fields: object, key = guard.key, credential = reader.key) =>
    server.call('POST', '/decisions', {
      key,
      body: { credential, permission, record: true, ...fields },
      headers: { 'SVC-PURPOSE': 'invoice run' },
    });
  const entries = async (query = '') =>
    (await server.call('GET', `/logs?operation=invoice.read${query}`, { key: management })).body.data;

  test('has an entry per transform, with the credential as actor and the caller as reporter', async () => {
    const resources = [
      { id: 'a', container: '/eu/1/' },
      { id: 'b', container: '/eu/2/' },
      { id: 'c', container: '/us/' },
    ];
    expect((await ask({ resources })).body.decisions).toHaveLength(3);
    const common = {
      actor: { kind: 'application', id: reader.id, application_id: reader.id },
      result: 'success',
      purpose: 'invoice run',
      reported_by: guard.id,
    };
    expect(await entries()).toMatchObject([
      {
        ...common,
        resource: { ids: ['c'], container: '/us/' },
        decision: { transform: 'mask', rule: { of: 'application', rule: 2 } },
      },
      {
        ...common,
        resource: { ids: ['a', 'b'], container: '/eu/' },
        decision: { transform: 'reveal', rule: { of: 'application', rule: 1 } },
      },
    ]);
  });

  test('aggregates denials', async () => {
    for (let i = 0; i < 3; i++) await ask({ resource: { id: 'd', container: '/asia/' } });
    expect(await entries('&result=denied')).toEqual([]);
    await server.flush();
    expect(await entries('&result=denied')).toMatchObject([
      {
        actor: { id: reader.id },
        resource: { ids: ['d'], container: '/asia/' },
        decision: { missing: { permission, container: '/asia/' } },
        reported_by: guard.id,
        count: 3,
      },
    ]);
  });

  test('answers 503 if the entry cannot be written', async () => {
    const allow = await failInserts(server.config.databaseUrl, 'audit_pending');
    const rejected = await ask({ resource: { container: '/eu/' } });
    const unrecorded = await ask({ resource: { container: '/eu/' }, record: false });
    await allow();
    expect([rejected.status, unrecorded.status]).toEqual([503, 200]);
  });

  test('is denied in quarantine, without an entry about the credential', async () => {
    const path = `/applications/${guard.id}/quarantine`;
    await server.call('POST', path, { key: management });
    const before = await entries();
    const resource = { container: '/eu/' };
    expect(await ask({ resource })).toMatchObject({ status: 403, body: { code: 'quarantined' } });
    expect((await ask({ resource, record: false })).status).toBe(200);
    await server.flush();
    expect(await entries()).toEqual(before);
    await server.call('DELETE', path, { key: management });
    expect((await ask({ resource })).status).toBe(200);
    expect(await entries()).toHaveLength(before.length + 1);
  });

  test('is rejected for public keys and sessions, and ignored for an invalid credential', async () => {
    const web = await server.application(management, { type: 'public', permissions: ['decision:create'] });
    expect(await ask({}, web.key, web.key)).toMatchObject({
      status: 403,
      body: { code: 'key_type_refused' },
    });
    const before = await entries();
    const { body } = await ask({ resource: { container: '/eu/' } }, guard.key, 'not a key');
    expect(body.allowed).toBe(false);
    expect(await entries()).toEqual(before);
  });
});
