import { expect, test } from 'bun:test';
import { SQL } from 'bun';
import type { Db } from '../../src/store/engine/db.ts';
import { openTestServer, postgres } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';

test('a denial recorded while denials are being written is written by the next flush', async () => {
  const world = await openTestServer(postgres);
  const { key } = await world.tenant();
  const weak = await world.application(key);
  const expectDenied = async (path: string) =>
    expect((await world.call('GET', path, { key: weak.key })).status).toBe(403);
  const other = new SQL(world.config.databaseUrl, { max: 1 });
  await expectDenied('/applications');
  let flushed: Promise<void>[] = [];
  await other.begin(async (tx) => {
    await tx`lock table audit in exclusive mode`;
    flushed = [world.flush()];
    await expectDenied('/logs');
    flushed.push(world.flush());
  });
  await Promise.all(flushed);
  const { body } = await world.call('GET', '/logs?operation=log.read', { key });
  expect(body.data).toMatchObject([{ operation: 'log.read', result: 'denied' }]);
  await other.close();
  await world.close();
});

test('closing the service gives up on a job that hangs and still writes recorded denials', async () => {
  let hang = false;
  const reached = Promise.withResolvers<void>();
  const exclusively =
    (db: Db): Db['exclusively'] =>
    (work) => {
      if (!hang) return db.exclusively(work);
      reached.resolve();
      return new Promise(() => {});
    };
  const world = await openTestServer(postgres, {}, (db) => ({ ...db, exclusively: exclusively(db) }));
  const { id, key } = await world.tenant();
  const weak = await world.application(key);
  hang = true;
  void world.flush();
  await reached.promise;
  expect((await world.call('GET', '/logs', { key: weak.key })).status).toBe(403);
  await world.close();
  expect(world.logged.at(-1)).toContain('stopped while background jobs were still running');
  const denied = `select 1 from audit where tenant_id = '${id}' and result = 'denied'`;
  expect(await runSql(world.config.databaseUrl, denied)).toHaveLength(1);
});
