import { beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../src/config/settings.ts';
import { parseKey } from '../../src/domain/key.ts';
import { bootstrap, newTenant } from '../../src/operations/bootstrap.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { unknownKey } from '../support/keys.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

describe.each(databases)('bootstrap on %s', (_, database) => {
  let on: TestStore;
  let folder: string;
  let keyFile: string;
  let temporary: string;
  beforeEach(async () => {
    on = await openTestStore(database);
    folder = temporaryFolder();
    keyFile = join(folder, 'management.key');
    temporary = `${keyFile}.new`;
  });

  const start = (node: Pick<TestStore, 'store' | 'maintenance'> = on) => bootstrap(node, keyFile, startTime);
  const principalOf = (file: string) =>
    on.store.credentials.find(parseKey(readFileSync(file, 'utf8').trim())!);

  test('writes a working management key to a file that only its owner can read', async () => {
    const { secret } = await start();
    expect(readFileSync(keyFile, 'utf8')).toBe(`${secret!.reveal()}\n`);
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(await principalOf(keyFile)).toMatchObject({ application: { type: 'management' } });
    expect(existsSync(temporary)).toBe(false);
  });

  test('writes the creation of the tenant to the audit log', async () => {
    await start();
    const [tenant] = await on.maintenance.tenants.list();
    const { entries } = await on.store.audit.list(tenant!.id, {}, { limit: 10, before: undefined });
    const [entry] = entries;
    expect(entry).toMatchObject({
      operation: 'tenant.create',
      actor: { kind: 'operator' },
      entity: { kind: 'tenant', id: tenant!.id },
    });
  });

  test('creates a tenant only once', async () => {
    await start();
    const before = readFileSync(keyFile, 'utf8');
    expect(await start()).toEqual({ secret: undefined, keyFileValid: true });
    expect(readFileSync(keyFile, 'utf8')).toBe(before);
    expect(await on.maintenance.tenants.list()).toHaveLength(1);
  });

  test('creates one tenant and one key file if several nodes start concurrently', async () => {
    const nodes = [on, await on.open(), await on.open()];
    const started = await Promise.all(nodes.map((node) => start(node)));
    const created = started.flatMap(({ secret }) => secret ?? []);
    expect(created).toHaveLength(1);
    expect(readFileSync(keyFile, 'utf8').trim()).toBe(created[0]!.reveal());
    expect(await principalOf(keyFile)).toBeDefined();
    expect(existsSync(temporary)).toBe(false);
    expect(await on.maintenance.tenants.list()).toHaveLength(1);
  });

  test('renames the temporary key file of a start that ended after its commit', async () => {
    const tenant = newTenant('default', startTime);
    await on.maintenance.createFirstTenant(tenant);
    writeFileSync(temporary, `${tenant.secret.reveal()}\n`, { mode: 0o600 });
    expect(await start()).toEqual({ secret: undefined, keyFileValid: true });
    expect(readFileSync(keyFile, 'utf8').trim()).toBe(tenant.secret.reveal());
    expect(existsSync(temporary)).toBe(false);
  });

  test.each([
    ['of a tenant that was not committed', () => unknownKey('mgt').secret.reveal()],
    ['that is incomplete', () => unknownKey('mgt').secret.reveal().slice(0, 20)],
    ['that is empty', () => ''],
  ])('replaces a temporary file with a key %s', async (_, text) => {
    writeFileSync(temporary, text());
    const { secret } = await start();
    expect(readFileSync(keyFile, 'utf8').trim()).toBe(secret!.reveal());
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(existsSync(temporary)).toBe(false);
  });

  test('deletes a temporary file with an unknown key and leaves the key file unchanged', async () => {
    await start();
    const before = readFileSync(keyFile, 'utf8');
    writeFileSync(temporary, unknownKey('mgt').secret.reveal());
    await start();
    expect(readFileSync(keyFile, 'utf8')).toBe(before);
    expect(existsSync(temporary)).toBe(false);
  });

  test('leaves a key file of another database unchanged and reports it as invalid', async () => {
    await start();
    const other = unknownKey('mgt').secret.reveal();
    writeFileSync(keyFile, other);
    expect(await start()).toEqual({ secret: undefined, keyFileValid: false });
    expect(readFileSync(keyFile, 'utf8')).toBe(other);
  });

  test('creates no tenant if the key file exists', async () => {
    writeFileSync(keyFile, 'another key');
    await expect(start()).rejects.toThrow(ConfigError);
    expect(readFileSync(keyFile, 'utf8')).toBe('another key');
    expect(await on.maintenance.tenants.list()).toEqual([]);
    expect(existsSync(temporary)).toBe(false);
  });
});
