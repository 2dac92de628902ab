import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openData } from '../../src/app.ts';
import { printMasterKey, rotate } from '../../src/cli/commands/master-key.ts';
import type { Terminal } from '../../src/cli/terminal/terminal.ts';
import { type Config, ConfigError, readConfig } from '../../src/config.ts';
import { parseMasterKeys } from '../../src/store/crypto/cipher.ts';
import { WrongMasterKey } from '../../src/store/crypto/keyring.ts';
import { databases } from '../support/test-server.ts';
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
    folder = mkdtempSync(join(tmpdir(), 'sallyport-master-'));
    databaseUrl = await database.createEmpty(folder);
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const keyFile = () => join(folder, 'master.key');
  const configured = (env: Record<string, string> = {}): Config =>
    readConfig({ env: { DATABASE_URL: databaseUrl, SALLYPORT_DATA_DIR: folder, ...env } });

  /** Opens the database as a start does, and closes it. */
  async function start(env?: Record<string, string>): Promise<void> {
    const { store, maintenance, close } = await openData(configured(env));
    const [tenant] = await maintenance.tenants.list();
    await store.tokens.get(tenant?.id as string, 'none');
    await close();
  }

  /** The first line that it prints. */
  async function rotated(env?: Record<string, string>, ...given: string[]): Promise<string> {
    const printed: string[] = [];
    const print = (line: string) => printed.push(...line.split('\n'));
    const options = { on: (name: string) => given.includes(name), value: () => undefined, values: () => [] };
    const terminal = {} as Terminal;
    expect(await rotate({ config: configured(env), options, terminal, json: false, print })).toBe(0);
    return printed[0] as string;
  }

  const masters = async () => {
    const rows = await runSql<{ id: string }>(
      databaseUrl,
      'select id from master_key union select master_id from data_keys',
    );
    return rows.map(({ id }) => id);
  };

  test('of the first start seals the database, and no other opens it', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    await start({ SALLYPORT_MASTER_KEY: one });
    const refusal = start({ SALLYPORT_MASTER_KEY: two });
    await expect(refusal).rejects.toThrow(
      `the database was sealed with the master key ${idOf(one)}, which SALLYPORT_MASTER_KEY does not hold`,
    );
    await expect(refusal).rejects.toBeInstanceOf(WrongMasterKey);
    expect(await masters()).toEqual([idOf(one)]);
  });

  test('that is gone is not made anew', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    await expect(start()).rejects.toThrow(
      `the database was sealed with the master key ${idOf(one)}, and SALLYPORT_MASTER_KEY_FILE ${keyFile()} is not there`,
    );
    expect(existsSync(keyFile())).toBe(false);
    expect(existsSync(`${keyFile()}.new`)).toBe(false);
  });

  test('in a file that holds another is refused with the name of that file', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    writeFileSync(keyFile(), two);
    await expect(start()).rejects.toThrow(`which SALLYPORT_MASTER_KEY_FILE ${keyFile()} does not hold`);
  });

  test('may be one of several: whichever opens is found, and what is new is sealed with the same', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    for (const keys of [`${two},${one}`, `${one}, ${two}`, `${three}\n${two}\n${one}`])
      await start({ SALLYPORT_MASTER_KEY: keys });
    writeFileSync(keyFile(), `${two}\n${one}\n`);
    await start();
    expect(await masters()).toEqual([idOf(one)]);
  });

  test.each([
    ['nothing', ''],
    ['white space', ' \n'],
    ['31 bytes', Buffer.alloc(31).toString('base64')],
    ['33 bytes', Buffer.alloc(33).toString('base64')],
    ['hexadecimal digits', 'ab'.repeat(32)],
    ['a key and something else', `${one},secret`],
  ])(
    'must be one: %s in its file is refused by the name of the setting, and not repeated',
    async (_what, text) => {
      writeFileSync(keyFile(), text);
      const refusal = (await start().catch((error: unknown) => error)) as ConfigError;
      expect(refusal).toBeInstanceOf(ConfigError);
      expect(refusal.message).toStartWith(`SALLYPORT_MASTER_KEY_FILE ${keyFile()} must `);
      for (const part of text.split(/[\s,]+/)) if (part) expect(refusal.message).not.toContain(part);
    },
  );

  test('on top of a file is gone over to, and the old one stays below it unless it is dropped', async () => {
    writeFileSync(keyFile(), `${one}\n`, { mode: 0o600 });
    await start();
    writeFileSync(keyFile(), `${two}\n${one}\n`);
    await start();
    expect(await rotated()).toBe(`rotated master key ${idOf(one)} to ${idOf(two)}; rewrapped 2 data keys`);
    expect(readFileSync(keyFile(), 'utf8')).toBe(`${two}\n${one}\n`);
    writeFileSync(keyFile(), `${three}\n${two}\n${one}\n`);
    await rotated({}, 'drop-old', 'yes');
    expect(readFileSync(keyFile(), 'utf8')).toBe(`${three}\n`);
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
    expect(await masters()).toEqual([idOf(three)]);
    await start();
  });

  test('is made by a rotation when the file has no new one, and all the others are kept', async () => {
    writeFileSync(keyFile(), `${one}\n${three}\n`);
    await start();
    const printed = await rotated();
    const [made, ...others] = readFileSync(keyFile(), 'utf8').trimEnd().split('\n') as [string, ...string[]];
    expect(others).toEqual([one, three]);
    expect(printed).toBe(`rotated master key ${idOf(one)} to ${idOf(made)}; rewrapped 2 data keys`);
    await start();
  });

  test('is rotated by several at once: all finish, and the one in use is kept', async () => {
    writeFileSync(keyFile(), `${one}\n`);
    await start();
    await Promise.all([rotated(), rotated(), rotated()]);
    const [current] = readFileSync(keyFile(), 'utf8').trimEnd().split('\n') as [string];
    expect(await masters()).toEqual([idOf(current)]);
    await start();
  });

  test('in a variable is rotated from the second to the first, if they are given in that order', async () => {
    await start({ SALLYPORT_MASTER_KEY: one });
    await expect(rotated({ SALLYPORT_MASTER_KEY: one })).rejects.toThrow(
      'SALLYPORT_MASTER_KEY must hold the new key and, after a comma, the old one',
    );
    const nothing = `master key ${idOf(one)} is already in use`;
    expect(await rotated({ SALLYPORT_MASTER_KEY: `${one},${two}` })).toBe(nothing);
    await expect(rotated({ SALLYPORT_MASTER_KEY: `${two},${three}` })).rejects.toBeInstanceOf(WrongMasterKey);
    expect(await masters()).toEqual([idOf(one)]);
    await rotated({ SALLYPORT_MASTER_KEY: `${two},${one}` });
    expect(await masters()).toEqual([idOf(two)]);
    expect(existsSync(keyFile())).toBe(false);
  });

  test(
    database.name === 'SQLite'
      ? 'is made on the first start, where only its owner can read it'
      : 'must be given to a fleet: none is made up, and the database is bound to none',
    async () => {
      if (database.name === 'SQLite') {
        await start();
        expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
        expect(await masters()).toEqual([idOf(readFileSync(keyFile(), 'utf8'))]);
        return;
      }
      await expect(start()).rejects.toThrow(
        `SALLYPORT_MASTER_KEY is not set, and SALLYPORT_MASTER_KEY_FILE ${keyFile()} is not there`,
      );
      expect(existsSync(keyFile())).toBe(false);
      expect(await masters()).toEqual([]);
    },
  );
});

test('master-key new prints a key that can be given, another each time', async () => {
  const printed: string[] = [];
  const print = (line: string) => printed.push(line);
  for (const json of [false, true]) await printMasterKey({ json, print });
  const keys = [printed[0] as string, JSON.parse(printed[1] as string).key];
  expect(new Set(keys.map(idOf)).size).toBe(2);
});
