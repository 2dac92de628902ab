/** Processes that are interrupted while they write a file. */
import { beforeEach, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { systemTenant } from '../../../src/audit/records.ts';
import { type Cli, openCli } from '../../support/cli.ts';
import { runSql } from '../../support/test-store.ts';

let cli: Cli;

async function addEntries(time: string, count: number): Promise<void> {
  await runSql(
    `sqlite:${cli.path('data/sallyport.db')}`,
    `insert into audit_pending (at, format, tenant_id, id, mac, entry)
     with recursive n (n) as (select 1 union all select n + 1 from n where n < ${count})
     select n, 1, '${systemTenant}', format('${time}-0000-7000-8000-%012d', n), x'00', hex(randomblob(300)) from n`,
  );
}

const at = (name: string) => cli.path(`out/${name}`);
const files = () => readdirSync(cli.path('out')).sort();

/** Enough rows that writing them takes a while. */
beforeEach(async () => {
  cli = openCli();
  mkdirSync(cli.path('out'));
  await cli.run('migrate');
  await addEntries('01900000', 50_000);
});

/** Resolves when the process has created a file other than its lock. */
async function started(process: Bun.Subprocess): Promise<void> {
  while (files().every((name) => name.includes('-lock')) && process.exitCode === null) await Bun.sleep(1);
}

/** Sends the signal as soon as the process writes. Resolves with its exit code and messages. */
async function interrupt(signal: NodeJS.Signals, ...words: string[]) {
  const process = cli.start(...words);
  await started(process);
  process.kill(signal);
  const code = await process.exited;
  return { code, err: await new Response(process.stderr).text() };
}

const interrupted = (signal: NodeJS.Signals) => ({
  code: 128 + constants.signals[signal],
  err: `sallyport: error: interrupted by ${signal}: no file was written\nsallyport: hint: run the command again\n`,
});

test.each([['SIGTERM'], ['SIGINT'], ['SIGHUP']] as const)(
  'a backup interrupted by %s leaves no file',
  async (signal) => {
    expect(await interrupt(signal, 'backup', at('k.db'))).toEqual(interrupted(signal));
    expect(files()).toEqual([]);
  },
);

test('a killed backup leaves only a .part file, which the next backup replaces', async () => {
  await interrupt('SIGKILL', 'backup', at('k.db'));
  expect(files()).toContain('k.db.part');
  expect(files()).not.toContain('k.db');
  expect(await cli.run('backup', at('k.db'))).toMatchObject({ code: 0, err: '' });
  expect(files()).toEqual(['k.db']);
});

test('of two concurrent backups to one file, one succeeds and the other fails', async () => {
  const both = await Promise.all(
    [cli.start('backup', at('k.db')), cli.start('backup', at('k.db'))].map((each) => each.exited),
  );
  expect(both.toSorted()).not.toEqual([0, 0]);
  expect(both).toContain(0);
  expect(files()).toEqual(['k.db']);
});

test('a backup does not overwrite a file that appears while it runs', async () => {
  const process = cli.start('backup', at('k.db'));
  await started(process);
  writeFileSync(at('k.db'), 'theirs');
  expect(await process.exited).toBe(2);
  expect(files()).toEqual(['k.db']);
});

test('an interrupted export leaves no file', async () => {
  await addEntries('01900001', 150_000);
  expect(await interrupt('SIGTERM', 'audit', 'export', at('audit.jsonl'))).toEqual(interrupted('SIGTERM'));
  expect(files()).toEqual([]);
});
