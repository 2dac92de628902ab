import { expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSinks } from '../../../src/audit/delivery/config.ts';
import { ConfigError } from '../../../src/config/settings.ts';
import { Secret } from '../../../src/domain/key.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { webhookSecret } from '../../support/sink-receivers.ts';

const folder = temporaryFolder();

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const context = { env: { SIEM_SECRET: webhookSecret }, now: Date.now };
const fromFile = (text: string) =>
  readSinks({ sinksFile: write('sinks.yaml', text), sink: undefined }, context);
const fromVariable = (value: unknown) =>
  readSinks({ sinksFile: undefined, sink: new Secret(JSON.stringify(value)) }, context);

test('sinks of every kind are read from YAML, with secrets from files and environment variables', () => {
  const secretFile = write('secret', 'AKIA\n');
  const sinks = fromFile(`
sinks:
  - name: siem
    type: webhook
    url: https://siem.example.com/hooks?token=hunter2
    secret: { env: SIEM_SECRET }
    headers: { Authorization: { file: ${secretFile} } }
  - name: collector
    type: otlp
    url: http://collector:4318
    allow_private: [10.0.0.0/8]
  - name: archive
    type: s3
    bucket: audit-log
    prefix: sallyport/
    region: eu-central-1
    access_key_id: { file: ${secretFile} }
    secret_access_key: { env: SIEM_SECRET }
    interval: 30
  - name: local
    type: file
    path: /var/log/sallyport/audit.jsonl
    timeout: 5
`);
  expect(sinks.map(({ sender: _, ...sink }) => sink)).toEqual([
    {
      name: 'siem',
      type: 'webhook',
      target: 'https://siem.example.com',
      interval: 1000,
      timeout: 15_000,
    },
    {
      name: 'collector',
      type: 'otlp',
      target: 'http://collector:4318',
      interval: 1000,
      timeout: 15_000,
    },
    {
      name: 'archive',
      type: 's3',
      target: 'https://s3.eu-central-1.amazonaws.com/audit-log/sallyport/',
      interval: 30_000,
      timeout: 15_000,
    },
    {
      name: 'local',
      type: 'file',
      target: '/var/log/sallyport/audit.jsonl',
      interval: 1000,
      timeout: 5000,
    },
  ]);
});

test('the examples in docs/operations/audit-delivery.md are valid', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/operations/audit-delivery.md'), 'utf8');
  const [, yaml = ''] = /```yaml\n(.*?)```/s.exec(page) ?? [];
  const [, json = ''] = /SALLYPORT_SINK='(.*?)'/.exec(page) ?? [];
  const secret = write('example', 'x');
  const names = fromFile(yaml.replaceAll(/\/run\/secrets\/[\w-]+/g, secret)).map(({ name }) => name);
  expect(names).toEqual(['siem', 'collector', 'archive', 'local']);
  expect(fromVariable(JSON.parse(json))).toHaveLength(1);
});

test('SALLYPORT_SINK adds one sink, which needs no name', () => {
  const sinksFile = write('one.json', '{"sinks": [{"name": "a", "type": "file", "path": "/a"}]}');
  const sink = new Secret('{type: file, path: /b}');
  expect(readSinks({ sinksFile, sink }, context).map(({ name }) => name)).toEqual(['a', 'default']);
  expect(readSinks({ sinksFile: undefined, sink: undefined }, context)).toEqual([]);
});

const webhook = { type: 'webhook', url: 'https://siem.example.com', secret: webhookSecret };
const s3 = { type: 's3', bucket: 'audit-log', access_key_id: 'x', secret_access_key: 'hunter2' };

test.each([
  [{ ...webhook, type: 'syslog' }, 'type must be one of webhook, otlp, s3, file'],
  [{ ...webhook, url: 'ftp://x' }, 'url must be an http:// or https:// URL'],
  [{ ...webhook, url: 'https://me:hunter2@x' }, 'url must be an http:// or https:// URL without user name'],
  [{ ...webhook, url: 'http://siem.example.com' }, 'url must use https://, unless allow_private is set'],
  [{ ...s3, endpoint: 'http://minio:9000' }, 'endpoint must use https://, unless allow_private is set'],
  [{ ...webhook, secret: undefined }, 'secret must be a string, {file: PATH}, {env: NAME} or a list'],
  [{ ...webhook, secret: 'whsec_hunter2' }, 'secret must be whsec_ and the base64 of 24 to 64 bytes'],
  [{ ...webhook, secret: { env: 'NOT_SET' } }, 'secret: the environment variable NOT_SET is not set'],
  [{ ...webhook, secret: { file: '/nowhere/x' } }, 'secret: /nowhere/x cannot be read: ENOENT'],
  [{ ...webhook, headers: { 'a b': 'hunter2' } }, 'headers.a b has an invalid name: it is not a header name'],
  [{ ...webhook, headers: { a: 1 } }, 'headers.a must be a string, {file: PATH} or {env: NAME}'],
  [{ ...webhook, allow_private: ['10.0.0.0/33'] }, 'allow_private'],
  [{ ...webhook, ca_file: '/nowhere/ca.pem' }, 'ca_file /nowhere/ca.pem cannot be read: ENOENT'],
  [{ ...webhook, timeout: 61 }, 'timeout must be at most 60'],
  [{ ...webhook, retries: 3 }, 'retries is not a known field'],
  [{ ...webhook, name: 'Siem!' }, 'name must have 1 to 40 lower-case letters'],
  [{ ...s3, bucket: '../x' }, 'bucket must be the name of a bucket'],
  [{ ...s3, prefix: '/x' }, 'prefix must have at most 200 letters'],
  [{ type: 'file', path: 'audit.jsonl' }, 'path must be an absolute path'],
  [{ type: 'file', path: '/tmp' }, 'sink "default": path /tmp is a folder: it must be a file'],
  [{ type: 'file', path: '/dev/null' }, 'path /dev/null is not a regular file'],
  [
    { ...webhook, url: 'https://127.0.0.1:8443' },
    'url has the host 127.0.0.1, which is not public; set allow',
  ],
  [{ ...webhook, url: 'https://[::ffff:10.0.0.1]' }, 'which is not public; set allow_private to allow it'],
  [{ ...webhook, url: 'https://localhost' }, 'url has the host localhost, which is not public'],
  [
    { ...webhook, url: 'https://10.0.0.1', allow_private: ['10.1.0.0/16'] },
    'the host 10.0.0.1, which is not',
  ],
  [{ ...s3, endpoint: 'https://169.254.169.254' }, 'endpoint has the host 169.254.169.254, which is not'],
])('%j is rejected with the name of the field', (config, message) => {
  const read = () => fromVariable(config);
  expect(read).toThrow(ConfigError);
  expect(read).toThrow(message);
  expect(read).not.toThrow('hunter2');
});

test.each([
  'LOCALHOST',
  'localhost.',
  'LocalHost.',
  'localhost..',
  'foo.localhost',
  'foo.LOCALHOST.',
  'localhost%2e',
  'ⓛocalhost',
  'localhost。',
  '127.1',
  '127.0.0.1.',
  '0x7f.1',
  '0x7F000001',
  '0177.0.0.1',
  '017700000001',
  '2130706433',
  '2130706433.',
  '１２７.0.0.1',
  '0',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::ffff:127.0.0.1]',
  '[::FFFF:7f00:1]',
  '[::127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[fe80::1]',
])('the host %s is rejected as not public', (host) => {
  expect(() => fromVariable({ ...webhook, url: `https://${host}:8443/x` })).toThrow(
    'which is not public; set allow_private to allow it',
  );
});

test.each(['[fe80::1%25eth0]', '[::1%lo]', '[127.0.0.1]', '1.2.3.4.5', '127.0.0.256'])(
  'the host %s is not valid',
  (host) => {
    expect(() => fromVariable({ ...webhook, url: `https://${host}/` })).toThrow('url must be an http:// or');
  },
);

test('an address of an allowed network, and a host name, are accepted', () => {
  const hosts = ['10.1.2.3', 'localhost', 'localhost.', '93.184.215.14', 'siem.internal', 'notlocalhost.'];
  const urls = hosts.map((host) => `https://${host}`);
  for (const url of urls)
    expect(fromVariable({ ...webhook, url, allow_private: ['10.0.0.0/8', '127.0.0.1'] })).toHaveLength(1);
});

test('an error in the file names the sink, and equal names are rejected', () => {
  const entry = '{name: a, type: file, path: /x}';
  expect(() => fromFile('sinks: [{name: siem, type: file, path: x}]')).toThrow(
    'SALLYPORT_SINKS_FILE: sink "siem": path must be an absolute path',
  );
  expect(() => fromFile('sinks:\n  - {name: a\n')).toThrow('is not valid YAML or JSON');
  expect(() => fromFile('[]')).toThrow('SALLYPORT_SINKS_FILE: the configuration must be an object');
  expect(() => fromFile(`sinks: [${entry}, ${entry}]`)).toThrow('two sinks are named "a"');
  const missing = { sinksFile: '/nowhere/sinks.yaml', sink: undefined };
  expect(() => readSinks(missing, context)).toThrow(
    'SALLYPORT_SINKS_FILE /nowhere/sinks.yaml cannot be read',
  );
});
