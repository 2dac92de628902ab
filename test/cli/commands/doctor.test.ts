import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { newMasterKey } from '../../../src/store/crypto/cipher.ts';
import { newestSchema } from '../../../src/store/engine/migrate.ts';
import { type Desk, openDesk } from '../../support/cli.ts';
import { bad, examine, shown } from '../../support/doctor.ts';
import { runSql } from '../../support/test-store.ts';

const quiet = { SALLYPORT_TEST_POSTGRES: '' };

describe('doctor on SQLite', () => {
  let desk: Desk;
  const at = (name: string) => desk.path(`data/${name}`);
  const url = () => `sqlite:${at('sallyport.db')}`;
  beforeEach(async () => {
    desk = openDesk(() => quiet);
    await desk.run('migrate');
    expect((await desk.run('tenants', 'create', 'x')).code).toBe(0);
  });
  afterEach(() => desk.clear());

  test('finds nothing wrong where nothing is, and changes nothing', async () => {
    const before = readFileSync(at('sallyport.db'));
    const { code, checks } = await examine(desk);
    expect({ code, found: bad(checks) }).toEqual({ code: 0, found: [] });
    const names = [
      'settings',
      'files',
      'disk',
      'database',
      'schema',
      'clock',
      'master key',
      'sweep',
      'storage',
      'audit log',
    ];
    expect(checks.map(({ name }) => name)).toEqual(expect.arrayContaining(names));
    expect(readFileSync(at('sallyport.db')).equals(before)).toBe(true);
    const { out } = await desk.run('doctor');
    expect(out).toMatch(/^ok {4}database {7}SQLite 3\.\d+\.\d+, whole$/m);
  });

  const day = 86_400_000;
  const unsealed = (moment: number) =>
    runSql(
      url(),
      `insert into audit (id, at, operation, result, entry)
       values ('ffffffff-0000-7000-8000-000000000000', ${moment}, 'x', 'success', '{}')`,
    );
  const sickness: [string, (place: Desk) => unknown, number, RegExp][] = [
    [
      'a data folder that others can look into',
      () => chmodSync(desk.path('data'), 0o750),
      0,
      /^warn files: .*data is open to others$/,
    ],
    [
      'a key file that others can read',
      () => chmodSync(at('master.key'), 0o640),
      1,
      /^fail files: .*master.key is open to others$/,
    ],
    [
      'a database that others can read',
      () => chmodSync(at('sallyport.db'), 0o644),
      0,
      /^warn files: .*sallyport.db is open to others$/,
    ],
    [
      'an old schema',
      () => runSql(url(), `delete from schema_versions where version = ${newestSchema}`),
      0,
      /^warn schema: version \d+ of \d+$/,
    ],
    [
      'a schema of the future',
      () => runSql(url(), "insert into schema_versions (version, name) values (999, 'x')"),
      1,
      /^fail schema: version 999/,
    ],
    [
      'another master key',
      () =>
        writeFileSync(at('master.key'), Buffer.from(newMasterKey().bytes).toString('base64'), {
          mode: 0o600,
        }),
      1,
      /^fail master key: the database was sealed with the master key/,
    ],
    [
      'a clock that went back',
      () => unsealed(Date.now() + day),
      1,
      /^fail clock: it is .*, but the audit log has/,
    ],
    [
      'a row that was put into the audit log',
      () => unsealed(Date.now() - day),
      1,
      /^fail audit log: 1 row is not sealed: put in, or set back, by something else$/,
    ],
    [
      'a sweep that does not happen',
      () =>
        runSql(
          url(),
          `insert into sessions (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules, created_at, expires_at)
           select tenant_id, id, id, x'01', x'02', '[]', '[]', 0, ${Date.now() - day} from applications`,
        ),
      0,
      /^warn sweep: something expired 864\d\d s ago/,
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
      /^warn storage: application [0-9a-f-]{36} has stored 17\.00 GiB of tokens, the most, of a quota of 20\.00 GiB$/,
    ],
    [
      'a damaged database',
      () => {
        const bytes = readFileSync(at('sallyport.db'));
        bytes.fill(0xff, 8 * 4096, 9 * 4096);
        writeFileSync(at('sallyport.db'), bytes);
      },
      1,
      /^fail database: /,
    ],
  ];

  test.each(sickness)('finds %s, and says what to do', async (_, spoil, expected, complaint) => {
    await spoil(desk);
    const { code, checks } = await examine(desk);
    expect(shown(checks).join('\n')).toMatch(new RegExp(complaint.source, 'm'));
    expect(code).toBe(expected);
    for (const { todo } of bad(checks)) expect(todo).toBeTruthy();
  });

  test('finds a checkpoint that is forged, and shows a sound one as an anchor', async () => {
    await desk.run('tenants', 'create', 'other');
    const anchor = (await desk.run('audit', 'head')).out.trim();
    const { checks } = await examine(desk);
    expect(checks.map(({ says }) => says)).toContain(`signed up to ${anchor}`);
    await runSql(url(), 'update audit_checkpoints set at = at + 1');
    const again = await examine(desk);
    expect(shown(again.checks)).toEqual(['fail audit log: the last checkpoint is forged']);
  });

  test('advises a backup for a file that SQLite cannot read', async () => {
    for (const [from, to] of [
      [100, 4096],
      [0, 4096],
    ]) {
      const bytes = readFileSync(at('sallyport.db'));
      writeFileSync(at('sallyport.db'), bytes.fill(0xff, from, to));
      expect(bad((await examine(desk)).checks)).toMatchObject([
        {
          name: 'database',
          state: 'fail',
          todo: 'stop the service, and restore a backup: docs/operations/backups.md',
        },
      ]);
    }
  });

  test('does not advise to prove anything without the master key that this takes', async () => {
    const other = Buffer.from(newMasterKey().bytes).toString('base64');
    writeFileSync(at('master.key'), other, { mode: 0o600 });
    await unsealed(Date.now() - day);
    expect((await desk.run('audit', 'export', desk.path('audit.jsonl'))).code).toBe(1);
    const found = bad((await examine(desk)).checks).filter(({ name }) => name === 'audit log');
    expect(found.map(({ todo }) => todo)).toEqual(Array(2).fill(expect.stringContaining('master key first')));
  });

  const beside = ['sallyport.db-wal', 'sallyport.db-shm', 'sallyport.db-lock', 'management.key'];
  const clearAll = () => {
    for (const name of ['sallyport.db', ...beside]) rmSync(at(name), { force: true });
  };

  test.each(beside)('finds a database that is gone where %s is left, and advises a backup', async (name) => {
    clearAll();
    writeFileSync(at(name), 'x', { mode: 0o600 });
    const { code, checks } = await examine(desk);
    expect(code).toBe(1);
    expect(bad(checks)).toEqual([
      {
        name: 'database',
        state: 'fail',
        says: expect.stringMatching(new RegExp(`is not there, but .*${name} shows that it was in use$`)),
        todo: 'stop the service, and restore a backup: docs/operations/backups.md',
      },
    ]);
  });

  test('finds a database that was emptied, and leaves its log as it is', async () => {
    writeFileSync(at('sallyport.db'), '');
    writeFileSync(at('sallyport.db-wal'), 'all that is left', { mode: 0o600 });
    const { code, checks } = await examine(desk);
    expect({ code, shown: shown(checks) }).toEqual({
      code: 1,
      shown: [expect.stringMatching(/^fail database: .*sallyport.db is empty, but .*-wal shows that it was/)],
    });
    expect(readFileSync(at('sallyport.db-wal'), 'utf8')).toBe('all that is left');
  });

  test('does not mind that there is none yet, nor an empty one that a failed start has left', async () => {
    clearAll();
    const first = await examine(desk);
    expect({ code: first.code, shown: shown(first.checks) }).toEqual({
      code: 0,
      shown: [expect.stringMatching(/^warn database: .*sallyport.db is not there$/)],
    });
    expect(bad(first.checks)[0]?.todo).toContain('if there was one before, restore a backup');
    for (const name of ['sallyport.db', 'sallyport.db-lock']) writeFileSync(at(name), '', { mode: 0o600 });
    const { code, checks } = await examine(desk);
    expect({ code, shown: shown(checks) }).toEqual({
      code: 0,
      shown: [expect.stringMatching(/^warn database: .*sallyport.db is empty$/)],
    });
  });

  test.each([
    ['is gone', 'delete from audit where seq = (select max(seq) from audit)'],
    ['has another link', "update audit set hash = x'00' where seq = (select max(seq) from audit)"],
  ])('finds that the last row that was signed %s', async (_, spoil) => {
    await runSql(url(), spoil);
    const { code, checks } = await examine(desk);
    expect({ code, shown: shown(checks) }).toEqual({
      code: 1,
      shown: [
        expect.stringMatching(/^fail audit log: row \d+ was signed, and is not there as it was signed$/),
      ],
    });
  });

  test('finds settings that mean nothing, and wrong ones', async () => {
    const typo = openDesk(() => ({ ...quiet, SALLYPORT_SESION_TTL: '3' }));
    const found = bad((await examine(typo)).checks);
    expect(found[0]).toEqual({
      name: 'settings',
      state: 'warn',
      says: 'SALLYPORT_SESION_TTL means nothing',
      todo: 'SALLYPORT_SESSION_TTL does',
    });
    expect(found[1]?.says).toContain('is not there');
    const { code, checks } = await examine(typo, '--port', 'http');
    expect({ code, shown: shown(checks) }).toEqual({
      code: 1,
      shown: [expect.stringMatching(/^fail settings: --port \(PORT\) must be a whole number/)],
    });
    typo.clear();
  });
});
