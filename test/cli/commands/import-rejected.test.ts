/** Records that `sallyport import` does not copy: as data, and in a file. Imports that are interrupted. */

import { beforeEach, expect, test } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/cleanup.ts';
import { hostedHeader, hostedKey, openHostedVault } from '../../support/hosted-vault.ts';
import { changeBefore } from '../../support/meanwhile.ts';
import { apiShell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
let folder: string;
let key: string;
beforeEach(async () => {
  folder = temporaryFolder();
  const { key: admin } = await server.tenant();
  const permissions = ['token:create', 'token:read', 'token:delete'];
  const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions }];
  const own = { permissions: ['application:create', 'application:read'], rules };
  ({ key } = await server.application(admin, own));
});

const at = (name: string) => join(folder, name);

async function runImport(options: string[], url = server.url) {
  const keys = ['--keys-dir', at('keys'), '--yes', '--json'];
  const env = { SALLYPORT_SOURCE_KEY: hostedKey };
  const { code, out, err } = await apiShell(url, key).call(['import', ...keys, ...options], { env });
  return { code, err, report: out === '' ? undefined : JSON.parse(out) };
}

const fromFile = (lines: readonly (string | Buffer)[], ...options: string[]) => {
  writeFileSync(
    at('export.jsonl'),
    Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from('\n')])),
  );
  return runImport(['--from-file', at('export.jsonl'), ...options]);
};
const token = (id: string, fields: object = {}) => JSON.stringify({ id, data: '4242', ...fields });
const stored = async (path: string) => (await server.call('GET', path, { key })).body;

test('each failure has its line, id, code and message, and the rejected lines can be corrected and imported', async () => {
  await server.call('POST', '/tokens', { key, body: { id: 'taken', data: 'other' } });
  const broken = Buffer.from('{"id":"caf\xe9","data":1}', 'latin1');
  const rejected = [
    token('card-2', { data: null }),
    '{"id":"card-3","data":12345678901234567890}',
    broken,
    token('card-4', { containers: ['/a/', '/b/'] }),
    JSON.stringify({ data: 'no id' }),
    `${token('card-1', { type: 'copy' })}\r`,
    token('taken'),
    token('card-5', { mask: '{{ data.number | hide }}' }),
  ];
  const lines = [token('card-1'), '', ...rejected, token('card-6')];
  const first = await fromFile(lines, '--rejected', at('rejected.jsonl'));
  expect([first.code, first.report.rejected_file]).toEqual([1, at('rejected.jsonl')]);
  expect(first.report.tokens).toMatchObject({ read: 10, copied: 2, different: 1, failed: 7 });
  const failures = first.report.failures as { line: number; kind: string; message: string }[];
  expect(failures.map(({ kind, message, ...rest }) => [kind, message.length > 0, rest])).toEqual(
    [
      { line: 3, id: 'card-2', code: 'data_missing' },
      { line: 4, id: 'card-3', code: 'inexact_number' },
      { line: 5, code: 'invalid_json' },
      { line: 6, id: 'card-4', code: 'several_containers' },
      { line: 7, code: 'id_missing' },
      { line: 8, id: 'card-1', code: 'id_repeated' },
      { line: 10, id: 'card-5', code: 'mask_failed' },
      { line: 9, id: 'taken', code: 'different' },
    ].map((rest) => ['token', true, rest]),
  );
  expect(statSync(at('rejected.jsonl')).mode & 0o777).toBe(0o600);
  const written = readFileSync(at('rejected.jsonl')).toString('latin1').split('\n');
  expect(written.toSorted()).toEqual([...rejected.map((line) => line.toString('latin1')), ''].toSorted());
  const corrected = rejected.map((line, index) => (index === 6 ? (line as string) : token(`fixed-${index}`)));
  const second = await fromFile(corrected, '--replace', '--rejected', at('again.jsonl'));
  expect(second).toMatchObject({ code: 0, report: { complete: true, tokens: { copied: 7, replaced: 1 } } });
  expect([second.report.failures, 'rejected_file' in second.report, existsSync(at('again.jsonl'))]).toEqual([
    [],
    false,
    false,
  ]);
});

test('a file for rejected records must be new and in a folder that exists', async () => {
  writeFileSync(at('mine.jsonl'), 'mine');
  for (const [path, message] of [
    [at('mine.jsonl'), 'already exists'],
    [at('nowhere/x'), 'cannot write'],
  ] as const) {
    const { code, err } = await fromFile([token('card-1')], '--rejected', path);
    expect([code, err]).toEqual([2, expect.stringContaining(message)]);
  }
  expect(readFileSync(at('mine.jsonl'), 'utf8')).toBe('mine');
  expect((await stored('/tokens')).data).toEqual([]);
});

test('applications that cannot be converted are failures, too, and no change is made', async () => {
  await server.application(key, { name: 'till', type: 'public', permissions: ['token:create'] });
  const application = { name: 'shop', type: 'private', permissions: ['token:reed'] };
  const till = { name: 'till', type: 'private', permissions: ['token:read'] };
  const lines = [application, till].map((one) => JSON.stringify(one));
  const { code, err, report } = await fromFile(
    [...lines, token('card-1')],
    '--rejected',
    at('rejected.jsonl'),
  );
  expect([code, err]).toEqual([
    2,
    expect.stringContaining(String.raw`application \"till\" is public; the type cannot be`),
  ]);
  expect(report).toMatchObject({
    complete: false,
    failures: [
      { kind: 'application', line: 1, name: 'shop', code: 'validation_failed' },
      { kind: 'application', line: 2, name: 'till', code: 'conflict' },
    ],
  });
  expect(readFileSync(at('rejected.jsonl'), 'utf8')).toBe(`${lines.join('\n')}\n`);
  expect((await stored('/tokens')).data).toEqual([]);
});

test('a copy that differs when it is read back counts as failed, and not as copied', async () => {
  await server.call('POST', '/tokens', { key, body: { id: 'card-5', data: 'other' } });
  const lines = [1, 2, 3, 4, 5].map((number) => token(`card-${number}`));
  writeFileSync(at('export.jsonl'), lines.join('\n'));
  const remove = () => server.call('DELETE', '/tokens/card-1', { key });
  const proxy = changeBefore(server, 'DELETE', /card-5$/, remove);
  const { code, report } = await runImport(['--from-file', at('export.jsonl'), '--replace'], proxy.url);
  await proxy.close();
  expect([code, report.failures]).toMatchObject([1, [{ id: 'card-1', code: 'copy_differs' }]]);
  const counts = { read: 5, copied: 3, replaced: 1, failed: 1, verified: 4, not_yet_copied: 0 };
  expect(report.tokens).toMatchObject(counts);
});

test('after Ctrl-C, the import reports what it has copied, and continues the next time', async () => {
  const vault = openHostedVault();
  for (let number = 1; number <= 150; number++)
    vault.tokens.push({ id: `card-${number}`, data: number === 7 ? null : '4242' });
  const paths = ['/applications/key', '/applications', '/tokens?size=1', '/tokens?page=1&size=100'];
  const headers = { [hostedHeader]: hostedKey };
  const responses = await Promise.all(paths.map((path) => fetch(vault.url + path, { headers })));
  const interrupting = new ReadableStream({ pull: () => void process.emit('SIGINT', 'SIGINT') });
  vault.responses.push(...responses, new Response(interrupting));
  const source = ['--from-url', vault.url, '--from-key-header', hostedHeader];
  const first = await runImport([...source, '--rejected', at('rejected.jsonl')]);
  expect([first.code, first.err]).toEqual([130, expect.stringContaining('warning: interrupted; waiting')]);
  const { report } = first;
  expect(report).toMatchObject({
    complete: false,
    interrupted: true,
    tokens: { read: 100, in_source: 150 },
  });
  expect(report.failures).toMatchObject([{ id: 'card-7', code: 'data_missing' }]);
  expect(report.tokens.copied).toBe((await stored('/tokens')).pagination.total_items);
  const { copied, failed, not_yet_copied } = report.tokens;
  expect({ copied, failed, left: not_yet_copied }).toEqual({ copied, failed: 1, left: 99 - copied });
  expect(Object.keys(report.tokens).filter((name) => name !== name.toLowerCase())).toEqual([]);
  expect(report.tokens.verified).toBe(report.tokens.copied);
  expect(readFileSync(at('rejected.jsonl'), 'utf8')).toBe('{"id":"card-7","data":null}\n');
  const second = await runImport(source);
  expect(second.report).toMatchObject({ interrupted: false, tokens: { unchanged: report.tokens.copied } });
  expect(process.listenerCount('SIGINT')).toBe(0);
});
