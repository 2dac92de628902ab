import { describe, expect, test } from 'bun:test';
import { shell } from '../../support/shell.ts';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

describe.each(databases)('sallyport expiring on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });

  function operate(...argv: string[]) {
    const { databaseUrl, dataDir } = server.config;
    const env = {
      DATABASE_URL: databaseUrl,
      SALLYPORT_DATA_DIR: dataDir,
      SALLYPORT_MASTER_KEY: testMasterKey,
    };
    return shell(argv, { env });
  }
  const json = async (...argv: string[]) => JSON.parse((await operate(...argv, '--json')).out);

  /** A tenant whose second management application expires after `lifetime`, with its key. */
  async function create(tenant: string, lifetime: string) {
    const { tenant_id } = await json('tenants', 'create', tenant);
    await operate('tenants', 'max-lifetime', tenant, lifetime);
    const { application_id, key } = await json('tenants', 'key', tenant);
    return { tenant_id, application_id, ending: key.slice(-4) };
  }

  test('lists applications and keys of all tenants, the next expiry first', async () => {
    const later = await create('later', '6d');
    const soon = await create('soon', '2d');
    await create('in a month', '30d');
    const onlyKey = await create('only a key', '3d');
    await runSql(
      server.config.databaseUrl,
      `update applications set expires_at = null where id = '${onlyKey.application_id}'`,
    );
    const listed = await json('expiring');
    const position = ({ application_id: id }: { application_id: string }) =>
      listed.flatMap((one: { application_id: string; key?: { ending: string } }) =>
        one.application_id === id ? [one.key?.ending] : [],
      );
    expect(position(soon).sort()).toEqual([soon.ending, undefined]);
    expect(position(later).sort()).toEqual([later.ending, undefined]);
    expect(position(onlyKey)).toEqual([onlyKey.ending]);
    expect(listed).toHaveLength(5);
    const times = listed.map((one: { expires_at: string }) => one.expires_at);
    expect(times).toEqual(times.toSorted());
    expect((await json('expiring', '--within', '30d')).length).toBe(7);

    const { out } = await operate('expiring', '--within', '4d');
    expect(out.split('\n')[0]).toMatch(/^EXPIRES +TENANT +APPLICATION +APPLICATION ID +KEY$/);
    expect(out).toMatch(new RegExp(`^\\S+Z +soon .* ${soon.application_id} +all$`, 'm'));
    expect(out).toMatch(
      new RegExp(`^\\S+Z +only a key .* ${onlyKey.application_id} +…${onlyKey.ending}$`, 'm'),
    );
    expect(out).not.toContain('later');

    await operate('tenants', 'delete', 'soon', '--yes');
    expect(JSON.stringify(await json('expiring'))).not.toContain(soon.application_id);
  });

  test('rejects a period that is not a duration', async () => {
    expect(await operate('expiring', '--within', 'soon')).toMatchObject({
      code: 2,
      err: expect.stringContaining('--within must be a duration such as 30d or 24h, not "soon"'),
    });
  });
});
