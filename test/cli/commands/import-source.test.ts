/** Sources of `sallyport import` other than a hosted vault, and tokens that cannot be copied. */

import { beforeEach, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/cleanup.ts';
import { apiShell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

let key: string;
const server = await openTestServer(sqlite);
const folder = temporaryFolder();
beforeEach(async () => {
  ({ key } = await server.tenant());
});

const fromFile = (lines: readonly unknown[], options: string[] = []) => {
  const file = join(folder, 'export.jsonl');
  const bytes = lines.map((line) =>
    line instanceof Buffer ? line : Buffer.from(typeof line === 'string' ? line : JSON.stringify(line)),
  );
  writeFileSync(file, Buffer.concat(bytes.flatMap((line) => [line, Buffer.from('\n')])));
  return apiShell(server.url, key).call(['import', '--from-file', file, '--yes', ...options]);
};
const token = { id: 'card-1', container: '/pci/', data: { number: '4242' } };
const readToken = async (id: string) => (await server.call('GET', `/tokens/${id}`, { key })).body;

test('JSON lines: applications and tokens in any order, from a file or standard input', async () => {
  const lines = [
    token,
    '',
    { name: 'till', type: 'private', rules: [], permissions: ['token:read'] },
    { ...token, id: 'card-2', container: undefined, mask: '{{ data.number | hide }}' },
  ];
  const { code, out, err } = await fromFile(lines, ['--keys-dir', join(folder, 'keys')]);
  expect([code, err]).toEqual([0, '']);
  expect(out).toEndWith(
    [
      'applications  1 of 1 read: 1 created',
      'tokens        2 of 2 read: 2 copied',
      'verified      2 tokens are equal in source and target',
      'without data  1 of them, because your key does not see their data',
      'no container  1 tokens, as in /general/',
      'result        complete',
      '',
    ].join('\n'),
  );
  expect(await readToken('card-2')).toMatchObject({ container: '/general/', data: 'XXXX' });
  const stdin = JSON.stringify({ ...token, id: 'card-3' });
  const piped = await apiShell(server.url, key).call(['import', '--from-file', '-', '--yes'], { stdin });
  expect([piped.code, (await readToken('card-3')).container]).toEqual([0, '/pci/']);
});

describe('a token that cannot be copied is reported, and the others are copied:', () => {
  const past = '2020-01-01T00:00:00Z';
  test.each<[string, unknown, string]>([
    [
      'several containers',
      { ...token, containers: ['/a/', '/b/'] },
      'card-1 is in 3 containers (/pci/, /a/, /b/)',
    ],
    ['no data', { ...token, data: null }, 'card-1 has no data: the source redacts it'],
    ['an id that is not allowed', { ...token, id: 'a b' }, 'token a b id must have 3 to 200 characters'],
    ['no id', { ...token, id: undefined }, 'line 1 has no id'],
    ['metadata that is not text', { ...token, metadata: { n: 1 } }, 'card-1 metadata.n must be a string'],
    ['an unknown mask filter', { ...token, mask: '{{ data.number | card }}' }, 'card-1 mask '],
    [
      'masked data',
      { ...token, data: 'XX42', mask: '{{ data | reveal_last: 2 }}' },
      'may have returned masked data',
    ],
    ['a number that loses digits', '{"id":"card-1","data":12345678901234567890}', 'card-1 data is a number'],
    ['no JSON', '{"id"', 'line 1 is not valid JSON'],
    ['no UTF-8', Buffer.from('{"id":"caf\xe9"}', 'latin1'), 'line 1 is not valid JSON in UTF-8'],
    ['no object', '[]', 'line 1 is not a JSON object'],
    ['a duplicate id', { ...token, id: 'other' }, 'line 2 has the same id as line 1'],
  ])('%s', async (_, line, message) => {
    const { code, out, err } = await fromFile([line, { ...token, id: 'other' }]);
    expect(code).toBe(1);
    expect(err).toStartWith('sallyport: warning: ');
    expect(err).toContain(message);
    expect(out).toContain('2 of 2 read: 1 copied, 1 failed');
    expect(out).toContain('incomplete: see the warnings');
    expect((await readToken('other')).container).toBe('/pci/');
  });

  test('--only applications also reports a line that cannot be read, and changes nothing', async () => {
    const { code, err } = await fromFile(['{"id"'], ['--only', 'applications']);
    expect([code, err]).toEqual([2, expect.stringContaining('line 1 is not valid JSON')]);
  });

  test('--first-container takes the first of several', async () => {
    const { code } = await fromFile(
      [{ ...token, container: undefined, containers: ['/a/', '/b/'] }],
      ['--first-container'],
    );
    expect([code, (await readToken('card-1')).container]).toEqual([0, '/a/']);
  });

  test('an expired token is counted', async () => {
    const { code, out } = await fromFile([{ ...token, expires_at: past }]);
    expect([code, out]).toEqual([0, expect.stringContaining('1 of 1 read: 1 expired (not copied)')]);
  });

  test('a token that the target rejects', async () => {
    const limited = await server.application(key, {
      permissions: ['token:create'],
      rules: [{ priority: 1, container: '/a/', transform: 'reveal', permissions: ['token:read'] }],
    });
    await server.call('POST', '/tokens', { key, body: token });
    writeFileSync(join(folder, 'hidden.jsonl'), JSON.stringify(token));
    const argv = ['import', '--from-file', join(folder, 'hidden.jsonl'), '--yes', '--only', 'tokens'];
    const { code, err } = await apiShell(server.url, limited.key).call(argv);
    expect([code, err]).toEqual([
      1,
      'sallyport: warning: token card-1 exists in the target, and your key cannot read it there\n',
    ]);
  });
});

test('another Sallyport is a source: every token and application arrives, with the plaintext', async () => {
  const old = await server.tenant();
  const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }];
  const permissions = ['application:read'];
  const reader = await server.application(old.key, { name: 'copier', permissions, rules });
  for (let number = 1; number <= 120; number++) {
    const body = {
      id: `card-${number}`,
      container: `/c/${number}/`,
      data: `secret ${number}`,
      mask: '{{ data | hide }}',
    };
    await server.call('POST', '/tokens', { key: old.key, body });
  }
  writeFileSync(join(folder, 'old.key'), reader.key);
  const argv = [
    'import',
    '--from-url',
    server.url,
    '--from-key-file',
    join(folder, 'old.key'),
    '--yes',
    '--json',
  ];
  const result = await apiShell(server.url, key).call([...argv, '--keys-dir', join(folder, 'copied')]);
  expect(JSON.parse(result.out)).toMatchObject({
    complete: true,
    applications: { read: 2, created: 1, skipped: 1 },
    tokens: { read: 120, copied: 120, verified: 120, data_not_compared: 0, in_source: 120 },
    not_copied: {},
  });
  const all = await server.application(key, { rules });
  const { body } = await server.call('GET', '/tokens/card-77', { key: all.key });
  expect(body).toMatchObject({ data: 'secret 77', container: '/c/77/' });
});

test.each([
  [[], 'pass either --from-url or --from-file'],
  [['--from-url', 'http://127.0.0.1:1', '--from-file', 'x'], 'pass either --from-url or --from-file'],
  [['--from-url', 'ftp://vault'], 'SALLYPORT_SOURCE_KEY is empty'],
  [['--from-file', '-', '--map-container', '/a/'], '--map-container must be OLD=NEW'],
  [['--from-file', '-', '--map-container', '/a/='], '--map-container needs a new container for /a/'],
  [['--from-file', '/nowhere.jsonl'], '/nowhere.jsonl does not exist'],
])('%p is rejected', async (options, message) => {
  const { code, out, err } = await apiShell(server.url, key).call(['import', ...options]);
  expect([code, out]).toEqual([2, '']);
  expect(err).toContain(message);
});
