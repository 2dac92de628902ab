/** Real processes that are told to stop in the middle of what they write. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { type Desk, openDesk } from '../../support/cli.ts';
import { runSql } from '../../support/test-store.ts';

let desk: Desk;
const at = (name: string) => desk.path(`kept/${name}`);
const kept = () => readdirSync(desk.path('kept')).sort();

/** So much that it takes a while to write it. */
beforeEach(async () => {
  desk = openDesk();
  mkdirSync(desk.path('kept'));
  await desk.run('migrate');
  await runSql(
    `sqlite:${desk.path('data/sallyport.db')}`,
    `insert into audit (id, at, operation, result, entry, seq)
     with recursive n (n) as (select 1 union all select n + 1 from n where n < 50000)
     select printf('%036d', n), n, 'x', 'success', hex(randomblob(300)), n from n`,
  );
});
afterEach(() => desk.clear());

/** Resolves when there is more than a lock. */
async function begun(process: Bun.Subprocess): Promise<void> {
  while (kept().every((name) => name.includes('-lock')) && process.exitCode === null) await Bun.sleep(1);
}

/** Sends the signal as soon as anything is there; answers with how it ended, and what it said. */
async function interrupted(signal: NodeJS.Signals, ...words: string[]) {
  const process = desk.start(...words);
  await begun(process);
  process.kill(signal);
  const code = await process.exited;
  return { code, error: await new Response(process.stderr).text() };
}

const stopped = {
  code: 1,
  error: 'sallyport: error: it was told to stop, and has written nothing\nsallyport: hint: run it again\n',
};

test.each([['SIGTERM'], ['SIGINT'], ['SIGHUP']] as const)(
  'a backup that gets a %s leaves nothing behind',
  async (signal) => {
    expect(await interrupted(signal, 'backup', at('k.db'))).toEqual(stopped);
    expect(kept()).toEqual([]);
  },
);

test('a backup that is killed has not got its name, and is not in the way of the next', async () => {
  await interrupted('SIGKILL', 'backup', at('k.db'));
  expect(kept()).toContain('k.db.part');
  expect(kept()).not.toContain('k.db');
  expect(await desk.run('backup', at('k.db'))).toMatchObject({ code: 0, error: '' });
  expect(kept()).toEqual(['k.db']);
});

test('of two backups to one name at once, one is made and the other refused', async () => {
  const both = await Promise.all(
    [desk.start('backup', at('k.db')), desk.start('backup', at('k.db'))].map((each) => each.exited),
  );
  expect(both.toSorted()).not.toEqual([0, 0]);
  expect(both).toContain(0);
  expect(kept()).toEqual(['k.db']);
});

test('a backup that somebody else takes the name of meanwhile leaves that file alone', async () => {
  const process = desk.start('backup', at('k.db'));
  await begun(process);
  writeFileSync(at('k.db'), 'theirs');
  expect(await process.exited).toBe(2);
  expect(kept()).toEqual(['k.db']);
});

test('an export that is told to stop leaves nothing behind', async () => {
  expect(await interrupted('SIGTERM', 'audit', 'export', at('audit.jsonl'))).toEqual(stopped);
  expect(kept()).toEqual([]);
});
