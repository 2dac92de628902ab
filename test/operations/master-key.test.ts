import { beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openData } from '../../src/app.ts';
import { ConfigError, readConfig } from '../../src/config/settings.ts';
import { parseMasterKeys } from '../../src/db/keys/cipher.ts';
import { WrongMasterKey } from '../../src/db/keys/keyring.ts';
import { rotation } from '../../src/operations/master-key.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { shell } from '../support/shell.ts';
import { databases, fewConnections } from '../support/test-server.ts';
import { runSql } from '../support/test-store.ts';

const [one, two, three] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [
  string,
  string,
  string,
];
const idOf = (key: string) => parseMasterKeys(key)[0]?.id as string;

describe.each(databases)('the master key on %s', (_, database) => {
  let folder: string;
  let databaseUrl: string;
  beforeEach(async () => {
    folder = temporaryFolder();
    databaseUrl = await database.createMigrated(folder);
  });

  const keyFile = () => join(folder, 'master.key');
  const settings = (env: Record<string, string> = {}) => ({
    DATABASE_URL: databaseUrl,
    SALLYPORT_DATA_DIR: folder,
    SALLYPORT_DATABASE_CONNECTIONS: String(fewConnections),
    ...env,
  });

  /** Opens the database like the service does, and closes it. */
  async function start(env?: Record<string, string>): Promise<void> {
    const { store, maintenance, close } = await openData(readConfig({ env: settings(env) }));
    const [tenant] = await maintenance.tenants.list();
    await store.tokens.get(tenant?.id as string, 'none');
    await close();
  }

  /** Rotates and returns the first printed line. Throws the printed error. */
  async function rotated(env?: Record<string, string>, ...options: string[]): Promise<string> {
    const { code, out, err } = await shell(['master-key', 'rotate', ...options], { env: settings(env) });
    if (code !== 0) throw new Error(err);
    return out.split('\n')[0] as string;
  }

  const masters = async () => {
    const rows = await runSql<{ id: string }>(
      databaseUrl,
      'select id from master_key union select master_id from data_keys',
    );
    return rows.map(({ id }) => id);
  };

  test('only the master key of the first start opens the database', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    await start({ SALLYPORT_MASTER_KEY: one });
    const rejection = start({ SALLYPORT_MASTER_KEY: two });
    await expect(rejection).rejects.toThrow(
      `the database needs the master key ${idOf(one)}, which SALLYPORT_MASTER_KEY does not contain`,
    );
    await expect(rejection).rejects.toBeInstanceOf(WrongMasterKey);
    expect(await masters()).toEqual([idOf(one)]);
  });

  test('a missing master key is not replaced by a new one', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    await expect(start()).rejects.toThrow(
      `the database needs the master key ${idOf(one)}, and SALLYPORT_MASTER_KEY_FILE ${keyFile()} does not exist`,
    );
    expect(existsSync(keyFile())).toBe(false);
    expect(existsSync(`${keyFile()}.new`)).toBe(false);
  });

  test('a wrong master key file is rejected by its path', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    writeFileSync(keyFile(), two);
    await expect(start()).rejects.toThrow(`which SALLYPORT_MASTER_KEY_FILE ${keyFile()} does not contain`);
  });

  test('the master key in use is found among several and stays in use', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    for (const keys of [`${two},${one}`, `${one}, ${two}`, `${three}\n${two}\n${one}`])
      await start({ SALLYPORT_MASTER_KEY: keys });
    writeFileSync(keyFile(), `${two}\n${one}\n`);
    await start();
    expect(await masters()).toEqual([idOf(one)]);
  });

  test.each([
    ['an empty text', ''],
    ['white space', ' \n'],
    ['31 bytes', Buffer.alloc(31).toString('base64')],
    ['33 bytes', Buffer.alloc(33).toString('base64')],
    ['hexadecimal digits', 'ab'.repeat(32)],
    ['a key and another word', `${one},secret`],
  ])('%s in the master key file is rejected without printing it', async (_what, text) => {
    writeFileSync(keyFile(), text);
    const rejection = (await start().catch((error: unknown) => error)) as ConfigError;
    expect(rejection).toBeInstanceOf(ConfigError);
    expect(rejection.message).toStartWith(`SALLYPORT_MASTER_KEY_FILE ${keyFile()} must `);
    for (const part of text.split(/[\s,]+/)) if (part) expect(rejection.message).not.toContain(part);
  });

  test('rotating uses a new key at the top of the file and removes older ones only with --drop-old', async () => {
    writeFileSync(keyFile(), `${one}\n`, { mode: 0o600 });
    await start();
    writeFileSync(keyFile(), `${two}\n${one}\n`);
    await start();
    expect(await rotated()).toBe(`rotated master key ${idOf(one)} to ${idOf(two)}; rewrapped 2 data keys`);
    expect(readFileSync(keyFile(), 'utf8')).toBe(`${two}\n${one}\n`);
    writeFileSync(keyFile(), `${three}\n${two}\n${one}\n`);
    await rotated({}, '--drop-old', '--yes');
    expect(readFileSync(keyFile(), 'utf8')).toBe(`${three}\n`);
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
    expect(await masters()).toEqual([idOf(three)]);
    await start();
  });

  test('--drop-old does not remove a key that another process has added to the file since the rotation began', () => {
    writeFileSync(keyFile(), `${one}\n`, { mode: 0o600 });
    const stalled = rotation(readConfig({ env: settings() }), true);
    const { id } = stalled.next(idOf(one));
    const [added] = readFileSync(keyFile(), 'utf8').split('\n');
    writeFileSync(keyFile(), `${two}\n${added}\n${one}\n`);
    stalled.done([id]);
    expect(readFileSync(keyFile(), 'utf8')).toBe(`${two}\n${added}\n`);
  });

  test('rotating adds a new key to the file if it contains none', async () => {
    writeFileSync(keyFile(), `${one}\n${three}\n`);
    await start();
    const printed = await rotated({}, '--yes');
    const [made, ...others] = readFileSync(keyFile(), 'utf8').trimEnd().split('\n') as [string, ...string[]];
    expect(others).toEqual([one, three]);
    expect(printed).toBe(`rotated master key ${idOf(one)} to ${idOf(made)}; rewrapped 2 data keys`);
    await start();
  });

  test('of concurrent rotations, those that checked the nodes for an older key fail, and the file has the key in use', async () => {
    writeFileSync(keyFile(), `${one}\n`);
    await start();
    const ended = await Promise.allSettled([1, 2, 3].map(() => rotated({}, '--yes')));
    const failed = ended.filter((each) => each.status === 'rejected');
    expect(failed.length).toBeLessThan(3);
    for (const { reason } of failed) expect(String(reason)).toContain('another process has rotated');
    const [current] = readFileSync(keyFile(), 'utf8').trimEnd().split('\n') as [string];
    expect(await masters()).toEqual([idOf(current)]);
    await start();
  });

  test('keys in the variable are rotated from the second to the first', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    await expect(rotated({ SALLYPORT_MASTER_KEY: one })).rejects.toThrow(
      'SALLYPORT_MASTER_KEY must contain the new key and, after a comma, the old one',
    );
    const nothing = `master key ${idOf(one)} is already in use`;
    expect(await rotated({ SALLYPORT_MASTER_KEY: `${one},${two}` })).toBe(nothing);
    await expect(rotated({ SALLYPORT_MASTER_KEY: `${two},${three}` })).rejects.toThrow(
      'which SALLYPORT_MASTER_KEY does not contain',
    );
    expect(await masters()).toEqual([idOf(one)]);
    await rotated({ SALLYPORT_MASTER_KEY: `${two},${one}` });
    expect(await masters()).toEqual([idOf(two)]);
    expect(existsSync(keyFile())).toBe(false);
  });

  test(
    database.name === 'SQLite'
      ? 'the first start creates a master key file that only its owner can read'
      : 'a start without a master key fails and creates none',
    async () => {
      if (database.name === 'SQLite') {
        await start();
        expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
        expect(await masters()).toEqual([idOf(readFileSync(keyFile(), 'utf8'))]);
        return;
      }
      await expect(start()).rejects.toThrow(
        `SALLYPORT_MASTER_KEY is not set, and SALLYPORT_MASTER_KEY_FILE ${keyFile()} does not exist`,
      );
      expect(existsSync(keyFile())).toBe(false);
      expect(await masters()).toEqual([]);
    },
  );
});

test('master-key new prints a different valid key each time', async () => {
  const text = await shell(['master-key', 'new']);
  const json = await shell(['master-key', 'new', '--json']);
  const keys = [text.out.trim(), JSON.parse(json.out).key];
  expect(new Set(keys.map(idOf)).size).toBe(2);
});
