import { beforeEach, describe, expect, test } from 'bun:test';
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { newEntryId } from '../../../src/audit/log/entry.ts';
import { systemTenant } from '../../../src/audit/records.ts';
import { newMasterKey } from '../../../src/db/keys/cipher.ts';
import { lockShared } from '../../../src/db/sqlite/sqlite-lock.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import { type Check, formatProblems, problemsIn, runDoctor } from '../../support/doctor.ts';
import { TestProvider } from '../../support/sign-in.ts';
import { runSql } from '../../support/test-store.ts';

const quiet = { SALLYPORT_TEST_POSTGRES: '' };

describe('doctor on SQLite', () => {
  let cli: Cli;
  const at = (name: string) => cli.path(`data/${name}`);
  const url = () => `sqlite:${at('sallyport.db')}`;
  beforeEach(async () => {
    cli = openCli(() => quiet);
    await cli.run('migrate');
    expect((await cli.run('tenants', 'create', 'x')).code).toBe(0);
  });

  test('reports no problems on a healthy database and changes nothing', async () => {
    const before = readFileSync(at('sallyport.db'));
    const { code, checks } = await runDoctor(cli);
    expect({ code, found: problemsIn(checks) }).toEqual({ code: 0, found: [] });
    const names = [
      'settings',
      'files',
      'disk',
      'database',
      'schema',
      'clock',
      'master key',
      'sweep',
      'lifetimes',
      'bound sessions',
      'storage',
      'audit log',
    ];
    expect(checks.map(({ name }) => name)).toEqual(expect.arrayContaining(names));
    expect(readFileSync(at('sallyport.db')).equals(before)).toBe(true);
    const { out } = await cli.run('doctor');
    expect(out).toMatch(/^ok {4}database {7}SQLite 3\.\d+\.\d+, integrity check passed$/m);
  });

  test('reports memory that the machine does not have, and workers that share too little', async () => {
    const problems = async (...words: string[]) => formatProblems((await runDoctor(cli, ...words)).checks);
    expect(await problems('--memory', String(2 ** 45))).toEqual([
      expect.stringMatching(
        /^warn memory: SALLYPORT_MEMORY is 33554432 MiB, but the process may use \d+ MiB/,
      ),
    ]);
    expect(await problems('--memory', String(2 ** 29), '--workers', '4')).toEqual([
      'warn memory: a process has 128 MiB of memory, and needs 256 MiB',
    ]);
  });

  test('fetches the discovery document of each provider, and prints its redirect URI', async () => {
    const provider = new TestProvider();
    const settings = TestProvider.settings(provider);
    const checkWith = async (changed: Record<string, string> = {}) => {
      const other = openCli(() => ({ ...quiet, ...settings, ...changed }));
      const { checks } = await runDoctor(other);
      return checks.filter(({ name }: Check) => name === 'sign-in' || name === 'settings');
    };
    expect(await checkWith()).toMatchObject([
      { name: 'settings', state: 'ok' },
      { state: 'ok', message: expect.stringContaining('https://keys.example/console/api/callback/1') },
    ]);
    expect(await checkWith({ SALLYPORT_OIDC_CLIENT_SECRET: 'a b' })).toMatchObject([
      { state: 'fail', message: expect.stringContaining('must have as many secrets') },
    ]);
    provider.discovery = { ...provider.discovery, issuer: 'https://other.example' };
    expect(await checkWith()).toMatchObject([
      { state: 'ok' },
      { state: 'fail', message: expect.stringContaining('the issuer there is https://other.example') },
    ]);
  });

  const day = 86_400_000;
  const addUnsealed = (at: number, tenant = systemTenant) =>
    runSql(
      url(),
      `insert into audit_pending (tenant_id, id, at, format, mac, entry)
       values ('${tenant}', '${newEntryId(at)}', ${at}, 1, x'00', '{}')`,
    );
  /** More rows than are counted. */
  const many = 'with recursive many (n) as (select 1 union all select n + 1 from many where n < 10001)';
  const problems: [string, (cli: Cli) => unknown, number, RegExp][] = [
    [
      'a data folder that other users can read',
      () => chmodSync(cli.path('data'), 0o750),
      0,
      /^warn files: .*data is readable by other users$/,
    ],
    [
      'a key file that other users can read',
      () => chmodSync(at('master.key'), 0o640),
      1,
      /^fail files: .*master.key is readable by other users$/,
    ],
    [
      'a database that other users can read',
      () => chmodSync(at('sallyport.db'), 0o644),
      0,
      /^warn files: .*sallyport.db is readable by other users$/,
    ],
    [
      'tables without a record of their migrations',
      () => runSql(url(), 'delete from schema_versions'),
      1,
      /^fail schema: the database has a table tenants, but no record that Sallyport created it$/,
    ],
    [
      'a newer schema',
      () => runSql(url(), "insert into schema_versions (version, name, hash) values (999, 'x', 'x')"),
      1,
      /^fail schema: the database has schema 999/,
    ],
    [
      'an edited migration',
      () => runSql(url(), "update schema_versions set hash = 'f00'"),
      1,
      /^fail schema: migration 0001_initial of the database differs/,
    ],
    [
      'a wrong master key',
      () =>
        writeFileSync(at('master.key'), Buffer.from(newMasterKey().bytes).toString('base64'), {
          mode: 0o600,
        }),
      1,
      /^fail master key: the database needs the master key/,
    ],
    [
      'a slow clock',
      () => addUnsealed(Date.now() + day),
      1,
      /^fail clock: the time is .*, but the newest audit entry is from/,
    ],
    [
      'an entry that no node chains',
      () => addUnsealed(Date.now() - day),
      0,
      /^warn audit log: \d+ entries are not sealed yet, the oldest for 864\d\d s$/,
    ],
    [
      'an old entry of the last of many tenants',
      async () => {
        await runSql(
          url(),
          `${many} insert into audit_pending (tenant_id, id, at, format, mac, entry)
           select printf('%08d', n), '${newEntryId(Date.now())}', ${Date.now()}, 1, x'00', '{}' from many`,
        );
        await addUnsealed(Date.now() - day, 'f'.repeat(8));
      },
      0,
      /^warn audit log: more than 10000 entries are not sealed yet, the oldest for 864\d\d s$/,
    ],
    [
      'more keys that live too long than are counted',
      async () => {
        await cli.run('tenants', 'max-lifetime', 'x', '90d');
        await runSql(
          url(),
          `${many} insert into application_keys (tenant_id, application_id, id, digest, ending, created_at)
           select tenant_id, id, printf('%08d', n), cast(n as blob), 'abcd', 0 from many join applications`,
        );
      },
      0,
      /^warn lifetimes: more than 10000 applications and keys exceed .*, and others$/,
    ],
    [
      'a sweep that does not run',
      () =>
        runSql(
          url(),
          `insert into sessions (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules, created_at, expires_at)
           select tenant_id, id, id, x'01', x'02', '[]', '[]', 0, ${Date.now() - day} from applications`,
        ),
      0,
      /^warn sweep: the oldest expired row is 864\d\d s overdue/,
    ],
    [
      'an application whose storage quota is nearly full',
      () =>
        runSql(
          url(),
          `insert into application_storage (tenant_id, application_id, shard, tokens, bytes)
           select tenant_id, id, 0, 1, ${17 * 2 ** 30} from applications`,
        ),
      0,
      /^warn storage: the largest application, [0-9a-f-]{36}, stores 17\.00 GiB of a quota of 20\.00 GiB$/,
    ],
    [
      'a damaged database',
      () => {
        const bytes = readFileSync(at('sallyport.db'));
        bytes.fill(0xff, 8 * 4096, 9 * 4096);
        writeFileSync(at('sallyport.db'), bytes);
      },
      1,
      /^fail database: .*sallyport.db is damaged: /,
    ],
    [
      'an index that another program has dropped',
      () => runSql(url(), 'drop index applications_by_name'),
      0,
      /^warn schema: another program has changed the schema of .*: the index applications_by_name is missing$/,
    ],
  ];

  test.each(problems)('reports %s with a hint', async (_, damage, expected, message) => {
    await damage(cli);
    const { code, checks } = await runDoctor(cli);
    expect(formatProblems(checks).join('\n')).toMatch(new RegExp(message.source, 'm'));
    expect(code).toBe(expected);
    for (const { hint } of problemsIn(checks)) expect(hint).toBeTruthy();
  });

  test('reports a forged segment', async () => {
    await cli.run('tenants', 'create', 'other');
    await cli.run('audit', 'head');
    const { checks } = await runDoctor(cli);
    expect(checks.map(({ message }) => message).join()).toMatch(/signed: \d+ entries in \d chains/);
    await runSql(url(), 'update audit_segments set failures = failures + 1');
    const again = await runDoctor(cli);
    expect(formatProblems(again.checks)).toEqual([
      expect.stringMatching(
        /^fail audit log: segment 1 was changed or removed after it was signed in the chain of the system$/,
      ),
    ]);
  });

  test('finds an index of the audit log that was changed', async () => {
    await cli.run('audit', 'head');
    await runSql(url(), 'delete from audit_index');
    expect((await runDoctor(cli)).checks).toContainEqual({
      name: 'audit log',
      state: 'fail',
      message: expect.stringMatching(
        /^the index of segment \d was changed, so filters and counts can be wrong in the chain of /,
      ),
      hint: expect.stringContaining('run `sallyport audit verify`'),
    });
  });

  test('asks for the master key before it suggests to verify the audit log', async () => {
    await cli.run('audit', 'head');
    const other = Buffer.from(newMasterKey().bytes).toString('base64');
    writeFileSync(at('master.key'), other, { mode: 0o600 });
    expect((await cli.run('audit', 'export', cli.path('audit.jsonl'))).code).toBe(1);
    const found = problemsIn((await runDoctor(cli)).checks).filter(({ name }) => name === 'audit log');
    expect(found.map(({ hint }) => hint)).toContainEqual(expect.stringContaining('master key first'));
  });

  const beside = ['sallyport.db-wal', 'sallyport.db-shm', 'sallyport.db-lock', 'management.key'];
  const clearAll = () => {
    for (const name of ['sallyport.db', ...beside]) rmSync(at(name), { force: true });
  };

  test.each(beside)('reports a deleted database beside %s and suggests a restore', async (name) => {
    clearAll();
    writeFileSync(at(name), 'x', { mode: 0o600 });
    const { code, checks } = await runDoctor(cli);
    expect(code).toBe(1);
    expect(problemsIn(checks)).toEqual([
      {
        name: 'database',
        state: 'fail',
        message: expect.stringMatching(new RegExp(`does not exist, but .*${name} shows that it was used$`)),
        hint: `move the file back, or stop the service and restore a backup of ${at('sallyport.db')}: see docs/operations/backups.md`,
      },
    ]);
  });

  test('reports an emptied database and does not touch its write-ahead log', async () => {
    writeFileSync(at('sallyport.db'), '');
    writeFileSync(at('sallyport.db-wal'), 'the only copy', { mode: 0o600 });
    const { code, checks } = await runDoctor(cli);
    expect({ code, problems: formatProblems(checks) }).toEqual({
      code: 1,
      problems: [
        expect.stringMatching(/^fail database: .*sallyport.db is empty, but .*-wal shows that it was/),
      ],
    });
    expect(readFileSync(at('sallyport.db-wal'), 'utf8')).toBe('the only copy');
  });

  test('only warns about a missing database, or an empty one after a failed first start', async () => {
    clearAll();
    const first = await runDoctor(cli);
    expect({ code: first.code, problems: formatProblems(first.checks) }).toEqual({
      code: 0,
      problems: [expect.stringMatching(/^warn database: .*sallyport.db does not exist$/)],
    });
    expect(problemsIn(first.checks)[0]?.hint).toContain('if it existed before, restore a backup');
    for (const name of ['sallyport.db', 'sallyport.db-lock']) writeFileSync(at(name), '', { mode: 0o600 });
    const { code, checks } = await runDoctor(cli);
    expect({ code, problems: formatProblems(checks) }).toEqual({
      code: 0,
      problems: [expect.stringMatching(/^warn database: .*sallyport.db is empty$/)],
    });
  });

  test.each([
    ['was removed', 'delete from audit_segments where number = (select max(number) from audit_segments)'],
    ['was changed', "update audit_segments set entries = x'00'"],
  ])('reports that the last segment %s', async (_, statement) => {
    await cli.run('audit', 'head');
    await runSql(url(), statement);
    const { code, checks } = await runDoctor(cli);
    expect({ code, problems: formatProblems(checks) }).toEqual({
      code: 1,
      problems: [
        expect.stringMatching(
          /^fail audit log: segment \d+ was changed or removed after it was signed in the chain of /,
        ),
      ],
    });
  });

  test('warns about a node that does not renew its record, and says if a process still uses the database', async () => {
    const stale = `insert into nodes (id, name, version, master_keys, clock, seen_at)
      values ('${systemTenant}', 'db1 (process 7)', '1', '[]', 0, ${Date.now() - 60_000})`;
    await runSql(url(), stale);
    const problems = async () => formatProblems((await runDoctor(cli)).checks);
    const renewed = /^warn nodes: db1 \(process 7\) has not renewed its record since \d{4}-\S+Z/;
    expect(await problems()).toEqual([expect.stringMatching(new RegExp(`${renewed.source}$`))]);
    const unlock = lockShared(at('sallyport.db'));
    const whileInUse = await problems();
    unlock();
    expect(whileInUse).toEqual([
      expect.stringMatching(new RegExp(`${renewed.source}, but a process uses the database$`)),
    ]);
  });

  test('reports unknown and invalid settings', async () => {
    const typo = openCli(() => ({ ...quiet, SALLYPORT_SESION_TTL: '3' }));
    const found = problemsIn((await runDoctor(typo)).checks);
    expect(found[0]).toEqual({
      name: 'settings',
      state: 'warn',
      message: 'SALLYPORT_SESION_TTL is not a setting',
      hint: 'see sallyport serve --help for all settings',
    });
    expect(found[1]?.message).toContain('does not exist');
    const { code, checks } = await runDoctor(typo, '--port', 'http');
    expect({ code, problems: formatProblems(checks) }).toEqual({
      code: 1,
      problems: [expect.stringMatching(/^fail settings: --port \(PORT\) must be a whole number/)],
    });
  });
});
