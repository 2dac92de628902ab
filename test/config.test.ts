import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Config, ConfigError, flagOf, readConfig, settings } from '../src/config.ts';
import { Secret } from '../src/domain/key.ts';

const key = Buffer.alloc(32, 7).toString('base64');
const other = Buffer.alloc(32, 8).toString('base64');

type Name = keyof typeof settings;
type Row = { unset: unknown; given: [text: string, means: unknown][]; wrong: string[] };

const count: Row['given'] = [
  ['1', 1],
  ['5000', 5000],
];

/** Of every setting: what it is by itself, what two texts mean, and texts that it does not take. */
const table: { [K in Name]: Row } = {
  dataDir: {
    unset: resolve('data'),
    given: [
      ['here', resolve('here')],
      ['/there', '/there'],
    ],
    wrong: [],
  },
  host: {
    unset: '127.0.0.1',
    given: [
      ['0.0.0.0', '0.0.0.0'],
      ['::1', '::1'],
    ],
    wrong: [],
  },
  port: {
    unset: 8080,
    given: [
      ['0', 0],
      ['65535', 65_535],
    ],
    wrong: ['65536', '-1', '80.5', '1e3', ' 80', 'http', '0x50', '８０'],
  },
  trustedProxies: { unset: expect.anything(), given: [], wrong: ['nonsense', '10.0.0.0/33', '10.0.0'] },
  databaseUrl: {
    unset: `sqlite:${resolve('data/sallyport.db')}`,
    given: [
      ['sqlite:x.db', `sqlite:${resolve('x.db')}`],
      ['postgres://me:hunter2@db/shop', 'postgres://me:hunter2@db/shop'],
      ['postgresql://db/shop', 'postgresql://db/shop'],
    ],
    wrong: ['sqlite:', 'mysql://me:hunter2@db/x', 'x.db', 'postgres://me:hunter2@db:port/x', 'hunter2'],
  },
  databaseTimeout: { unset: 800, given: [['5000', 5000]], wrong: ['99', '60001', 'soon'] },
  managementKeyFile: {
    unset: resolve('data/management.key'),
    given: [
      ['a.key', resolve('a.key')],
      ['/b.key', '/b.key'],
    ],
    wrong: [],
  },
  masterKeyFile: {
    unset: resolve('data/master.key'),
    given: [
      ['a.key', resolve('a.key')],
      ['/b.key', '/b.key'],
    ],
    wrong: [],
  },
  masterKey: {
    unset: undefined,
    given: [
      [key, new Secret(key)],
      [`${other},${key}`, new Secret(`${other},${key}`)],
    ],
    wrong: ['hunter2', Buffer.alloc(31, 1).toString('base64'), `${key},hunter2`],
  },
  sessionTtl: {
    unset: 180_000,
    given: [
      ['1', 1000],
      ['604800', 604_800_000],
    ],
    wrong: ['0', '3m', '-5'],
  },
  sessionTtlMax: {
    unset: 604_800_000,
    given: [
      ['180', 180_000],
      ['31536000', 31_536_000_000],
    ],
    wrong: ['0', '31536001', '1 week'],
  },
  keyRate: { unset: 20_000, given: count, wrong: ['1000001', '-1', '10/s'] },
  keyBurst: { unset: 200_000, given: count, wrong: ['0', '100000001'] },
  addressRate: { unset: 20_000, given: count, wrong: ['1000001', 'none'] },
  addressBurst: { unset: 200_000, given: count, wrong: ['0', '100000001'] },
  sessionRate: { unset: 1200, given: count, wrong: ['1000001', '20/s'] },
  sessionBurst: { unset: 1000, given: count, wrong: ['0', '100000001'] },
  tokenRate: {
    unset: 30_000,
    given: [
      ['0', 0],
      ['100000000', 100_000_000],
    ],
    wrong: ['-1', 'many', '100000001'],
  },
  tokenByteRate: {
    unset: 134_217_728,
    given: [
      ['0', 0],
      ['1048576', 1_048_576],
    ],
    wrong: ['1048575', '00', 'many'],
  },
  tokenBytes: {
    unset: 21_474_836_480,
    given: [
      ['0', 0],
      ['1', 1],
    ],
    wrong: ['-1', '10GB'],
  },
  sessionsWaiting: {
    unset: 10_000,
    given: [
      ['0', 0],
      ['10000000', 10_000_000],
    ],
    wrong: ['-1', '10000001', 'all'],
  },
  workers: {
    unset: 1,
    given: [
      ['2', 2],
      ['64', 64],
    ],
    wrong: ['0', '65', 'all'],
  },
  metricsPort: {
    unset: undefined,
    given: [
      ['0', 0],
      ['9090', 9090],
    ],
    wrong: ['65536', 'yes'],
  },
  drain: {
    unset: 1000,
    given: [
      ['0', 0],
      ['300', 300_000],
    ],
    wrong: ['301', '1s'],
  },
  logLevel: {
    unset: 'info',
    given: [
      ['debug', 'debug'],
      ['silent', 'silent'],
    ],
    wrong: ['INFO', 'loud'],
  },
};

const names = Object.keys(table) as Name[];
const each = <T>(pick: (row: Row) => T[]) =>
  names.flatMap((name) =>
    pick(table[name]).map((value): [Name, string, T] => [name, settings[name].variable, value]),
  );

const plain = (value: unknown) => (value instanceof Secret ? value.reveal() : value);
const of = (config: Config, name: Name) => plain(config[name]);

function refusal(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error('it was taken');
}

describe('the settings', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'sallyport-config-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test('are all in this table', () => {
    expect(names.toSorted()).toEqual((Object.keys(settings) as Name[]).toSorted());
  });

  test.each(names)('%s has its default when nothing is given, or nothing but emptiness', (name) => {
    const { variable } = settings[name];
    expect(of(readConfig({}), name)).toEqual(table[name].unset);
    const empty = { env: { [variable]: '' }, flags: { [flagOf(variable)]: '' } };
    expect(of(readConfig(empty), name)).toEqual(table[name].unset);
  });

  test.each(each((row) => row.given))('%s: %s takes %p', (name, variable, [text, means]) => {
    expect(of(readConfig({ env: { [variable]: text } }), name)).toEqual(plain(means));
  });

  test.each(each((row) => row.given.slice(1, 2)))(
    '%s: a flag beats the environment, which beats .env, which beats the default',
    (name, variable, [text, means]) => {
      const [first, firstMeans] = table[name].given[0] as [string, unknown];
      const envFile = join(folder, `${name}.env`);
      writeFileSync(envFile, `# a note\n${variable}=${first}\n`);
      expect(of(readConfig({ envFile }), name)).toEqual(plain(firstMeans));
      const env = { [variable]: text };
      expect(of(readConfig({ envFile, env }), name)).toEqual(plain(means));
      const flags = { [flagOf(variable)]: first };
      expect(of(readConfig({ env, flags }), name)).toEqual(plain(firstMeans));
    },
  );

  test.each(each((row) => row.wrong))(
    '%s: %s does not take %p, and says so in one line',
    (_, variable, text) => {
      const message = refusal(() => readConfig({ env: { [variable]: text } }));
      expect(message).toMatch(new RegExp(`^${variable} must [^\\n]+$`));
      const byFlag = refusal(() => readConfig({ flags: { [flagOf(variable)]: text } }));
      expect(byFlag).toStartWith(`--${flagOf(variable)} (${variable}) must `);
    },
  );

  test('that hold a secret are not repeated when they are wrong', () => {
    for (const name of ['databaseUrl', 'masterKey'] as const) {
      for (const text of table[name].wrong) {
        const { variable } = settings[name];
        const message = refusal(() => readConfig({ env: { [variable]: text } }));
        expect(message).not.toContain('hunter2');
        if (text !== 'sqlite:') expect(message).not.toContain(text);
      }
    }
  });

  test('that are wrong in more than one line are still told in one', () => {
    expect(refusal(() => readConfig({ env: { PORT: '80\n80' } }))).toEndWith('not "80\\n80"');
    expect(refusal(() => readConfig({ env: { SALLYPORT_LOG_LEVEL: 'in\r\nfo' } }))).not.toMatch(/[\r\n]/);
  });

  test('of Sessions fit together', () => {
    const env = { SALLYPORT_SESSION_TTL: '60', SALLYPORT_SESSION_TTL_MAX: '59' };
    expect(refusal(() => readConfig({ env }))).toContain('SALLYPORT_SESSION_TTL_MAX');
    expect(readConfig({ env: { ...env, SALLYPORT_SESSION_TTL_MAX: '60' } }).sessionTtl).toBe(60_000);
  });

  test('follow the data folder where they are not given themselves', () => {
    const config = readConfig({ env: { SALLYPORT_DATA_DIR: '/srv/sallyport' } });
    expect(config).toMatchObject({
      databaseUrl: 'sqlite:/srv/sallyport/sallyport.db',
      managementKeyFile: '/srv/sallyport/management.key',
      masterKeyFile: '/srv/sallyport/master.key',
    });
  });

  test('may be without a .env, but not with one that cannot be read', () => {
    expect(readConfig({ envFile: join(folder, 'none') }).port).toBe(8080);
    expect(refusal(() => readConfig({ envFile: folder }))).toStartWith('.env cannot be read: ');
  });
});
