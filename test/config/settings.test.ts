import { describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, ConfigError, flagOf, readConfig, settings } from '../../src/config/settings.ts';
import { Secret } from '../../src/domain/key.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { type Name, type Row, table } from '../support/setting-examples.ts';

const names = Object.keys(table) as Name[];
const each = <T>(pick: (row: Row) => T[]) =>
  names.flatMap((name) =>
    pick(table[name]).map((value): [Name, string, T] => [name, settings[name].variable, value]),
  );

const plain = (value: unknown) => (value instanceof Secret ? value.reveal() : value);
const of = (config: Config, name: Name) => plain(config[name]);

function errorOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error('the settings were accepted');
}

describe('settings', async () => {
  const folder = temporaryFolder();

  test('are all in this table', () => {
    expect(names.toSorted()).toEqual((Object.keys(settings) as Name[]).toSorted());
  });

  test.each(names)('%s has its default if it is unset or empty', (name) => {
    const { variable } = settings[name];
    expect(of(readConfig({}), name)).toEqual(table[name].unset);
    const empty = { env: { [variable]: '' }, flags: { [flagOf(variable)]: '' } };
    expect(of(readConfig(empty), name)).toEqual(table[name].unset);
  });

  test.each(each((row) => row.valid))('%s: %s accepts %p', (name, variable, [text, value]) => {
    expect(of(readConfig({ env: { [variable]: text } }), name)).toEqual(plain(value));
  });

  test.each(each((row) => row.valid.slice(1, 2)))(
    '%s: a flag overrides the environment, which overrides .env, which overrides the default',
    (name, variable, [text, value]) => {
      const [first, firstMeans] = table[name].valid[0] as [string, unknown];
      const envFile = join(folder, `${name}.env`);
      const inFile = 'notInEnvFile' in settings[name] ? '' : `${variable}=${first}`;
      writeFileSync(envFile, `# a note\n${inFile}\n`);
      if (inFile) expect(of(readConfig({ envFile }), name)).toEqual(plain(firstMeans));
      const env = { [variable]: text };
      expect(of(readConfig({ envFile, env }), name)).toEqual(plain(value));
      const flags = { [flagOf(variable)]: first };
      expect(of(readConfig({ env, flags }), name)).toEqual(plain(firstMeans));
    },
  );

  test.each(each((row) => row.invalid))('%s: %s rejects %p with one line', (_, variable, text) => {
    const message = errorOf(() => readConfig({ env: { [variable]: text } }));
    expect(message).toMatch(new RegExp(`^${variable} must [^\\n]+$`));
    const byFlag = errorOf(() => readConfig({ flags: { [flagOf(variable)]: text } }));
    expect(byFlag).toStartWith(`--${flagOf(variable)} (${variable}) must `);
  });

  test('with secrets are not repeated in error messages', () => {
    for (const name of ['databaseUrl', 'masterKey'] as const) {
      for (const text of table[name].invalid) {
        const { variable } = settings[name];
        const message = errorOf(() => readConfig({ env: { [variable]: text } }));
        expect(message).not.toContain('hunter2');
        if (text !== 'sqlite:') expect(message).not.toContain(text);
      }
    }
  });

  test('with line feeds are rejected with one line', () => {
    expect(errorOf(() => readConfig({ env: { PORT: '80\n80' } }))).toEndWith('not "80\\n80"');
    expect(errorOf(() => readConfig({ env: { SALLYPORT_LOG_LEVEL: 'in\r\nfo' } }))).not.toMatch(/[\r\n]/);
  });

  test('for the session lifetime must not exceed the maximum', () => {
    const env = { SALLYPORT_SESSION_TTL: '60', SALLYPORT_SESSION_TTL_MAX: '59' };
    expect(errorOf(() => readConfig({ env }))).toContain('SALLYPORT_SESSION_TTL_MAX');
    expect(readConfig({ env: { ...env, SALLYPORT_SESSION_TTL_MAX: '60' } }).sessionTtl).toBe(60_000);
  });

  test('for the frames must have another host than the public URL', () => {
    const env = { SALLYPORT_PUBLIC_URL: 'https://keys.example.com/base' };
    const same = { ...env, SALLYPORT_FRAMES_URL: 'https://keys.example.com' };
    expect(errorOf(() => readConfig({ env: same }))).toContain('SALLYPORT_FRAMES_URL must have another host');
    const other = { ...env, SALLYPORT_FRAMES_URL: 'https://frames.example.com' };
    expect(readConfig({ env: other }).framesUrl).toBe('https://frames.example.com');
  });

  test('for files default to paths in the data folder', () => {
    const config = readConfig({ env: { SALLYPORT_DATA_DIR: '/srv/sallyport' } });
    expect(config).toMatchObject({
      databaseUrl: 'sqlite:/srv/sallyport/sallyport.db',
      managementKeyFile: '/srv/sallyport/management.key',
      masterKeyFile: '/srv/sallyport/master.key',
    });
  });

  test('work without a .env file; an unreadable one is an error', () => {
    expect(readConfig({ envFile: join(folder, 'none') }).port).toBe(8080);
    expect(errorOf(() => readConfig({ envFile: folder }))).toStartWith('cannot read .env: ');
  });
});
