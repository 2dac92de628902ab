/** What an operator runs into: disks that are full or read-only, folders of somebody else, output that goes nowhere. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Desk, openDesk } from '../../support/cli.ts';
import { root } from '../../support/service.ts';
import { isMissing } from '../../support/skip.ts';
import { runSql } from '../../support/test-store.ts';

let desk: Desk;
const small = () => desk.path('small');
const database = () => desk.path('data/sallyport.db');

beforeEach(async () => {
  desk = openDesk();
  await desk.run('migrate');
  await desk.run('tenants', 'create', 'x');
});
afterEach(() => desk.clear());

/** Two lines, the second of which says what to do, and no stack. */
function complaint(error: string, says: RegExp): void {
  const lines = error.trimEnd().split('\n');
  expect(lines).toEqual([
    expect.stringMatching(new RegExp(`^sallyport: error: .*${says.source}`)),
    expect.stringMatching(/^sallyport: hint: ./),
  ]);
}

const isRoot = process.getuid?.() === 0;

/** As a user who may do nothing: root becomes another for a while, anybody else has locked themselves out. */
async function asStranger<T>(work: () => Promise<T>): Promise<T> {
  chmodSync(desk.folder, 0o711);
  chmodSync(desk.path('data'), isRoot ? 0o700 : 0);
  if (isRoot) process.seteuid?.(54_321);
  try {
    return await work();
  } finally {
    if (isRoot) process.seteuid?.(0);
    chmodSync(desk.path('data'), 0o700);
  }
}

describe('a data folder that this user may not enter', () => {
  test.each([
    ['backup', ['backup', '/tmp/never.db']],
    ['tenants list', ['tenants', 'list']],
    ['audit head', ['audit', 'head']],
  ])('is what %s says, not that there is no database', async (_, words) => {
    const { code, out, error } = await asStranger(() => desk.run(...words));
    expect({ code, out }).toEqual({ code: 1, out: '' });
    complaint(error, /data\/sallyport\.db: permission is denied to this user/);
  });

  test('is one of the things that doctor finds', async () => {
    const { code, out, error } = await asStranger(() => desk.run('doctor'));
    expect({ code, error }).toEqual({ code: 1, error: '' });
    expect(out).toMatch(/^fail {2}files .*permission is denied to this user$/m);
    expect(out).toMatch(/^fail {2}database .*permission is denied to this user$/m);
  });
});

function mount(...options: string[]): boolean {
  return spawnSync('mount', options, { stdio: 'ignore' }).status === 0;
}

const canMount = (() => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-mount-'));
  const could = mount('-t', 'tmpfs', 'tmpfs', folder);
  if (could) spawnSync('umount', [folder]);
  rmdirSync(folder);
  return could;
})();

const noMount = isMissing(canMount, 'full-disk tests: this user cannot mount a tmpfs');
describe.skipIf(noMount)('on a disk', () => {
  beforeEach(async () => {
    await runSql(
      `sqlite:${database()}`,
      `insert into audit (id, at, operation, result, entry, seq)
       with recursive n (n) as (select 10 union all select n + 1 from n where n < 4000)
       select printf('%036d', n), n, 'x', 'success', hex(randomblob(300)), n from n`,
    );
    mkdirSync(small());
    expect(mount('-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', small())).toBe(true);
  });
  afterEach(() => {
    spawnSync('umount', ['-l', small()]);
  });

  test.each([
    ['backup', ['backup']],
    ['audit export', ['audit', 'export']],
  ])('that is full, %s says so and leaves nothing behind', async (_, words) => {
    const { code, out, error } = await desk.run(...words, join(small(), 'x'));
    expect({ code, out }).toEqual({ code: 1, out: '' });
    complaint(error, /small\/x cannot be written: the disk is full/);
    expect(readdirSync(small())).toEqual([]);
  });

  test('that is full, restore says so and leaves nothing behind', async () => {
    await desk.run('backup', desk.path('backup.db'));
    const to = ['--data-dir', small(), '--master-key-file', desk.path('data/master.key')];
    const { code, out, error } = await desk.run('restore', desk.path('backup.db'), ...to);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    complaint(error, /small\/sallyport\.db\.restoring.*: the disk is full/);
    expect(existsSync(join(small(), 'sallyport.db'))).toBe(false);
  });

  test.each([
    ['empty', () => {}],
    ['with a lock file on it', () => copyFileSync(`${database()}-lock`, join(small(), 'sallyport.db-lock'))],
  ])('that is read-only, %s, restore says so', async (_, prepare) => {
    await desk.run('backup', desk.path('backup.db'));
    prepare();
    expect(mount('-o', 'remount,ro', small())).toBe(true);
    const { code, out, error } = await desk.run('restore', desk.path('backup.db'), '--data-dir', small());
    expect({ code, out }).toEqual({ code: 1, out: '' });
    complaint(error, /small\/sallyport\.db\S*: the file system is read-only/);
  });
});

const noFullDevice = isMissing(existsSync('/dev/full'), 'test of unwritable output: no /dev/full');
test.skipIf(noFullDevice)('output that cannot be written is a sentence and a failure', async () => {
  const command = [process.execPath, '--no-env-file', join(root, 'src/main.ts')];
  for (const words of [['tenants', 'list', '--data-dir', desk.path('data')], ['help'], ['version']]) {
    const run = Bun.spawn([...command, ...words], {
      stdio: ['ignore', Bun.file('/dev/full'), 'pipe'],
      cwd: desk.folder,
    });
    expect(await run.exited).toBe(1);
    complaint(await new Response(run.stderr).text(), /standard output cannot be written: the disk is full/);
  }
});
