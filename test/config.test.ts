import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Config, ConfigError, flagOf, readConfig, settings } from '../src/config.ts';
import { Secret } from '../src/domain/key.ts';

const key = Buffer.alloc(32, 7).toString('base64');
const other = Buffer.alloc(32, 8).toString('base64');

type Name = keyof typeof settings;
type Row = { unset: unknown; valid: [text: string, value: unknown][]; invalid: string[] };

const count: Row['valid'] = [
  ['1', 1],
  ['5000', 5000],
];

/** Of every setting: its default, valid texts with their values, and invalid texts. */
const table: { [K in Name]: Row } = {
  dataDir: {
    unset: resolve('data'),
    valid: [
      ['here', resolve('here')],
      ['/there', '/there'],
    ],
    invalid: [],
  },
  host: {
    unset: '127.0.0.1',
    valid: [
      ['0.0.0.0', '0.0.0.0'],
      ['::1', '::1'],
    ],
    invalid: [],
  },
  port: {
    unset: 8080,
    valid: [
      ['0', 0],
      ['65535', 65_535],
    ],
    invalid: ['65536', '-1', '80.5', '1e3', ' 80', 'http', '0x50', '８０'],
  },
  publicUrl: {
    unset: undefined,
    valid: [
      ['https://keys.example.com/', 'https://keys.example.com'],
      ['http://localhost:8080/base', 'http://localhost:8080/base'],
    ],
    invalid: [
      'keys.example.com',
      'ftp://x',
      'https://',
      'https://me:hunter2@x',
      'https://x?y',
      'https://x#y',
    ],
  },
  trustedProxies: { unset: expect.anything(), valid: [], invalid: ['nonsense', '10.0.0.0/33', '10.0.0'] },
  databaseUrl: {
    unset: `sqlite:${resolve('data/sallyport.db')}`,
    valid: [
      ['sqlite:x.db', `sqlite:${resolve('x.db')}`],
      ['postgres://me:hunter2@db/shop', 'postgres://me:hunter2@db/shop'],
      ['postgresql://db/shop', 'postgresql://db/shop'],
      ['postgres://a,b:5433/x?sslmode=require', 'postgres://a,b:5433/x?sslmode=require'],
    ],
    invalid: [
      ...['sqlite:', 'mysql://me:hunter2@db/x', 'x.db', 'postgres://me:hunter2@db:port/x', 'hunter2'],
      ...['postgres://me:hunter2%@db/x', 'postgres://me:1/hunter2@db/x', 'postgres://me:1#hunter2@db/x'],
      ...['postgres://me:1?hunter2@db/x', 'postgres://me:hunter2@db/x?sslmode=on'],
    ],
  },
  databaseConnections: { unset: 10, valid: [['2', 2]], invalid: ['1', '1001', 'many'] },
  databaseTimeout: { unset: 800, valid: [['5000', 5000]], invalid: ['99', '60001', 'soon'] },
  managementKeyFile: {
    unset: resolve('data/management.key'),
    valid: [
      ['a.key', resolve('a.key')],
      ['/b.key', '/b.key'],
    ],
    invalid: [],
  },
  masterKeyFile: {
    unset: resolve('data/master.key'),
    valid: [
      ['a.key', resolve('a.key')],
      ['/b.key', '/b.key'],
    ],
    invalid: [],
  },
  masterKey: {
    unset: undefined,
    valid: [
      [key, new Secret(key)],
      [`${other},${key}`, new Secret(`${other},${key}`)],
    ],
    invalid: ['hunter2', Buffer.alloc(31, 1).toString('base64'), `${key},hunter2`],
  },
  sinksFile: { unset: undefined, valid: [['sinks.yaml', resolve('sinks.yaml')]], invalid: [] },
  sink: { unset: undefined, valid: [['{type: file}', new Secret('{type: file}')]], invalid: [] },
  sessionTtl: {
    unset: 180_000,
    valid: [
      ['1', 1000],
      ['604800', 604_800_000],
    ],
    invalid: ['0', '3m', '-5'],
  },
  sessionTtlMax: {
    unset: 604_800_000,
    valid: [
      ['180', 180_000],
      ['31536000', 31_536_000_000],
    ],
    invalid: ['0', '31536001', '1 week'],
  },
  keyRate: { unset: 20_000, valid: count, invalid: ['1000001', '-1', '10/s'] },
  keyBurst: { unset: 200_000, valid: count, invalid: ['0', '100000001'] },
  addressRate: { unset: 20_000, valid: count, invalid: ['1000001', 'none'] },
  addressBurst: { unset: 200_000, valid: count, invalid: ['0', '100000001'] },
  sessionRate: { unset: 1200, valid: count, invalid: ['1000001', '20/s'] },
  sessionBurst: { unset: 1000, valid: count, invalid: ['0', '100000001'] },
  tokenRate: {
    unset: 30_000,
    valid: [
      ['0', 0],
      ['100000000', 100_000_000],
    ],
    invalid: ['-1', 'many', '100000001'],
  },
  tokenByteRate: {
    unset: 134_217_728,
    valid: [
      ['0', 0],
      ['1048576', 1_048_576],
    ],
    invalid: ['1048575', '00', 'many'],
  },
  tokenBytes: {
    unset: 21_474_836_480,
    valid: [
      ['0', 0],
      ['1', 1],
    ],
    invalid: ['-1', '10GB'],
  },
  pendingSessions: {
    unset: 10_000,
    valid: [
      ['0', 0],
      ['10000000', 10_000_000],
    ],
    invalid: ['-1', '10000001', 'all'],
  },
  auditReads: {
    unset: 'reveal',
    valid: [
      ['all', 'all'],
      ['off', 'off'],
    ],
    invalid: ['none', 'Reveal'],
  },
  workers: {
    unset: 1,
    valid: [
      ['2', 2],
      ['64', 64],
    ],
    invalid: ['0', '65', 'all'],
  },
  metricsPort: {
    unset: undefined,
    valid: [
      ['0', 0],
      ['9090', 9090],
    ],
    invalid: ['65536', 'yes'],
  },
  drain: {
    unset: 1000,
    valid: [
      ['0', 0],
      ['300', 300_000],
    ],
    invalid: ['301', '1s'],
  },
  auditRetention: {
    unset: undefined,
    valid: [
      ['90d', 90 * 86_400_000],
      ['24h', 86_400_000],
      ['30m', 1_800_000],
      ['10s', 10_000],
    ],
    invalid: ['0', '0d', '90', '90 days', '-1d', '1.5h', '1w', 'forever'],
  },
  logLevel: {
    unset: 'info',
    valid: [
      ['debug', 'debug'],
      ['silent', 'silent'],
    ],
    invalid: ['INFO', 'loud'],
  },
};

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

describe('settings', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'sallyport-config-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

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
      writeFileSync(envFile, `# a note\n${variable}=${first}\n`);
      expect(of(readConfig({ envFile }), name)).toEqual(plain(firstMeans));
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
