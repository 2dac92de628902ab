/** A failover to a standby. */

import { expect, test } from 'bun:test';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { openPostgres } from '../../src/db/postgres/postgres.ts';
import { parseKey } from '../../src/domain/key.ts';
import { credentials } from '../../src/store/credentials.ts';
import { tenantTags } from '../../src/store/tenants.ts';
import { Cluster } from '../../torture/crash/cluster.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { openCli } from '../support/cli.ts';
import { unknownKey } from '../support/keys.ts';
import { fewConnections, generousTimeout, openTestServer, testMasterKey } from '../support/test-server.ts';
import { until } from '../support/until.ts';

test('nodes use a standby when it is promoted, and never go back to the old primary, until an operator accepts the loss', async () => {
  const folder = temporaryFolder();
  chmodSync(folder, 0o711);
  const primary = await Cluster.make(join(folder, 'primary'));
  await primary.start();
  const standby = await primary.copy(join(folder, 'standby'));
  await standby.start();
  await primary.waitForStandby();
  const url = `postgres://postgres@127.0.0.1:${standby.port},127.0.0.1:${primary.port}/postgres?target_session_attrs=read-write`;
  const data = join(folder, 'data');
  const open = () => openTestServer(url, { SALLYPORT_DATA_DIR: data });
  const node = await open();
  const { key } = await node.tenant();
  const before = await node.application(key);
  const db = openPostgres(standby.url(), undefined, generousTimeout, fewConnections);
  for (const one of [parseKey(before.key)!, unknownKey('pvt')])
    await expect(Promise.try(() => credentials(tenantTags(db))(db).find(one))).rejects.toThrow(
      'the server is a standby or read-only',
    );
  await db.close();
  await primary.kill();
  expect((await node.call('GET', '/readyz')).status).toBe(503);
  await standby.promote();
  await until('ready', async () => (await node.call('GET', '/readyz')).status !== 503);
  await node.application(key);
  expect((await node.call('GET', `/applications/${before.id}`, { key })).status).toBe(200);
  await node.app.flush();
  await primary.start({ synchronous_standby_names: '' });
  // The old primary accepts writes, too, but is behind. The node continues with the other server.
  expect((await node.call('GET', '/readyz')).status).toBe(200);
  await standby.kill();
  await until('not ready', async () => (await node.call('GET', '/readyz')).status === 503);
  expect((await node.call('GET', '/applications/key', { key })).status).toBe(503);
  const behind = new RegExp(
    `no host accepts writes .*127.0.0.1:${primary.port} is behind: it has beat \\d+ of timeline 1, but beat \\d+ of timeline 2 was seen`,
  );
  await node.app.flush();
  expect(node.logged.join('\n')).toMatch(behind);
  await node.close();
  await expect(open()).rejects.toThrow(behind);

  const env = { DATABASE_URL: url, SALLYPORT_DATA_DIR: data, SALLYPORT_MASTER_KEY: testMasterKey };
  const cli = openCli(() => env);
  expect(await cli.run('tenants', 'list')).toMatchObject({
    code: 1,
    err: expect.stringMatching(behind),
  });
  expect(await cli.run('recover', '--yes')).toMatchObject({ code: 0 });
  const again = await open();
  expect((await again.call('GET', '/readyz')).status).toBe(200);
  await again.close();
  await primary.kill();
});
