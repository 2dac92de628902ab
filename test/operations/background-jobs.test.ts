import { expect, test } from 'bun:test';
import { SQL } from 'bun';
import type { Db } from '../../src/db/db.ts';
import { headsOperation } from '../../src/domain/audit.ts';
import { auditEntries } from '../support/database.ts';
import { databases, openTestServer, postgres } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';

test('a denial recorded while denials are being written is written by the next flush', async () => {
  const server = await openTestServer(postgres);
  const { key } = await server.tenant();
  const weak = await server.application(key);
  const expectDenied = async (path: string) =>
    expect((await server.call('GET', path, { key: weak.key })).status).toBe(403);
  const other = new SQL(server.config.databaseUrl, { max: 1 });
  await expectDenied('/applications');
  let flushed: Promise<void>[] = [];
  await other.begin(async (tx) => {
    await tx`lock table audit_pending in exclusive mode`;
    flushed = [server.flush()];
    await expectDenied('/logs');
    flushed.push(server.flush());
  });
  await Promise.all(flushed);
  const { body } = await server.call('GET', '/logs?operation=log.read', { key });
  expect(body.data).toMatchObject([{ operation: 'log.read', result: 'denied' }]);
  await other.close();
});

test('closing the service gives up on a job that hangs and still writes recorded denials', async () => {
  let hang = false;
  const reached = Promise.withResolvers<void>();
  const transaction =
    (db: Db): Db['transaction'] =>
    (work) => {
      if (!hang) return db.transaction(work);
      reached.resolve();
      return new Promise(() => {});
    };
  const server = await openTestServer(postgres, {}, (db) => ({ ...db, transaction: transaction(db) }));
  const { id, key } = await server.tenant();
  const weak = await server.application(key);
  hang = true;
  void server.flush();
  await reached.promise;
  expect((await server.call('GET', '/logs', { key: weak.key })).status).toBe(403);
  await server.close();
  expect(server.logged.at(-1)).toContain('stopped while background jobs were still running');
  const denied = `select 1 from audit_pending where tenant_id = '${id}' and entry like '%"denied"%'`;
  expect(await runSql(server.config.databaseUrl, denied)).toHaveLength(1);
});

test('closing the service seals the last entries and records the ends of their chains', async () => {
  const server = await openTestServer(postgres);
  const { id, key } = await server.tenant();
  await server.application(key);
  await server.close();
  const url = server.config.databaseUrl;
  const [chain] = await runSql<{ seq: string }>(
    url,
    `select seq from audit_chains where tenant_id = '${id}'`,
  );
  expect(Number(chain?.seq)).toBe(1);
  const recorded = (await auditEntries(url)).findLast(({ operation }) => operation === headsOperation);
  expect(recorded?.difference?.[id]?.to).toMatch(/^1:[0-9a-f]{64}$/);
});

test.each(databases)(
  'on %s, the sweep waits a minute after the clock was set forward',
  async (_, database) => {
    const server = await openTestServer(database, { SALLYPORT_METRICS_PORT: '0' });
    const { key } = await server.tenant();
    const web = await server.application(key, { type: 'public', permissions: ['token:create'] });
    const session = (await server.call('POST', '/sessions', { key: web.key })).body.session_key;
    const status = async () => (await server.call('GET', '/tokens', { key: session })).status;
    const valid = await status();
    server.clock.jump(86_400_000);
    expect(await status()).toBe(401);
    await server.flush();
    server.clock.advance(59_999);
    await server.flush();
    server.clock.jump(-86_400_000);
    expect(await status()).toBe(valid);
    server.clock.jump(86_400_000);
    await server.flush();
    server.clock.advance(60_000);
    await server.flush();
    server.clock.jump(-86_400_000);
    expect(await status()).toBe(401);
    const text = await (await fetch(server.app.metricsUrl as string)).text();
    expect(text).toContain('sallyport_clock_jumps_total{direction="forward"} 1\n');
  },
);
