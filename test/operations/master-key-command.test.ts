import { beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openData } from '../../src/app.ts';
import { ConfigError, readConfig } from '../../src/config/settings.ts';
import { parseMasterKeys } from '../../src/db/keys/cipher.ts';
import {
  commandKeys,
  type KeyCommand,
  keyCommand,
  keysFromCommand,
  keysInBackground,
} from '../../src/operations/master-key-command.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { shell } from '../support/shell.ts';
import { databases } from '../support/test-server.ts';
import { until } from '../support/until.ts';

const [one, two] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [string, string];
const idOf = (key: string) => parseMasterKeys(key)[0]?.id as string;

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});
const secretFile = () => join(folder, 'secret');

/** The error of a command. It must not contain the command's output, and must be the same in the background. */
async function errorOf(argv: string[], timeout?: number): Promise<string> {
  const runs = [
    () => keysFromCommand({ argv }, timeout),
    () => keysInBackground({ argv }, timeout === undefined ? {} : { timeout }),
  ];
  const errors = [];
  for (const run of runs)
    try {
      await run();
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
      const { message, hint } = error as ConfigError;
      expect(`${message} ${hint}`).not.toContain('printed-secret');
      errors.push(message);
    }
  expect(errors[0]).toBe(errors[1]);
  return errors[0] ?? 'no error';
}

describe('a command that prints the master key', () => {
  test('is given up in the background although a program that it started has its output open', async () => {
    const argv = ['sh', '-c', 'sleep 5 | cat'];
    await expect(keysInBackground({ argv }, { timeout: 50 })).rejects.toThrow(
      'SALLYPORT_MASTER_KEY_COMMAND failed: sh did not end within 0.05 seconds',
    );
  });

  test('fails with one sentence that does not contain its output', async () => {
    const failed = 'SALLYPORT_MASTER_KEY_COMMAND failed:';
    const script = (code: string) => [process.execPath, '--no-env-file', '-e', code];
    const bun = process.execPath;
    expect(await errorOf([join(folder, 'missing')])).toBe(
      `${failed} ${join(folder, 'missing')} cannot be run`,
    );
    expect(
      await errorOf(
        script('console.log("printed-secret"); console.error("printed-secret"); process.exit(7)'),
      ),
    ).toBe(`${failed} ${bun} exited with 7`);
    expect(await errorOf(script('process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000)'))).toBe(
      `${failed} ${bun} was ended by SIGTERM`,
    );
    expect(await errorOf(script('setInterval(() => {}, 1000)'), 50)).toBe(
      `${failed} ${bun} did not end within 0.05 seconds`,
    );
    expect(await errorOf(script('console.log("printed-secret")'))).toContain(
      'the output of SALLYPORT_MASTER_KEY_COMMAND must be base64 of 32 bytes',
    );
    expect(await errorOf(script('0'))).toContain('must hold a key');
    expect(await errorOf(script('process.stdout.write("printed-secret".repeat(1e5))'))).toContain(
      `${failed} ${bun}`,
    );
  });

  test('is killed together with the programs that it has started', async () => {
    const argv = ['sh', '-c', 'sleep 1000 & echo $! > "$0"; wait', secretFile()];
    for (let timeout = 250; !existsSync(secretFile()); timeout *= 2)
      await expect(keysInBackground({ argv }, { timeout })).rejects.toThrow('did not end within');
    const pid = readFileSync(secretFile(), 'utf8').trim();
    const state = () => Bun.spawnSync(['ps', '-o', 'stat=', '-p', pid]).stdout.toString().trim();
    await until('the program has ended', () => ['', 'Z'].includes(state().slice(0, 1)));
  });

  test('runs without a shell', async () => {
    writeFileSync(secretFile(), one);
    expect(await errorOf(['cat', `${secretFile()};echo`])).toContain('cat exited with 1');
    expect(keysFromCommand({ argv: ['cat', secretFile()] })[0]?.id).toBe(idOf(one));
  });

  test('gets only the common variables and those that are named', async () => {
    const set = {
      LANG: 'C',
      TZ: 'UTC',
      VAULT_ADDR: 'https://vault.example',
      AWS_SECRET_ACCESS_KEY: 'printed-secret',
      DATABASE_URL: 'postgres://printed-secret@db/x',
      PGPASSWORD: 'printed-secret',
      SALLYPORT_SINK: 'printed-secret',
    };
    const before = { ...process.env };
    Object.assign(process.env, set);
    try {
      const code =
        'require("node:fs").writeFileSync(process.argv[1], JSON.stringify(process.env)); console.log(process.argv[2])';
      const argv = [process.execPath, '--no-env-file', '-e', code, secretFile(), one];
      const received = async (run: (command: KeyCommand) => unknown, variables?: string[]) => {
        await run({ argv, ...(variables && { variables }) });
        return JSON.parse(readFileSync(secretFile(), 'utf8'));
      };
      const { PATH, HOME } = process.env;
      const common = { PATH, HOME, LANG: 'C', TZ: 'UTC' };
      for (const run of [keysFromCommand, keysInBackground]) {
        expect(await received(run)).toEqual(common);
        const named = await received(run, ['VAULT_ADDR', 'VAULT_TOKEN']);
        expect(named).toEqual({ ...common, VAULT_ADDR: set.VAULT_ADDR });
      }
      const env = { SALLYPORT_MASTER_KEY_COMMAND: 'a b', SALLYPORT_MASTER_KEY_COMMAND_ENV: 'VAULT_ADDR' };
      expect(keyCommand(readConfig({ env }))).toEqual({ argv: ['a', 'b'], variables: ['VAULT_ADDR'] });
    } finally {
      for (const name of Object.keys(set)) delete process.env[name];
      Object.assign(process.env, before);
    }
  });

  test('runs again in the background for a key that it did not print, at most every 10 seconds', async () => {
    let now = 0;
    writeFileSync(secretFile(), one);
    const masters = commandKeys({ argv: ['cat', secretFile()] }, { now: () => now });
    expect(masters.current().id).toBe(idOf(one));
    writeFileSync(secretFile(), `${two}\n${one}\n`);
    now = 9_999;
    expect(masters.find(idOf(two))).toBeUndefined();
    expect(masters.missingReason?.()).toBe('which SALLYPORT_MASTER_KEY_COMMAND does not print');
    now = 10_000;
    await until('the key is found', () => masters.find(idOf(two))?.id === idOf(two));
    expect(masters.find(idOf(one))?.id).toBe(idOf(one));
  });

  test('must be the only source of the key, and must not come from .env', () => {
    const read = (env: Record<string, string>, envFile?: string) => {
      try {
        readConfig({ env: { SALLYPORT_DATA_DIR: folder, ...env }, ...(envFile && { envFile }) });
        return 'accepted';
      } catch (error) {
        return (error as Error).message;
      }
    };
    const command = { SALLYPORT_MASTER_KEY_COMMAND: 'print-key' };
    expect(read(command)).toBe('accepted');
    for (const other of ['SALLYPORT_MASTER_KEY', 'SALLYPORT_MASTER_KEY_FILE'])
      expect(read({ ...command, [other]: one })).toBe(
        `SALLYPORT_MASTER_KEY_COMMAND and ${other} cannot both be set: unset one of them`,
      );
    writeFileSync(join(folder, '.env'), 'SALLYPORT_MASTER_KEY_COMMAND=print-key\n');
    expect(read({}, join(folder, '.env'))).toBe(
      'SALLYPORT_MASTER_KEY_COMMAND is not allowed in .env: set it in the environment',
    );
  });
});

describe.each(databases)('a master key from a command on %s', (_, database) => {
  test('opens the database, and is rotated when the command prints a new one first', async () => {
    const url = await database.createEmpty(folder);
    const env = {
      DATABASE_URL: url,
      SALLYPORT_DATA_DIR: folder,
      SALLYPORT_MASTER_KEY_COMMAND: `cat "${secretFile()}"`,
    };
    const start = async () => (await openData(readConfig({ env }))).close();
    const rotate = (...options: string[]) => shell(['master-key', 'rotate', ...options], { env });
    writeFileSync(secretFile(), `${one}\n`);
    await start();
    expect((await rotate()).err).toContain('must print the new key and, on the next line, the old one');
    expect((await rotate('--drop-old')).err).toContain('--drop-old works only with a key file');
    writeFileSync(secretFile(), `${two}\n${one}\n`);
    expect((await rotate()).out).toStartWith(`rotated master key ${idOf(one)} to ${idOf(two)}`);
    writeFileSync(secretFile(), `${two}\n`);
    await start();
    writeFileSync(secretFile(), `${one}\n`);
    await expect(start()).rejects.toThrow('which SALLYPORT_MASTER_KEY_COMMAND does not print');
    rmSync(secretFile());
    await expect(start()).rejects.toThrow('SALLYPORT_MASTER_KEY_COMMAND failed: cat exited with 1');
  });
});
