import { describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { openCli } from '../../support/cli.ts';
import { databases, openTestServer, testMasterKey } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';
import { until } from '../../support/until.ts';

describe.each(databases)('the audit log on %s', async (_, database) => {
  const server = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
  const created = await server.tenant();
  const [tenant, key] = [created.id, created.key];
  for (let number = 0; number < 5; number++) await server.application(key);
  const settings = { SALLYPORT_MASTER_KEY: testMasterKey };
  const cli = openCli(() => ({ ...settings, DATABASE_URL: server.config.databaseUrl }));
  const offline = openCli((folder) => ({ ...settings, DATABASE_URL: `sqlite:${folder}/nowhere/at-all.db` }));
  const file = cli.path('audit.jsonl');

  const systemAnchor = /^system:\d+:[0-9a-f]{64}$/;

  test('is exported while the service runs, with mode 0600, and never overwrites a file', async () => {
    const { code, body } = await cli.json('audit', 'export', file);
    expect({ code, ...body }).toMatchObject({ code: 0, file: expect.stringContaining('audit.jsonl') });
    expect(body.anchor).toMatch(systemAnchor);
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
    expect({ code, err }).toEqual({
      code: 0,
      err: expect.stringMatching(/^anchor system:\d+:[0-9a-f]{64}\n$/),
    });
    expect(existsSync('-')).toBe(false);
    writeFileSync(offline.path('piped.jsonl'), out);
    expect((await offline.run('audit', 'verify', offline.path('piped.jsonl'))).code).toBe(0);
  });

  test('is verified without the database', async () => {
    expect(await offline.run('audit', 'verify', file)).toMatchObject({
      code: 0,
      out: expect.stringMatching(
        /^valid: \d+ entries in \d chains, \d segments\nchain system: segments 1 to \d, the latest of \S+Z\n(chain [0-9a-f-]{36}: segment 1, the latest of \S+Z\n){2}anchor system:\d+:[0-9a-f]{64}\n$/,
      ),
    });
    expect(existsSync(offline.path('nowhere'))).toBe(false);
    expect(existsSync(offline.path('data'))).toBe(false);
  });

  test('of one tenant is exported and verified alone', async () => {
    const own = cli.path('tenant.jsonl');
    const { body } = await cli.json('audit', 'export', own, '--tenant', tenant);
    expect(body.anchor).toStartWith(`${tenant}:`);
    expect(readFileSync(own, 'utf8').split('"tenant_id"')).toHaveLength(2);
    const { code, out } = await offline.run('audit', 'verify', own, '--anchor', body.anchor);
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining(`anchor ${body.anchor}\n`) });
    expect(await cli.run('audit', 'export', cli.path('x'), '--tenant', crypto.randomUUID())).toMatchObject({
      code: 1,
      err: expect.stringContaining('has no audit entries'),
    });
  });

  test('fails to verify after a change', async () => {
    const copy = offline.path('copy.jsonl');
    writeFileSync(copy, readFileSync(file, 'utf8').replace('application.create', 'application.delete'));
    const { code, out } = await offline.run('audit', 'verify', copy);
    expect(code).toBe(1);
    expect(out).toMatch(
      /^copy.jsonl line \d+: chain [0-9a-f-]{36}: entry \d was changed: its MAC does not match \(changed_entry\)\n$/,
    );
    const json = await offline.json('audit', 'verify', copy);
    expect(json).toMatchObject({ code: 1, body: { ok: false, findings: [{ code: 'changed_entry' }] } });
  });

  test('must contain the anchors that audit head printed', async () => {
    const { out } = await cli.run('audit', 'head');
    const anchor = out.trim();
    expect(anchor).toMatch(systemAnchor);
    const own = (await cli.run('audit', 'head', '--tenant', tenant)).out.trim();
    expect(own).toStartWith(`${tenant}:`);
    const given = ['--anchor', anchor, '--anchor', own];
    expect((await offline.run('audit', 'verify', file, ...given)).code).toBe(0);
    const [, seq, hash] = anchor.split(':');
    const next = `system:${Number(seq) + 1}:${hash}`;
    expect(await offline.run('audit', 'verify', file, ...given, '--anchor', next)).toMatchObject({
      code: 1,
      out: expect.stringContaining(
        `ends with segment ${seq}, but had segment ${Number(seq) + 1} according to the anchor`,
      ),
    });
  });

  test('is verified in the database', async () => {
    expect(await cli.run('audit', 'verify')).toMatchObject({
      code: 0,
      out: expect.stringContaining('valid: '),
    });
    const changed = (by: string) => `update audit_segments set failures = failures ${by} where number = 1`;
    await runSql(server.config.databaseUrl, changed('+ 1'));
    expect(await cli.run('audit', 'verify')).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^chain .*: the signature of segment 1 is invalid \(changed_segment\)/),
    });
    await runSql(server.config.databaseUrl, changed('- 1'));
  });

  test('is not changed by its verification', async () => {
    const { databaseUrl } = server.config;
    await runSql(databaseUrl, 'create table copy_of_key as select * from audit_key');
    await runSql(databaseUrl, 'delete from audit_key');
    expect(await cli.run('audit', 'verify')).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^the table audit_key is empty, .* \(wrong_key\)\n$/),
    });
    expect(await runSql(databaseUrl, 'select * from audit_key')).toEqual([]);
    await runSql(databaseUrl, 'insert into audit_key select * from copy_of_key');
    await runSql(databaseUrl, 'drop table copy_of_key');
  });

  test('is verified from where an earlier run has ended', async () => {
    const since = cli.path('verified.json');
    const first = await cli.json('audit', 'verify');
    writeFileSync(since, JSON.stringify(first.body));
    await server.application(key);
    await server.flush();
    const later = await cli.json('audit', 'verify', '--since', since);
    expect(later).toMatchObject({ code: 0, body: { ok: true, findings: [] } });
    expect(later.body.entries).toBeLessThan(first.body.entries);
    expect(later.body.chains).toHaveLength(first.body.chains.length);
    writeFileSync(since, JSON.stringify({ ...first.body, ok: false }));
    expect(await cli.run('audit', 'verify', '--since', since)).toMatchObject({
      code: 2,
      err: expect.stringContaining('is not the output of a run that found nothing'),
    });
    expect((await cli.run('audit', 'verify', file, '--since', since)).code).toBe(2);
  });

  test('has an index that is verified', async () => {
    const { databaseUrl } = server.config;
    await runSql(databaseUrl, 'create table copy_of_index as select * from audit_index');
    await runSql(databaseUrl, 'delete from audit_index');
    const { code, out } = await cli.run('audit', 'verify');
    expect(code).toBe(1);
    expect(out).toContain(
      `chain ${tenant}: the index of segment 1 was changed, so filters and counts can be wrong (changed_index)\n`,
    );
    await runSql(databaseUrl, 'insert into audit_index select * from copy_of_index');
    await runSql(databaseUrl, 'drop table copy_of_index');
  });

  test.each([
    [
      'audit verify',
      130,
      'SIGINT',
      /verified 1 of \d+ segments, up to segment 1 of chain system, with 0 findings/,
    ],
    ['audit archive', 143, 'SIGTERM', /stopped while .+; no entry is lost/],
  ] as const)('%s ends at the next segment after a signal', async (words, code, signal, message) => {
    const before = process.listenerCount(signal);
    const more = words === 'audit archive' ? [cli.path('stopped'), '--older-than', '0'] : [];
    const running = cli.run(...words.split(' '), ...more);
    let isEnded = false;
    void running.then(() => {
      isEnded = true;
    });
    await until('it listens', () => isEnded || process.listenerCount(signal) !== before);
    process.emit(signal, signal);
    expect(await running).toMatchObject({
      code,
      out: '',
      err: expect.stringMatching(
        new RegExp(`error: interrupted by ${signal}: ${message.source}\\n.*run the command again`),
      ),
    });
    expect(process.listenerCount(signal)).toBe(before);
  });

  test('names the files that an archive completed before it failed', async () => {
    const other = await openTestServer(database, { SALLYPORT_MASTER_KEY: testMasterKey });
    const at = ['--database-url', other.config.databaseUrl];
    await cli.run('audit', 'head', ...at);
    const folder = cli.path('incomplete');
    const damaged = join(folder, 'audit-system-1-1.jsonl');
    mkdirSync(folder);
    writeFileSync(damaged, 'damaged');
    const { code, out, err } = await cli.run('audit', 'archive', folder, '--older-than', '0', ...at);
    await other.close();
    expect([code, out]).toEqual([1, '']);
    const [completed, ...more] = readdirSync(folder).filter((name) => name !== basename(damaged));
    expect(more).toEqual([]);
    expect(err).toStartWith(
      `sallyport: warning: before the error, 1 entry was archived to ${join(folder, String(completed))}\nsallyport: error: ${damaged}`,
    );
  });

  test('is archived, and the archives are verified with the database', async () => {
    const folder = cli.path('archive');
    expect(await cli.run('audit', 'archive', folder, '--older-than', '36500d')).toMatchObject({
      code: 0,
      out: 'no entries are old enough\n',
    });
    expect(await cli.run('audit', 'archive', folder, '--older-than', '0')).toMatchObject({
      code: 0,
      out: expect.stringContaining(`audit-${tenant}-1-2.jsonl  6 entries\n`),
    });
    expect((await cli.run('audit', 'archive', folder, '--older-than', '0', '--tenant', tenant)).out).toBe(
      'no entries are old enough\n',
    );
    const alone = await cli.run('audit', 'verify');
    expect(alone.code).toBe(0);
    expect(alone.out).toContain(
      `not verified: segments 1 to 2 of chain ${tenant} are archived in audit-${tenant}-1-2.jsonl`,
    );
    expect((await cli.run('audit', 'verify', folder, '--database')).code).toBe(0);
    const archives = await offline.run('audit', 'verify', folder);
    expect(archives.code).toBe(0);
    expect(archives.out).toContain(`\nchain ${tenant}: segments 1 to 2, the latest of `);
    expect(archives.out).toContain('\nnot verified: entries after the last segment of each chain, ');
    const later = cli.path('later.jsonl');
    await cli.run('audit', 'export', later);
    expect((await offline.run('audit', 'verify', folder, later)).code).toBe(0);
    expect(readdirSync(folder).every((name) => (statSync(join(folder, name)).mode & 0o777) === 0o600)).toBe(
      true,
    );
    rmSync(join(folder, `audit-${tenant}-1-2.jsonl`));
    expect(await offline.run('audit', 'verify', folder, later)).toMatchObject({
      code: 1,
      out: `chain ${tenant}: segments 1 to 2 are archived: add audit-${tenant}-1-2.jsonl (missing_archive)\n`,
    });
  });

  test.each([
    [['audit', 'verify', 'missing.jsonl'], /missing.jsonl does not exist/],
    [['audit', 'verify', '.'], /has no .jsonl files/],
    [['audit', 'verify', '--anchor', '5'], /--anchor must be TENANT:NUMBER:HASH/],
    [['audit', 'head', '--anchor', '5'], /unknown option '--anchor'/],
    [['audit', 'head', '--tenant', 'x'], /--tenant must be the id of a tenant or system, not "x"/],
    [['audit', 'export', 'no/such/folder'], /cannot write/],
    [['audit', 'archive', 'x'], /needs --older-than AGE or SALLYPORT_AUDIT_RETENTION/],
    [['audit', 'archive', 'x', '--older-than', '90'], /--older-than must be an age such as 3mo, 90d or 24h/],
  ])('%p is rejected', async (words, message) => {
    const { code, out, err } = await cli.run(...words);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(message);
  });

  test('uses the retention as the age of archived entries', async () => {
    expect(await cli.run('audit', 'archive', cli.path('archive'), '--audit-retention', '90d')).toMatchObject({
      code: 0,
      out: 'no entries are old enough\n',
    });
    expect((await cli.run('audit', 'archive', 'x', '--audit-retention', 'soon')).err).toContain(
      '--audit-retention (SALLYPORT_AUDIT_RETENTION) must be an age such as 3mo, 90d',
    );
  });
});
