/** SALLYPORT_AUDIT_READS: which reads the audit log records. */

import { describe, expect, test } from 'bun:test';
import { temporaryFolder } from '../../support/cleanup.ts';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

const read = { permissions: ['token:read'] };
const rules = [
  { ...read, priority: 1, container: '/cards/', transform: 'reveal' },
  { ...read, priority: 2, container: '/notes/', transform: 'mask' },
  { ...read, priority: 3, container: '/other/', transform: 'redact' },
];

describe.each(databases)('on %s', (_, database) => {
  /** A tenant with a token in each container, and a key that sees them with three transforms. */
  async function tokensOf(server: TestServer) {
    const { key } = await server.tenant();
    for (const container of ['/cards/', '/notes/', '/other/'])
      await server.call('POST', '/tokens', {
        key,
        body: { id: container.slice(1, -1), container, data: 'd', mask: 'm' },
      });
    const reader = await server.application(key, { permissions: [], rules });
    const reads = async () => {
      const { body } = await server.call('GET', '/logs?operation=token.read', { key });
      return body.data;
    };
    return { key, reader: reader.key as string, reads };
  }

  test('all: masked and redacted reads are counted per container, transform and minute', async () => {
    const server = await openTestServer(database, { SALLYPORT_AUDIT_READS: 'all' });
    const { reader, reads } = await tokensOf(server);
    for (const id of ['notes', 'notes', 'other', 'notes'])
      expect((await server.call('GET', `/tokens/${id}`, { key: reader })).status).toBe(200);
    expect(await reads()).toEqual([]);
    await server.flush();
    expect(await reads()).toMatchObject([
      {
        resource: { ids: ['other'], container: '/other/' },
        decision: { transform: 'redact', rule: { of: 'application', rule: 3 } },
      },
      {
        resource: { ids: ['notes'], container: '/notes/' },
        decision: { transform: 'mask', rule: { of: 'application', rule: 2 } },
        count: 3,
      },
    ]);
    await server.call('GET', '/tokens', { key: reader });
    expect(await reads()).toMatchObject([{ resource: { ids: ['cards'] } }, {}, {}]);
    await server.flush();
    expect(await reads()).toHaveLength(5);
    await server.close();
  });

  test('all: a list of masked tokens names the rule only if it decided about all of them', async () => {
    const server = await openTestServer(database, { SALLYPORT_AUDIT_READS: 'all' });
    const { key, reads } = await tokensOf(server);
    const masked = { ...read, transform: 'mask' };
    const two = [
      { ...masked, priority: 1, container: '/cards/' },
      { ...masked, priority: 2, container: '/notes/' },
    ];
    const { key: reader } = await server.application(key, { permissions: [], rules: two });
    await server.call('GET', '/tokens', { key: reader });
    await server.call('GET', '/tokens?container=/notes/', { key: reader });
    await server.flush();
    const decisions = (await reads()).map((entry: { decision: object }) => entry.decision);
    expect(decisions).toEqual([
      { transform: 'mask', rule: { of: 'application', rule: 2 } },
      { transform: 'mask' },
    ]);
    await server.close();
  });

  test('masked reads are written when the service stops', async () => {
    const folder = temporaryFolder();
    const url = await database.createMigrated(folder);
    const open = () =>
      openTestServer(url, { SALLYPORT_AUDIT_READS: 'all', SALLYPORT_MASTER_KEY: testMasterKey });
    const server = await open();
    const { key, reader } = await tokensOf(server);
    for (let i = 0; i < 3; i++) await server.call('GET', '/tokens/notes', { key: reader });
    await server.close();
    const next = await open();
    const { body } = await next.call('GET', '/logs?operation=token.read', { key });
    expect(body.data).toMatchObject([{ resource: { ids: ['notes'] }, count: 3 }]);
    await next.close();
  });

  test('off: no read is recorded', async () => {
    const server = await openTestServer(database, { SALLYPORT_AUDIT_READS: 'off' });
    const { reader, reads } = await tokensOf(server);
    expect((await server.call('GET', '/tokens', { key: reader })).body.data).toHaveLength(3);
    expect((await server.call('GET', '/tokens/cards', { key: reader })).body.data).toBe('d');
    await server.flush();
    expect(await reads()).toEqual([]);
    await server.close();
  });
});
