/** A restore verifies the MAC of the backup. */
import { Database } from 'bun:sqlite';
import { beforeEach, describe, expect, test } from 'bun:test';
import { copyFileSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newMasterKey } from '../../../src/db/keys/cipher.ts';
import { type Minted, mint, newId, parseKey } from '../../../src/domain/key.ts';
import { type Cli, openCli, openSqliteCli } from '../../support/cli.ts';
import { openTestServer, type TestServer } from '../../support/test-server.ts';

let cli: Cli;
let key: string;
const database = () => cli.path('live.db');
const backup = () => cli.path('backup.db');

function open(): Promise<TestServer> {
  return openTestServer(`sqlite:${database()}`);
}

beforeEach(async () => {
  cli = openSqliteCli();
  const server = await open();
  key = (await server.tenant()).key;
  planted = mint('mgt', parseKey(key)!.tag);
  await server.close();
  expect((await cli.run('backup', backup())).code).toBe(0);
});

const restore = (...options: string[]) => cli.run('restore', backup(), '--force', ...options);

/** Runs SQL on a database file. */
function change(path: string, ...statements: string[]): void {
  const db = new Database(path, { readwrite: true, create: false });
  for (const statement of statements) db.run(statement);
  db.close();
}

let planted: Minted;
/** Adds a key of an attacker to the first management application. */
function plantKey(path: string): void {
  const db = new Database(path);
  const columns = db.query("select name from pragma_table_info('application_keys')").values().flat();
  const values: Record<string, unknown> = {
    id: newId(Date.now()),
    digest: planted.digest,
    ending: planted.ending,
  };
  const source = columns.map((name) => (String(name) in values ? `$${name}` : String(name)));
  db.query(
    `insert into application_keys (${columns.join(', ')}) select ${source.join(', ')} from application_keys
     where tenant_id in (select id from tenants where tag = '${planted.tag}')`,
  ).run(Object.fromEntries(Object.entries(values).map(([name, value]) => [`$${name}`, value as string])));
  db.close();
}

async function works(credential: string): Promise<boolean> {
  const server = await open();
  const { status } = await server.call('GET', '/applications', { key: credential });
  await server.close();
  return status === 200;
}

test('backup prints the master key of its MAC, and restore that it was verified', async () => {
  const created = await cli.json('backup', cli.path('second.db'));
  expect(created.body).toMatchObject({ file: cli.path('second.db'), master_key: expect.any(String) });
  const restored = await cli.json('restore', backup(), '--force');
  expect(restored.body.backup).toEqual({
    verified: true,
    taken_at: expect.stringMatching(/^\d{4}-.*Z$/),
    master_key: created.body.master_key,
  });
  const { out } = await restore();
  expect(out).toContain(`backup verified: taken at ${restored.body.backup.taken_at}`);
  expect(await works(key)).toBe(true);
});

const macLength = 127;
const forgeries: [string, () => unknown, RegExp][] = [
  ['with an added management key', () => plantKey(backup()), /MAC does not match/],
  [
    'with an added trigger',
    () =>
      change(
        backup(),
        'create trigger t after insert on audit_segments begin delete from audit_segments; end',
      ),
    // The MAC is at the end of the file. If the trigger makes the database grow, it overwrites the MAC.
    /MAC does not match|has no MAC/,
  ],
  [
    'with one changed byte',
    () => {
      const bytes = readFileSync(backup());
      bytes.writeUInt8(bytes.readUInt8(5000) ^ 1, 5000);
      writeFileSync(backup(), bytes);
    },
    /MAC does not match/,
  ],
  [
    'with a changed time',
    () => {
      const bytes = readFileSync(backup());
      bytes.write('3', bytes.length - macLength + 20);
      writeFileSync(backup(), bytes);
    },
    /MAC does not match/,
  ],
  ['without its end', () => truncateSync(backup(), 40_960), /has no MAC/],
  ['without a MAC', () => truncateSync(backup(), readFileSync(backup()).length - macLength), /has no MAC/],
  [
    'with the MAC of another backup',
    async () => {
      change(database(), 'update tenants set name = name || 1');
      await cli.run('backup', cli.path('other.db'));
      const mac = readFileSync(cli.path('other.db')).subarray(-macLength);
      writeFileSync(backup(), Buffer.concat([readFileSync(backup()).subarray(0, -macLength), mac]));
    },
    /MAC does not match/,
  ],
];

describe('restore rejects, without changes,', () => {
  test.each(forgeries)('a backup %s', async (_, forge, reason) => {
    await forge();
    const { code, out, err } = await restore();
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(reason);
    expect(err).toContain('--unverified');
    expect([await works(key), await works(planted.secret.reveal())]).toEqual([true, false]);
    expect(readdirSync(cli.folder).filter((name) => /restoring|replaced/.test(name))).toEqual([]);
  });

  test('a backup under an unknown master key', async () => {
    const other = newMasterKey();
    const elsewhere = openCli((folder) => ({
      DATABASE_URL: `sqlite:${join(folder, 'live.db')}`,
      SALLYPORT_MASTER_KEY: Buffer.from(other.bytes).toString('base64'),
    }));
    await elsewhere.run('migrate');
    await elsewhere.run('backup', elsewhere.path('backup.db'));
    copyFileSync(elsewhere.path('backup.db'), backup());
    expect(await restore()).toMatchObject({
      code: 1,
      err: expect.stringContaining(
        `its MAC was created with the master key ${other.id}, which SALLYPORT_MASTER_KEY does not contain`,
      ),
    });
  });

  const schemas: [string, string[]][] = [
    [
      'the trigger t',
      ['create trigger t after insert on audit_segments begin delete from audit_segments; end'],
    ],
    ['the view v', ['create view v as select 1']],
    ['the table t', ['create table t (a)']],
    ['the index i', ['create index i on tenants (name)']],
    ['the index audit_segments_by_time', ['drop index audit_segments_by_time']],
    ['the table tenants', ['alter table tenants add column more text']],
    [
      'the trigger delete_token_containers',
      [
        'drop trigger delete_token_containers',
        'create trigger delete_token_containers after delete on tokens begin delete from audit_segments; end',
      ],
    ],
  ];
  test.each(schemas)('a backup with a different schema: %s', async (what, statements) => {
    change(database(), ...statements);
    const taken = await cli.run('backup', cli.path('odd.db'));
    expect(taken).toMatchObject({ code: 0, err: expect.stringContaining(what) });
    const { code, err } = await cli.run('restore', cli.path('odd.db'), '--force');
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining(what) });
    const { body } = await cli.json('restore', cli.path('odd.db'), '--force', '--unverified');
    expect(body.backup).toEqual({ verified: false, why: expect.stringContaining(what) });
  });
});

test('a write-ahead log beside a verified backup is ignored', async () => {
  copyFileSync(backup(), cli.path('copy.db'));
  truncateSync(cli.path('copy.db'), readFileSync(backup()).length - macLength);
  const copy = new Database(cli.path('copy.db'));
  copy.run('pragma journal_mode = wal');
  copy.run('update tenants set name = ?', ['planted']);
  copyFileSync(cli.path('copy.db-wal'), `${backup()}-wal`);
  copy.close();
  expect((await restore()).code).toBe(0);
  expect((await cli.run('tenants', 'list')).out).not.toContain('planted');
});

test('--unverified restores an unverified backup and reports it', async () => {
  plantKey(backup());
  expect(await works(planted.secret.reveal())).toBe(false);
  const { body } = await cli.json('restore', backup(), '--force', '--unverified');
  expect(body.backup).toEqual({ verified: false, why: expect.stringContaining('MAC does not match') });
  expect(await works(planted.secret.reveal())).toBe(true);
  const { out } = await restore('--unverified');
  expect(out).toContain('NOT verified: ');
  const tail = await cli.run('audit', 'tail', '--json', '--operation', 'database.restore', '--lines', '1');
  expect(JSON.parse(tail.out).difference.backup.to).toEqual(body.backup);
});
