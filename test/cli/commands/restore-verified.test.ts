/** A backup proves where it comes from, and a restore asks for the proof. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { copyFileSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mint, newId } from '../../../src/domain/key.ts';
import { newMasterKey } from '../../../src/store/crypto/cipher.ts';
import { type Desk, openDesk } from '../../support/cli.ts';
import { openTestServer, type TestServer, testMasterKey } from '../../support/test-server.ts';

let desk: Desk;
let key: string;
const database = () => desk.path('live.db');
const backup = () => desk.path('backup.db');

function open(): Promise<TestServer> {
  return openTestServer(`sqlite:${database()}`);
}

beforeEach(async () => {
  desk = openDesk((folder) => ({
    DATABASE_URL: `sqlite:${join(folder, 'live.db')}`,
    SALLYPORT_MASTER_KEY: testMasterKey,
  }));
  const world = await open();
  key = (await world.tenant()).key;
  await world.close();
  expect((await desk.run('backup', backup())).code).toBe(0);
});
afterEach(() => desk.clear());

const restore = (...options: string[]) => desk.run('restore', backup(), '--force', ...options);

/** Straight at the rows of a file. */
function change(path: string, ...statements: string[]): void {
  const db = new Database(path, { readwrite: true, create: false });
  for (const statement of statements) db.run(statement);
  db.close();
}

const planted = mint('mgt');
/** Gives the first management Application of a database a key that somebody else has. */
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
    `insert into application_keys (${columns.join(', ')}) select ${source.join(', ')} from application_keys limit 1`,
  ).run(Object.fromEntries(Object.entries(values).map(([name, value]) => [`$${name}`, value as string])));
  db.close();
}

async function works(credential: string): Promise<boolean> {
  const world = await open();
  const { status } = await world.call('GET', '/applications', { key: credential });
  await world.close();
  return status === 200;
}

test('a backup says what proves it, and a restore that it was checked', async () => {
  const made = await desk.json('backup', desk.path('second.db'));
  expect(made.body).toMatchObject({ file: desk.path('second.db'), master_key: expect.any(String) });
  const restored = await desk.json('restore', backup(), '--force');
  expect(restored.body.backup).toEqual({
    verified: true,
    taken_at: expect.stringMatching(/^\d{4}-.*Z$/),
    master_key: made.body.master_key,
  });
  const { out } = await restore();
  expect(out).toContain(`backup verified: taken at ${restored.body.backup.taken_at}`);
  expect(await works(key)).toBe(true);
});

const end = 127;
const forgeries: [string, () => unknown, RegExp][] = [
  ['with a management key that somebody added', () => plantKey(backup()), /MAC does not match/],
  [
    'with a trigger that somebody added',
    () => change(backup(), 'create trigger t after insert on audit begin delete from audit; end'),
    /MAC does not match/,
  ],
  [
    'of which one byte was changed',
    () => {
      const bytes = readFileSync(backup());
      bytes.writeUInt8(bytes.readUInt8(5000) ^ 1, 5000);
      writeFileSync(backup(), bytes);
    },
    /MAC does not match/,
  ],
  [
    'with another time',
    () => {
      const bytes = readFileSync(backup());
      bytes.write('3', bytes.length - end + 20);
      writeFileSync(backup(), bytes);
    },
    /MAC does not match/,
  ],
  ['that lost its end', () => truncateSync(backup(), 40_960), /has no MAC/],
  [
    'of an older version, which has no MAC',
    () => truncateSync(backup(), readFileSync(backup()).length - end),
    /has no MAC/,
  ],
  [
    'with the MAC of another backup',
    async () => {
      change(database(), 'update tenants set name = name || 1');
      await desk.run('backup', desk.path('other.db'));
      const mac = readFileSync(desk.path('other.db')).subarray(-end);
      writeFileSync(backup(), Buffer.concat([readFileSync(backup()).subarray(0, -end), mac]));
    },
    /MAC does not match/,
  ],
];

describe('a file is refused, and nothing is changed:', () => {
  test.each(forgeries)('a backup %s', async (_, forge, reason) => {
    await forge();
    const { code, out, error } = await restore();
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(error).toMatch(reason);
    expect(error).toContain('--unverified');
    expect([await works(key), await works(planted.secret.reveal())]).toEqual([true, false]);
    expect(readdirSync(desk.folder).filter((name) => /restoring|replaced/.test(name))).toEqual([]);
  });

  test('a backup under a master key that is not given', async () => {
    const other = newMasterKey();
    const elsewhere = openDesk((folder) => ({
      DATABASE_URL: `sqlite:${join(folder, 'live.db')}`,
      SALLYPORT_MASTER_KEY: Buffer.from(other.bytes).toString('base64'),
    }));
    await elsewhere.run('migrate');
    await elsewhere.run('backup', elsewhere.path('backup.db'));
    copyFileSync(elsewhere.path('backup.db'), backup());
    elsewhere.clear();
    expect(await restore()).toMatchObject({
      code: 1,
      error: expect.stringContaining(
        `its MAC was made with the master key ${other.id}, which SALLYPORT_MASTER_KEY does not hold`,
      ),
    });
  });

  const schemas: [string, string[]][] = [
    ['the trigger t', ['create trigger t after insert on audit begin delete from audit; end']],
    ['the view v', ['create view v as select 1']],
    ['the table t', ['create table t (a)']],
    ['the index i', ['create index i on tenants (name)']],
    ['the index audit_by_tenant', ['drop index audit_by_tenant']],
    ['the table tenants', ['alter table tenants add column more text']],
    [
      'the trigger token_containers_go',
      [
        'drop trigger token_containers_go',
        'create trigger token_containers_go after delete on tokens begin delete from audit; end',
      ],
    ],
  ];
  test.each(schemas)('a backup of a database with another schema: %s', async (what, statements) => {
    change(database(), ...statements);
    const taken = await desk.run('backup', desk.path('odd.db'));
    expect(taken).toMatchObject({ code: 0, error: expect.stringContaining(what) });
    const { code, error } = await desk.run('restore', desk.path('odd.db'), '--force');
    expect({ code, error }).toEqual({ code: 1, error: expect.stringContaining(what) });
    const { body } = await desk.json('restore', desk.path('odd.db'), '--force', '--unverified');
    expect(body.backup).toEqual({ verified: false, why: expect.stringContaining(what) });
  });
});

test('a log beside a verified backup is not read', async () => {
  copyFileSync(backup(), desk.path('copy.db'));
  truncateSync(desk.path('copy.db'), readFileSync(backup()).length - end);
  const copy = new Database(desk.path('copy.db'));
  copy.run('pragma journal_mode = wal');
  copy.run('update tenants set name = ?', ['planted']);
  copyFileSync(desk.path('copy.db-wal'), `${backup()}-wal`);
  copy.close();
  expect((await restore()).code).toBe(0);
  expect((await desk.run('tenants', 'list')).out).not.toContain('planted');
});

test('what is not verified is restored if it is said so, and told', async () => {
  plantKey(backup());
  expect(await works(planted.secret.reveal())).toBe(false);
  const { body } = await desk.json('restore', backup(), '--force', '--unverified');
  expect(body.backup).toEqual({ verified: false, why: expect.stringContaining('MAC does not match') });
  expect(await works(planted.secret.reveal())).toBe(true);
  const { out } = await restore('--unverified');
  expect(out).toContain('NOT verified: ');
  const tail = await desk.run('audit', 'tail', '--json', '--operation', 'database.restore', '--lines', '1');
  expect(JSON.parse(tail.out).difference.backup.to).toEqual(body.backup);
});
