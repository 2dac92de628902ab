import { expect, test } from 'bun:test';
import { SQL } from 'bun';
import { patient } from './support/patience.ts';
import { openWorld, postgres } from './support/world.ts';

test('what comes while refusals are being written is written by the next flush, not left to the clock', async () => {
  const world = await openWorld(postgres);
  const { key } = await world.tenant();
  const weak = await world.application(key);
  const refused = async (path: string) =>
    expect((await patient(() => world.call('GET', path, { key: weak.key }))).status).toBe(403);
  const other = new SQL(world.config.databaseUrl, { max: 1 });
  await refused('/applications');
  let flushed: Promise<void>[] = [];
  await other.begin(async (tx) => {
    await tx`lock table audit in exclusive mode`;
    flushed = [world.flush()];
    await refused('/logs');
    flushed.push(world.flush());
  });
  await Promise.all(flushed);
  const { body } = await world.call('GET', '/logs?operation=log.read', { key });
  expect(body.data).toMatchObject([{ operation: 'log.read', result: 'denied' }]);
  await other.close();
  await world.close();
});
