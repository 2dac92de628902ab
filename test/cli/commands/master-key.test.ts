import { beforeEach, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { type Cli, openCli } from '../../support/cli.ts';
import { environment } from '../../support/service.ts';
import { shell } from '../../support/shell.ts';

let cli: Cli;
const backup = () => cli.path('backup.db');
const exported = () => cli.path('audit.jsonl');
const keys = () => readFileSync(cli.path('data/master.key'), 'utf8').trimEnd().split('\n');
const rotate = ['master-key', 'rotate'];

async function succeed(...words: string[]): Promise<string> {
  const { code, out, err } = await cli.run(...words);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return out;
}

beforeEach(async () => {
  cli = openCli();
  await succeed('migrate');
  await succeed('tenants', 'create', 'x');
  await succeed('backup', backup());
  await succeed('audit', 'export', exported());
});

test('after a rotation, older exports verify and older backups restore', async () => {
  const before = keys();
  expect(await succeed(...rotate)).toContain('the old key stays in ');
  expect(keys()).toEqual([expect.any(String), ...before]);
  expect(await succeed('audit', 'verify', exported())).toStartWith('valid: ');
  await succeed('restore', backup(), '--force');
  expect(await succeed('tenants', 'list')).toEndWith('  x\n');
  expect(JSON.parse(await succeed('doctor', '--json')).ok).toBe(true);
});

test('--drop-old deletes the old master key after a confirmation', async () => {
  const drop = [...rotate, '--drop-old'];
  const before = keys();
  expect(await cli.run(...drop)).toMatchObject({ code: 2, err: expect.stringContaining('pass --yes') });
  const env = environment(cli.folder, {});
  const refused = await shell(drop, { env, answers: ['n'] });
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringContaining('audit exports need them'),
  });
  expect(keys()).toEqual(before);
  expect((await shell(drop, { env, answers: ['y'] })).code).toBe(0);
  expect(keys()).toHaveLength(1);
  expect(keys()).not.toEqual(before);
  expect(await cli.run('audit', 'verify', exported())).toMatchObject({
    code: 1,
    out: expect.stringMatching(
      /which SALLYPORT_MASTER_KEY_FILE \S+master\.key does not contain \(wrong_key\)$/m,
    ),
  });
  await succeed('tenants', 'list');
});

test('--drop-old is rejected with SALLYPORT_MASTER_KEY', async () => {
  const env = environment(cli.folder, { SALLYPORT_MASTER_KEY: keys()[0] as string });
  expect(await shell([...rotate, '--drop-old', '--yes'], { env })).toMatchObject({
    code: 2,
    err: expect.stringContaining('remove the old key from SALLYPORT_MASTER_KEY'),
  });
});
