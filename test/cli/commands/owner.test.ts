/** Only root can give a file to somebody else, so that only root can try it. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { chmodSync, chownSync, readdirSync, rmSync, statSync } from 'node:fs';
import { type Desk, openDesk } from '../../support/cli.ts';
import { isMissing } from '../../support/skip.ts';

const isRoot = process.getuid?.() === 0;
/** Nobody that there is: the files of a service that runs as another user. */
const [uid, gid] = [54_321, 54_322];

let desk: Desk;
const at = (name: string) => desk.path(`data/${name}`);
/** Owner and mode of a file in the data folder. */
const of = (name: string) => {
  const { uid, gid, mode } = statSync(at(name));
  return { uid, gid, mode: mode & 0o777 };
};
const theirs = { uid, gid, mode: 0o600 };

async function done(...words: string[]): Promise<void> {
  expect(await desk.run(...words)).toMatchObject({ code: 0, error: '' });
}

const noRoot = isMissing(isRoot, 'tests of file owners: only root can give files away');
describe.skipIf(noRoot)('what root does for a service of another user', () => {
  beforeEach(async () => {
    desk = openDesk();
    await done('migrate');
    await done('tenants', 'create', 'x');
    chownSync(desk.path('data'), uid, gid);
    for (const name of readdirSync(desk.path('data'))) chownSync(at(name), uid, gid);
  });
  afterEach(() => desk.clear());

  test('a rotation leaves the key file with its owner and its mode', async () => {
    chmodSync(at('master.key'), 0o640);
    await done('master-key', 'rotate');
    expect(of('master.key')).toEqual({ ...theirs, mode: 0o640 });
  });

  test('a restore leaves the database with its owner and its mode', async () => {
    await done('backup', desk.path('backup.db'));
    await done('restore', desk.path('backup.db'), '--force');
    for (const name of readdirSync(desk.path('data'))) expect([name, of(name)]).toEqual([name, theirs]);
  });

  test('a database that is put where there was none belongs to whoever has the folder', async () => {
    await done('backup', desk.path('backup.db'));
    for (const part of ['', '-lock']) rmSync(at(`sallyport.db${part}`));
    await done('restore', desk.path('backup.db'));
    expect([of('sallyport.db'), of('sallyport.db-lock')]).toEqual([theirs, theirs]);
  });

  test('so does all that is made on the way, and a folder within it', async () => {
    const within = ['--data-dir', at('inner/data'), '--master-key-file', at('keys/master.key')];
    await done('migrate', ...within);
    await done('tenants', 'create', 'x', ...within);
    const files = ['inner/data/sallyport.db', 'inner/data/sallyport.db-lock', 'keys/master.key'];
    for (const name of files) expect([name, of(name)]).toEqual([name, theirs]);
    for (const name of ['inner', 'inner/data', 'keys']) expect(of(name)).toEqual({ ...theirs, mode: 0o700 });
  });
});
