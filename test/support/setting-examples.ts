import { expect } from 'bun:test';
import { resolve } from 'node:path';
import type { settings } from '../../src/config/settings.ts';
import { Secret } from '../../src/domain/key.ts';

export const key = Buffer.alloc(32, 7).toString('base64');
const other = Buffer.alloc(32, 8).toString('base64');

export type Name = keyof typeof settings;
export type Row = { unset: unknown; valid: [text: string, value: unknown][]; invalid: string[] };

const count: Row['valid'] = [
  ['1', 1],
  ['5000', 5000],
];

/** For every setting: its default, valid texts with their values, and invalid texts. */
export const table: { [K in Name]: Row } = {
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
  witness: { unset: undefined, valid: [['/shared/witness', '/shared/witness']], invalid: [] },
  witnessOptional: {
    unset: false,
    valid: [
      ['true', true],
      ['false', false],
    ],
    invalid: ['yes'],
  },
  framesUrl: {
    unset: undefined,
    valid: [
      ['https://frames.example.com', 'https://frames.example.com'],
      ['https://frames.example.com:8443/', 'https://frames.example.com:8443'],
      ['http://frames.localhost:8080', 'http://frames.localhost:8080'],
      ['http://127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ],
    invalid: [
      'frames.example.com',
      'http://frames.example.com',
      'http://notlocalhost',
      'https://frames.example.com/path',
      'https://me@frames.example.com',
      'https://frames.example.com?x',
      'ftp://localhost',
    ],
  },
  nodeUrl: {
    unset: undefined,
    valid: [['http://10.0.0.5:8080', 'http://10.0.0.5:8080']],
    invalid: ['10.0.0.5:8080'],
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
  destinationNetworks: {
    unset: expect.anything(),
    valid: [],
    invalid: ['nonsense', '10.0.0.0/33', '10.0.0'],
  },
  trustedProxies: { unset: expect.anything(), valid: [], invalid: ['nonsense', '10.0.0.0/33', '10.0.0'] },
  oidcIssuers: {
    unset: [],
    valid: [
      ['https://login.example https://b.example/realm', ['https://login.example', 'https://b.example/realm']],
    ],
    invalid: ['login.example', 'http://login.example', 'https://me:hunter2@x'],
  },
  oidcClientIds: { unset: [], valid: [['a b', ['a', 'b']]], invalid: [] },
  oidcClientSecret: { unset: undefined, valid: [['hunter2', new Secret('hunter2')]], invalid: [] },
  oidcClientSecretFile: { unset: undefined, valid: [['/secret', '/secret']], invalid: [] },
  oidcScope: { unset: 'openid profile email', valid: [['openid groups', 'openid groups']], invalid: [] },
  consoleSessionIdle: { unset: 1_800_000, valid: [['120', 120_000]], invalid: ['119', '86401', 'long'] },
  consoleSessionMax: { unset: 43_200_000, valid: [['604800', 604_800_000]], invalid: ['119', '604801'] },
  consoleKeys: { unset: 'on', valid: [['off', 'off']], invalid: ['no'] },
  issuerNetworks: { unset: expect.anything(), valid: [], invalid: ['nonsense', '10.0.0.0/33'] },
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
  masterKeyCommand: {
    unset: undefined,
    valid: [
      ['print-key', ['print-key']],
      [
        `/usr/bin/vault kv get -field="master key" 'secret/a "b"'  x"y z"w`,
        ['/usr/bin/vault', 'kv', 'get', '-field=master key', 'secret/a "b"', 'xy zw'],
      ],
      ['print $KEY;ls ""', ['print', '$KEY;ls', '']],
    ],
    invalid: [' ', '""', 'print "key', "it's"],
  },
  masterKeyCommandEnv: {
    unset: [],
    valid: [
      ['VAULT_ADDR', ['VAULT_ADDR']],
      ['AWS_PROFILE, _x1', ['AWS_PROFILE', '_x1']],
    ],
    invalid: [
      'A,',
      'A B',
      'VAULT_*',
      '1A',
      'A=b',
      'SALLYPORT_MASTER_KEY',
      'A,sallyport_sink',
      'DATABASE_URL',
      'PGPASSWORD',
    ],
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
  revocationRate: { unset: 60, valid: count, invalid: ['1000001', '1/m'] },
  exchangeRate: { unset: 600, valid: count, invalid: ['1000001', '1/m'] },
  tokenRate: {
    unset: 30_000,
    valid: [
      ['0', 0],
      ['100000000', 100_000_000],
    ],
    invalid: ['-1', 'many', '100000001'],
  },
  searchRate: { unset: 600, valid: count, invalid: ['-1', 'many', '100000001'] },
  useRate: { unset: 30, valid: count, invalid: ['-1', 'many', '100000001'] },
  searchMissRate: { unset: 60, valid: count, invalid: ['-1', 'many', '100000001'] },
  tokenByteRate: {
    unset: 134_217_728,
    valid: [
      ['0', 0],
      ['1048576', 1_048_576],
    ],
    invalid: ['1048575', '00', 'many'],
  },
  processingRate: {
    unset: 500,
    valid: [
      ['0', 0],
      ['1000', 1000],
    ],
    invalid: ['-1', '1001', '5 s'],
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
  memory: {
    unset: Math.min(process.constrainedMemory(), 2 ** 30),
    valid: [['67108864', 67_108_864]],
    invalid: ['67108863', '512Mi'],
  },
  metricsPort: {
    unset: undefined,
    valid: [
      ['0', 0],
      ['9090', 9090],
    ],
    invalid: ['65536', 'yes'],
  },
  requireExisting: {
    unset: false,
    valid: [
      ['true', true],
      ['false', false],
    ],
    invalid: ['1', 'yes', 'TRUE'],
  },
  drain: {
    unset: 15_000,
    valid: [
      ['0', 0],
      ['300', 300_000],
    ],
    invalid: ['301', '1s'],
  },
  auditRetention: {
    unset: undefined,
    valid: [
      ['3mo', { months: 3 }],
      ['90d', 90 * 86_400_000],
      ['24h', 86_400_000],
      ['30m', 1_800_000],
      ['10s', 10_000],
    ],
    invalid: ['0', '0d', '0mo', '90', '90 days', '-1d', '1.5h', '1w', 'forever'],
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
