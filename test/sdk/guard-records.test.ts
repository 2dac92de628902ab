import { expect, test } from 'bun:test';
import { type GuardOptions, guardFetch } from '../../sdk/src/guard.ts';
import { Sallyport } from '../../sdk/src/sallyport.ts';
import { failInserts } from '../support/database.ts';
import { openTestServer, sqlite } from '../support/test-server.ts';

const server = await openTestServer(sqlite);
const { key } = await server.tenant();
const admin = new Sallyport({ url: server.url, key });
const guard: { id: string; key: string } = await server.application(key, {
  permissions: ['decision:create'],
});
const rule = { priority: 1, container: '/eu/', transform: 'reveal', permissions: ['invoice:read'] };
const reader: { id: string; key: string } = await server.application(key, { permissions: [], rules: [rule] });

function guarded(options: Partial<GuardOptions>) {
  let calls = 0;
  const handler = guardFetch(
    {
      client: new Sallyport({ url: server.url, key: guard.key, retries: 0 }),
      permission: 'invoice:read',
      resource: ({ path }) => ({ id: 'invoice-7', container: path }),
      fields: ['iban'],
      purpose: (request) => request.header('x-ticket'),
      ...options,
    },
    () => {
      calls += 1;
      return Response.json({ iban: 'DE02' });
    },
  );
  const ask = async (path: string, ticket = 'Rückfrage 12') => {
    const headers = { 'SVC-API-KEY': reader.key, 'X-Ticket': ticket };
    return (await handler(new Request(`http://localhost${path}`, { headers }))).status;
  };
  return { ask, calls: () => calls };
}

const entries = async () => {
  await server.flush();
  return (await admin.logs.list({ operation: 'invoice.read' })).data;
};

test('a guard with record reports allowed and denied requests, with their purpose', async () => {
  expect(await guarded({}).ask('/eu/')).toBe(200);
  expect(await entries()).toEqual([]);
  const { ask } = guarded({ record: true });
  expect([await ask('/eu/'), await ask('/us/')]).toEqual([200, 403]);
  const common = { actor: { id: reader.id }, purpose: 'Rückfrage 12', reported_by: guard.id };
  expect(await entries()).toMatchObject([
    { ...common, result: 'denied', resource: { ids: ['invoice-7'], container: '/us/' } },
    { ...common, result: 'success', decision: { transform: 'reveal' }, resource: { container: '/eu/' } },
  ]);
});

test('the handler does not run if the decision cannot be recorded or the purpose is invalid', async () => {
  const { ask, calls } = guarded({ record: true });
  expect(await ask('/eu/', 'x'.repeat(201))).toBe(403);
  const allow = await failInserts(server.config.databaseUrl, 'audit_pending');
  expect(await ask('/eu/')).toBe(503);
  await allow();
  expect(calls()).toBe(0);
});
