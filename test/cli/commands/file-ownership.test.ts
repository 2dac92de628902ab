/** Files belong to the user of the service, even if root runs the command. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { chmodSync, chownSync, readdirSync, rmSync, statSync } from 'node:fs';
import { type Cli, openCli } from '../../support/cli.ts';
import { isMissing } from '../../support/skip.ts';

const isRoot = process.getuid?.() === 0;
/** The user of the service; it does not exist on this machine. */
const [uid, gid] = [54_321, 54_322];

let cli: Cli;
const at = (name: string) => cli.path(`data/${name}`);
/** Owner and mode of a file in the data folder. */
const of = (name: string) => {
  const { uid, gid, mode } = statSync(at(name));
  return { uid, gid, mode: mode & 0o777 };
};
const serviceOwned = { uid, gid, mode: 0o600 };

async function succeed(...words: string[]): Promise<void> {
  expect(await cli.run(...words)).toMatchObject({ code: 0, err: '' });
}

const noRoot = isMissing(isRoot, 'tests of file ownership: only root can change owners');
describe.skipIf(noRoot)('if root runs a command for a service of another user,', () => {
  beforeEach(async () => {
    cli = openCli();
    await succeed('migrate');
    await succeed('tenants', 'create', 'x');
    chownSync(cli.path('data'), uid, gid);
    for (const name of readdirSync(cli.path('data'))) chownSync(at(name), uid, gid);
  });

  test('a key rotation preserves owner and mode of the key file', async () => {
    chmodSync(at('master.key'), 0o640);
    await succeed('master-key', 'rotate');
    expect(of('master.key')).toEqual({ ...serviceOwned, mode: 0o640 });
  });

  test('a restore preserves owner and mode of the database', async () => {
    await succeed('backup', cli.path('backup.db'));
    await succeed('restore', cli.path('backup.db'), '--force');
    for (const name of readdirSync(cli.path('data'))) expect([name, of(name)]).toEqual([name, serviceOwned]);
  });

  test('a restored database without predecessor belongs to the owner of the folder', async () => {
    await succeed('backup', cli.path('backup.db'));
    for (const part of ['', '-lock']) rmSync(at(`sallyport.db${part}`));
    await succeed('restore', cli.path('backup.db'));
    expect([of('sallyport.db'), of('sallyport.db-lock')]).toEqual([serviceOwned, serviceOwned]);
  });

  test('new files and folders belong to the owner of the data folder', async () => {
    const within = ['--data-dir', at('inner/data'), '--master-key-file', at('keys/master.key')];
    await succeed('migrate', ...within);
    await succeed('tenants', 'create', 'x', ...within);
    const files = ['inner/data/sallyport.db', 'inner/data/sallyport.db-lock', 'keys/master.key'];
    for (const name of files) expect([name, of(name)]).toEqual([name, serviceOwned]);
    for (const name of ['inner', 'inner/data', 'keys'])
      expect(of(name)).toEqual({ ...serviceOwned, mode: 0o700 });
  });
});
