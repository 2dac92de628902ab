/** `sallyport tokens import` and `tokens replace`. */
import { beforeEach, expect, test } from 'bun:test';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ApiShell, apiShell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const server = await openTestServer(sqlite);
let key: string;
let call: ApiShell['call'];
let json: ApiShell['json'];
beforeEach(async () => {
  ({ key } = await server.tenant());
  ({ call, json } = apiShell(server.url, key));
});

const lineOf = (at: number, fields = {}) =>
  JSON.stringify({ id: `card-${at}`, data: `4242${at}`, ...fields });

test('an import creates the tokens of all good lines, and can be repeated', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'import-'));
  try {
    const [file, rejected] = [join(folder, 'cards.jsonl'), join(folder, 'rejected.jsonl')];
    const lines: (string | Uint8Array)[] = Array.from({ length: 250 }, (_, at) => lineOf(at));
    lines[7] = lineOf(7, { mask: '{{ data.no }}' });
    lines[120] = '{"id": "broken"';
    lines[121] = Uint8Array.of(0x7b, 0xff, 0x7d);
    lines[122] = '{"id": "long", "data": 12345678901234567890}';
    lines[123] = '{"data": 1}';
    writeFileSync(file, Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from('\n')])));
    const first = await call(['tokens', 'import', file, '--rejected', rejected, '--json']);
    const result = JSON.parse(first.out);
    expect([first.code, result.read, result.created, result.existing]).toEqual([1, 250, 245, 0]);
    const refused = result.refused.map(({ line, code }: { line: number; code: string }) => [line, code]);
    expect(refused.toSorted()).toEqual([
      [121, 'invalid_json'],
      [122, 'invalid_json'],
      [123, 'inexact_number'],
      [124, 'id_missing'],
      [8, 'validation_failed'],
    ]);
    const written = readFileSync(rejected, 'utf8').trim().split('\n');
    expect(written.map((line) => JSON.parse(line).line).toSorted()).toEqual([121, 122, 123, 124, 8]);

    const corrected = written
      .find((line) => JSON.parse(line).line === 8)
      ?.replaceAll('data.no', 'data | hide');
    const again = await json(['tokens', 'import', '-'], { stdin: `${corrected}\n${lineOf(9)}\n` });
    expect(again).toMatchObject({ read: 2, created: 1, existing: 1, refused: [] });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('an import stops if no token could be created', async () => {
  const env = { SALLYPORT_KEY: (await server.application(key, { permissions: ['token:read'] })).key };
  const { code, err } = await call(['tokens', 'import', '-'], { stdin: lineOf(1), env });
  expect([code, err]).toEqual([1, expect.stringContaining('line 1')]);
});

test('replacing a token removes what is left out', async () => {
  await json(['tokens', 'create', '--id', 'card-1', '--text-file', '-', '--metadata', 'a=b'], {
    stdin: '42',
  });
  const replaced = await json(['tokens', 'replace', 'card-1', '--text-file', '-'], { stdin: '43' });
  expect(replaced).not.toHaveProperty('metadata');
  expect((await call(['tokens', 'replace', 'card-1', '--metadata', 'a=b'])).code).toBe(2);
});
