import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError } from '../../src/config.ts';
import { mint, parseKey } from '../../src/domain/key.ts';
import { bootstrap, newTenant } from '../../src/operations/bootstrap.ts';
import { databases, startTime } from '../support/test-server.ts';
import { openTestStore, type TestStore } from '../support/test-store.ts';

describe.each(databases)('the first management key, on %s', (_, database) => {
  let on: TestStore;
  let folder: string;
  let keyFile: string;
  let waiting: string;
  beforeEach(async () => {
    on = await openTestStore(database);
    folder = mkdtempSync(join(tmpdir(), 'sallyport-bootstrap-'));
    keyFile = join(folder, 'management.key');
    waiting = `${keyFile}.new`;
  });
  afterEach(async () => {
    await on.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const begin = (node: Pick<TestStore, 'store' | 'maintenance'> = on) => bootstrap(node, keyFile, startTime);
  const holderOf = (file: string) => {
    const { kind, digest } = parseKey(readFileSync(file, 'utf8').trim())!;
    return on.store.credentials.find(kind, digest);
  };

  test('is in its file, for its owner alone, and works', async () => {
    const { secret } = await begin();
    expect(readFileSync(keyFile, 'utf8')).toBe(`${secret!.reveal()}\n`);
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(await holderOf(keyFile)).toMatchObject({ application: { type: 'management' } });
    expect(existsSync(waiting)).toBe(false);
  });

  test('is on record: the audit log begins with the tenant', async () => {
    await begin();
    const [tenant] = await on.maintenance.tenants.list();
    const { entries } = await on.store.audit.list(tenant!.id, {}, { limit: 10, before: undefined });
    const [entry] = entries;
    expect(entry).toMatchObject({
      operation: 'tenant.create',
      actor: { kind: 'operator' },
      entity: { kind: 'tenant', id: tenant!.id },
    });
  });

  test('is made once', async () => {
    await begin();
    const before = readFileSync(keyFile, 'utf8');
    expect(await begin()).toEqual({ secret: undefined, keyFileValid: true });
    expect(readFileSync(keyFile, 'utf8')).toBe(before);
    expect(await on.maintenance.tenants.list()).toHaveLength(1);
  });

  test('is made once by several that start together in one folder', async () => {
    const nodes = [on, await on.open(), await on.open()];
    const begun = await Promise.all(nodes.map((node) => begin(node)));
    const made = begun.flatMap(({ secret }) => secret ?? []);
    expect(made).toHaveLength(1);
    expect(readFileSync(keyFile, 'utf8').trim()).toBe(made[0]!.reveal());
    expect(await holderOf(keyFile)).toBeDefined();
    expect(existsSync(waiting)).toBe(false);
    expect(await on.maintenance.tenants.list()).toHaveLength(1);
  });

  test('gets its name at the next start when the one that made it ended too soon', async () => {
    const tenant = newTenant('default', startTime);
    await on.maintenance.createFirstTenant(tenant);
    writeFileSync(waiting, `${tenant.secret.reveal()}\n`, { mode: 0o600 });
    expect(await begin()).toEqual({ secret: undefined, keyFileValid: true });
    expect(readFileSync(keyFile, 'utf8').trim()).toBe(tenant.secret.reveal());
    expect(existsSync(waiting)).toBe(false);
  });

  test.each([
    ['of a tenant that was never made', () => mint('mgt').secret.reveal()],
    ['that was written by half', () => mint('mgt').secret.reveal().slice(0, 20)],
    ['that is empty', () => ''],
  ])('a waiting one %s gives way to a new one', async (_, text) => {
    writeFileSync(waiting, text());
    const { secret } = await begin();
    expect(readFileSync(keyFile, 'utf8').trim()).toBe(secret!.reveal());
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(existsSync(waiting)).toBe(false);
  });

  test('a waiting one that nobody knows does not replace the one in its file', async () => {
    await begin();
    const before = readFileSync(keyFile, 'utf8');
    writeFileSync(waiting, mint('mgt').secret.reveal());
    await begin();
    expect(readFileSync(keyFile, 'utf8')).toBe(before);
    expect(existsSync(waiting)).toBe(false);
  });

  test('a key file of another database is kept, and not reported as valid', async () => {
    await begin();
    const other = mint('mgt').secret.reveal();
    writeFileSync(keyFile, other);
    expect(await begin()).toEqual({ secret: undefined, keyFileValid: false });
    expect(readFileSync(keyFile, 'utf8')).toBe(other);
  });

  test('never replaces a key that is there, and then makes no tenant', async () => {
    writeFileSync(keyFile, 'somebody needs this');
    await expect(begin()).rejects.toThrow(ConfigError);
    expect(readFileSync(keyFile, 'utf8')).toBe('somebody needs this');
    expect(await on.maintenance.tenants.list()).toEqual([]);
    expect(existsSync(waiting)).toBe(false);
  });
});
