import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newTenant } from '../../src/bootstrap.ts';
import { newestSchema, SchemaTooNew } from '../../src/store/migrate.ts';
import { openStore } from '../../src/store/open.ts';
import { raw } from '../support/stores.ts';
import { databases } from '../support/world.ts';

describe.each(databases)('the store on %s: migrations', (_, database) => {
  let folder: string;
  let url: string;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sallyport-migrate-'));
    url = await database.fresh(folder);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('of several nodes that start at once on an empty database, one makes the schema and all can use it', async () => {
    const nodes = await Promise.all(Array.from({ length: 5 }, () => openStore(url)));
    const from = nodes.map(({ migrated }) => migrated.from).toSorted();
    expect(from).toEqual([0, ...Array(4).fill(newestSchema)]);
    for (const { store } of nodes) {
      await store.tenants.create(newTenant('test', Date.now()));
      await store.close();
    }
  });

  test('a second start changes nothing', async () => {
    const first = await openStore(url);
    await first.store.tenants.create(newTenant('kept', Date.now()));
    await first.store.close();
    const { store, migrated } = await openStore(url);
    expect(migrated).toEqual({ from: newestSchema, to: newestSchema });
    expect((await store.tenants.list()).map(({ name }) => name)).toEqual(['kept']);
    await store.close();
  });

  test('a schema newer than the program is refused, and left as it is', async () => {
    await (await openStore(url)).store.close();
    await raw(url, "insert into schema_versions (version, name) values (999, 'from the future')");
    const opening = openStore(url);
    await expect(opening).rejects.toThrow(SchemaTooNew);
    await expect(opening).rejects.toThrow('999');
    expect(await raw(url, 'select version from schema_versions where version = 999')).toHaveLength(1);
  });
});
