/** Full and read-only disks, missing permissions, and output that cannot be written. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { systemTenant } from '../../../src/audit/records.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import { mount, noMount, unmount } from '../../support/mount.ts';
import { root } from '../../support/service.ts';
import { isMissing } from '../../support/skip.ts';
import { runSql } from '../../support/test-store.ts';

let cli: Cli;
const small = () => cli.path('small');
const database = () => cli.path('data/sallyport.db');

beforeEach(async () => {
  cli = openCli();
  await cli.run('migrate');
  await cli.run('tenants', 'create', 'x');
});

/** Expects one error and one hint, without a stack. */
function expectError(err: string, message: RegExp): void {
  const lines = err.trimEnd().split('\n');
  expect(lines).toEqual([
    expect.stringMatching(new RegExp(`^sallyport: error: .*${message.source}`)),
    expect.stringMatching(/^sallyport: hint: ./),
  ]);
}

const isRoot = process.getuid?.() === 0;

/** Runs as a user without access to the data folder. */
async function asStranger<T>(work: () => Promise<T>): Promise<T> {
  chmodSync(cli.folder, 0o711);
  chmodSync(cli.path('data'), isRoot ? 0o700 : 0);
  if (isRoot) process.seteuid?.(54_321);
  try {
    return await work();
  } finally {
    if (isRoot) process.seteuid?.(0);
    chmodSync(cli.path('data'), 0o700);
  }
}

describe('without permission to read the data folder', () => {
  test.each([
    ['backup', ['backup', '/tmp/never.db']],
    ['tenants list', ['tenants', 'list']],
    ['audit head', ['audit', 'head']],
  ])('%s reports the missing permission, not a missing database', async (_, words) => {
    const { code, out, err } = await asStranger(() => cli.run(...words));
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expectError(err, /data\/sallyport\.db: permission denied/);
  });

  test('a master key that cannot be read is reported with what to check', async () => {
    const { code, err } = await cli.run('tenants', 'list', '--master-key-file', cli.folder);
    expect(code).toBe(2);
    expectError(err, /SALLYPORT_MASTER_KEY_FILE cannot be read: EISDIR/);
    expect(err).toContain('hint: check the path');
  });

  test('doctor reports it and runs the other checks', async () => {
    const { code, out, err } = await asStranger(() => cli.run('doctor'));
    expect({ code, err }).toEqual({ code: 1, err: '' });
    expect(out).toMatch(/^fail {2}files .*permission denied$/m);
    expect(out).toMatch(/^fail {2}database .*permission denied$/m);
  });
});

describe.skipIf(noMount)('on a full or read-only disk', () => {
  beforeEach(async () => {
    await runSql(
      `sqlite:${database()}`,
      `insert into audit_pending (at, format, tenant_id, id, mac, entry)
       with recursive n (n) as (select 10 union all select n + 1 from n where n < 4000)
       select n, 1, '${systemTenant}', format('01900000-0000-7000-8000-%012d', n), x'00', hex(randomblob(300)) from n`,
    );
    mkdirSync(small());
    expect(mount('-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', small())).toBe(true);
  });
  afterEach(() => {
    unmount(small());
  });

  test.each([
    ['backup', ['backup']],
    ['audit export', ['audit', 'export']],
  ])('%s fails on a full disk and leaves no file', async (_, words) => {
    const { code, out, err } = await cli.run(...words, join(small(), 'x'));
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expectError(err, /cannot write \S+small\/x: the disk is full/);
    expect(readdirSync(small())).toEqual([]);
  });

  test('restore fails on a full disk and leaves no file', async () => {
    await cli.run('backup', cli.path('backup.db'));
    const to = ['--data-dir', small(), '--master-key-file', cli.path('data/master.key')];
    const { code, out, err } = await cli.run('restore', cli.path('backup.db'), ...to);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expectError(err, /small\/sallyport\.db\.restoring.*: the disk is full/);
    expect(existsSync(join(small(), 'sallyport.db'))).toBe(false);
  });

  test.each([
    ['empty', () => {}],
    ['with a lock file on it', () => copyFileSync(`${database()}-lock`, join(small(), 'sallyport.db-lock'))],
  ])('restore reports a read-only file system, %s', async (_, prepare) => {
    await cli.run('backup', cli.path('backup.db'));
    prepare();
    expect(mount('-o', 'remount,ro', small())).toBe(true);
    const { code, out, err } = await cli.run('restore', cli.path('backup.db'), '--data-dir', small());
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expectError(err, /small\/sallyport\.db\S*: the file system is read-only/);
  });

  test('doctor reports a read-only file system, and that the database cannot be opened because of it', async () => {
    expect(mount('--bind', cli.path('data'), small())).toBe(true);
    expect(mount('-o', 'remount,bind,ro', small())).toBe(true);
    const { code, out } = await cli.run('doctor', '--data-dir', small());
    unmount(small());
    expect(code).toBe(1);
    expect(out).toMatch(/^fail {2}disk {11}the file system of \S+small is read-only\n +→ mount it writable/m);
    expect(out).toMatch(
      /^fail {2}database .*small.*\n +→ correct the problem of the disk first: see above$/m,
    );
  });
});

const noFullDevice = isMissing(existsSync('/dev/full'), 'test of unwritable output: no /dev/full');
test.skipIf(noFullDevice)('a write error on standard output is reported and exits with 1', async () => {
  const command = [process.execPath, '--no-env-file', join(root, 'src/main.ts')];
  for (const words of [['tenants', 'list', '--data-dir', cli.path('data')], ['help'], ['version']]) {
    const run = Bun.spawn([...command, ...words], {
      stdio: ['ignore', Bun.file('/dev/full'), 'pipe'],
      cwd: cli.folder,
    });
    expect(await run.exited).toBe(1);
    expectError(await new Response(run.stderr).text(), /cannot write to standard output: the disk is full/);
  }
});
