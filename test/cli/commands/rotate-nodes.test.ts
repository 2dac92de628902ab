import { beforeEach, describe, expect, test } from 'bun:test';
import { parseMasterKeys } from '../../../src/db/keys/cipher.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { shell } from '../../support/shell.ts';
import { databases } from '../../support/test-server.ts';
import { runSql } from '../../support/test-store.ts';

const [old, next] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [string, string];
const [oldId, nextId] = parseMasterKeys(`${old},${next}`).map(({ id }) => id) as [string, string];

describe.each(databases)('nodes and the master key on %s', (_, database) => {
  let folder: string;
  let url: string;
  beforeEach(async () => {
    folder = temporaryFolder();
    url = await database.createMigrated(folder);
    for (const words of [
      ['tenants', 'create', 'x'],
      ['audit', 'head'],
    ])
      expect((await run(old, ...words)).code).toBe(0);
  });

  const run = (masterKey: string, ...words: string[]) =>
    shell(words, {
      env: { DATABASE_URL: url, SALLYPORT_DATA_DIR: folder, SALLYPORT_MASTER_KEY: masterKey },
    });
  const rotate = (...options: string[]) => run(`${next},${old}`, 'master-key', 'rotate', ...options);
  const current = async () => (await runSql<{ id: string }>(url, 'select id from master_key'))[0]?.id;

  /** Inserts the record of a node, renewed `later` milliseconds from now. Its clock is `ahead` milliseconds fast. */
  const addNode = (name: string, masterKeys: string[], later: number, ahead = 0) =>
    runSql(
      url,
      `insert into nodes (id, name, version, master_keys, clock, seen_at) values
         ('${crypto.randomUUID()}', '${name}', '1', '${JSON.stringify(masterKeys)}',
          ${Date.now() + later + ahead}, ${Date.now() + later})`,
    );
  const minute = 60_000;

  test('a rotation is rejected while a node does not have the new key, and --force rotates with a warning', async () => {
    await addNode('web-1', [nextId, oldId], 0);
    await addNode('web-2', [oldId], minute);
    expect(await rotate()).toMatchObject({
      code: 1,
      err: expect.stringMatching(
        new RegExp(
          `error: the master key was not rotated: web-2 cannot use the new master key ${nextId}\n.*restart them with the same SALLYPORT_MASTER_KEY.*--force`,
        ),
      ),
    });
    expect(await current()).toBe(oldId);
    expect(await rotate('--force')).toMatchObject({
      code: 0,
      err: `sallyport: warning: without the master key ${nextId}, these nodes respond with 503: web-2. Restart them with the new key\n`,
    });
    expect(await current()).toBe(nextId);
  });

  test('a node that has not renewed its record for long does not count', async () => {
    await addNode('crashed', [oldId], -minute);
    expect((await rotate()).code).toBe(0);
    expect(await current()).toBe(nextId);
  });

  const doctorLines = async () =>
    (await run(old, 'doctor')).out.split('\n').filter((line) => line.slice(6).startsWith('nodes'));

  test('doctor reports nodes without the master key and nodes with a wrong clock', async () => {
    expect(await doctorLines()).toEqual([expect.stringMatching(/^ok .* no node is running$/)]);
    await addNode('web-1', [oldId], 0);
    expect(await doctorLines()).toEqual([expect.stringMatching(/^ok .* 1 node is running, with/)]);
    await addNode('web-2', [nextId], 0);
    // `seen_at` is the time of the node on SQLite, and the time of the database on PostgreSQL.
    await addNode('web-3', [oldId], database.name === 'SQLite' ? minute : 0, minute);
    expect(await doctorLines()).toEqual([
      expect.stringMatching(new RegExp(`^fail .* web-2 does not have the master key ${oldId}$`)),
      expect.stringMatching(/^warn .* the clock of web-3 is (59|60) s ahead$/),
    ]);
  });
});
