import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { type Cli, openCli } from '../../support/cli.ts';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

describe.each(databases)('the audit log on %s', (_, database) => {
  let server: TestServer;
  let cli: Cli;
  let offline: Cli;
  let file: string;
  beforeAll(async () => {
    server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    const { key } = await server.tenant();
    for (let number = 0; number < 5; number++) await server.application(key);
    const settings = { SALLYPORT_MASTER_KEY: testMasterKey };
    cli = openCli(() => ({ ...settings, DATABASE_URL: server.config.databaseUrl }));
    offline = openCli((folder) => ({ ...settings, DATABASE_URL: `sqlite:${folder}/nowhere/at-all.db` }));
    file = cli.path('audit.jsonl');
  });
  afterAll(async () => {
    await server.close();
    cli.remove();
    offline.remove();
  });

  test('is exported while the service runs, with mode 0600, and never overwrites a file', async () => {
    const { code, body } = await cli.json('audit', 'export', file);
    expect({ code, ...body }).toMatchObject({ code: 0, file: expect.stringContaining('audit.jsonl') });
    expect(body.anchor).toMatch(/^6:[0-9a-f]{64}$/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const before = readFileSync(file, 'utf8');
    expect(await cli.run('audit', 'export', file)).toMatchObject({
      code: 2,
      err: expect.stringContaining('audit.jsonl already exists'),
    });
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  test('is exported to standard output with -', async () => {
    const { code, out, err } = await cli.run('audit', 'export', '-');
    expect({ code, err }).toEqual({ code: 0, err: expect.stringMatching(/^anchor 6:[0-9a-f]{64}\n$/) });
    expect(existsSync('-')).toBe(false);
    writeFileSync(offline.path('piped.jsonl'), out);
    expect((await offline.run('audit', 'verify', offline.path('piped.jsonl'))).code).toBe(0);
  });

  test('is verified without the database', async () => {
    expect(await offline.run('audit', 'verify', file)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^valid: 6 entries, \d checkpoints?\nanchor 6:[0-9a-f]{64}\n$/),
    });
    expect(existsSync(offline.path('nowhere'))).toBe(false);
    expect(existsSync(offline.path('data'))).toBe(false);
  });

  test('fails to verify after a change', async () => {
    const copy = offline.path('copy.jsonl');
    writeFileSync(copy, readFileSync(file, 'utf8').replace('"application.create"', '"application.delete"'));
    expect(await offline.run('audit', 'verify', copy)).toMatchObject({
      code: 1,
      out: 'line 3: row 2 was changed: its MAC does not match (changed_row)\n',
    });
    const { code, body } = await offline.json('audit', 'verify', copy);
    expect({ code, ...body }).toMatchObject({
      code: 1,
      ok: false,
      findings: [{ code: 'changed_row', row: 2 }],
    });
  });

  test('must contain the anchors that audit head printed', async () => {
    const { out } = await cli.run('audit', 'head');
    const anchor = out.trim();
    expect((await offline.run('audit', 'verify', file, '--anchor', anchor)).code).toBe(0);
    const [, hash] = anchor.split(':');
    const later = await offline.run('audit', 'verify', file, '--anchor', anchor, '--anchor', `7:${hash}`);
    expect(later).toMatchObject({
      code: 1,
      out: expect.stringContaining('ends with row 6, but had row 7'),
    });
  });

  test.each([
    [['audit', 'verify'], /missing required argument 'FILE'/],
    [['audit', 'verify', 'missing.jsonl'], /missing.jsonl does not exist/],
    [['audit', 'verify', '.'], /is not a file/],
    [['audit', 'verify', 'any', '--anchor', '5'], /--anchor must be SEQ:HASH/],
    [['audit', 'head', '--anchor', '5'], /unknown option '--anchor'/],
    [['audit', 'export', 'no/such/folder'], /cannot write/],
  ])('%p is rejected', async (words, message) => {
    const { code, out, err } = await cli.run(...words);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(message);
  });
});
