import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { type Desk, openDesk } from '../../support/cli.ts';
import { databases, openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

describe.each(databases)('the audit log on %s, for an operator', (_, database) => {
  let world: TestServer;
  let desk: Desk;
  let away: Desk;
  let file: string;
  beforeAll(async () => {
    world = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    const { key } = await world.tenant();
    for (let number = 0; number < 5; number++) await world.application(key);
    const settings = { SALLYPORT_MASTER_KEY: testMasterKey };
    desk = openDesk(() => ({ ...settings, DATABASE_URL: world.config.databaseUrl }));
    away = openDesk((folder) => ({ ...settings, DATABASE_URL: `sqlite:${folder}/nowhere/at-all.db` }));
    file = desk.path('audit.jsonl');
  });
  afterAll(async () => {
    await world.close();
    desk.clear();
    away.clear();
  });

  test('is exported while the service runs, for its owner alone, and never over another file', async () => {
    const { code, body } = await desk.json('audit', 'export', file);
    expect({ code, ...body }).toMatchObject({ code: 0, file: expect.stringContaining('audit.jsonl') });
    expect(body.anchor).toMatch(/^6:[0-9a-f]{64}$/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const before = readFileSync(file, 'utf8');
    expect(await desk.run('audit', 'export', file)).toMatchObject({
      code: 2,
      error: expect.stringContaining('audit.jsonl is there already'),
    });
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  test('goes to standard output for -, and nothing else does', async () => {
    const { code, out, error } = await desk.run('audit', 'export', '-');
    expect({ code, error }).toEqual({ code: 0, error: expect.stringMatching(/^anchor 6:[0-9a-f]{64}\n$/) });
    expect(existsSync('-')).toBe(false);
    writeFileSync(away.path('piped.jsonl'), out);
    expect((await away.run('audit', 'verify', away.path('piped.jsonl'))).code).toBe(0);
  });

  test('is verified without its database', async () => {
    expect(await away.run('audit', 'verify', file)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^sound: 6 rows, \d checkpoints?\nanchor 6:[0-9a-f]{64}\n$/),
    });
    expect(existsSync(away.path('nowhere'))).toBe(false);
    expect(existsSync(away.path('data'))).toBe(false);
  });

  test('is found out when it was changed', async () => {
    const copy = away.path('copy.jsonl');
    writeFileSync(copy, readFileSync(file, 'utf8').replace('"application.create"', '"application.delete"'));
    expect(await away.run('audit', 'verify', copy)).toMatchObject({
      code: 1,
      out: 'line 3: row 2 is not what was written\n',
    });
    const { code, body } = await away.json('audit', 'verify', copy);
    expect({ code, ...body }).toMatchObject({
      code: 1,
      ok: false,
      findings: [{ flaw: 'changed_row', row: 2 }],
    });
  });

  test('has a head to be kept elsewhere, which it must still go through later', async () => {
    const { out } = await desk.run('audit', 'head');
    const anchor = out.trim();
    expect((await away.run('audit', 'verify', file, '--anchor', anchor)).code).toBe(0);
    const [, hash] = anchor.split(':');
    const later = await away.run('audit', 'verify', file, '--anchor', anchor, '--anchor', `7:${hash}`);
    expect(later).toMatchObject({
      code: 1,
      out: expect.stringContaining('ends at row 6, and went on to row 7'),
    });
  });

  test.each([
    [['audit', 'verify'], /missing required argument 'FILE'/],
    [['audit', 'verify', 'missing.jsonl'], /missing.jsonl is not there/],
    [['audit', 'verify', '.'], /is not a file/],
    [['audit', 'verify', 'any', '--anchor', '5'], /--anchor must be SEQ:HASH/],
    [['audit', 'head', '--anchor', '5'], /unknown option '--anchor'/],
    [['audit', 'export', 'no/such/folder'], /cannot be written/],
  ])('%p is refused', async (words, complaint) => {
    const { code, out, error } = await desk.run(...words);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(error).toMatch(complaint);
  });
});
