import { afterEach, beforeEach, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { type Desk, openDesk } from '../../support/cli.ts';
import { environment } from '../../support/service.ts';
import { shell } from '../../support/shell.ts';

let desk: Desk;
const backup = () => desk.path('backup.db');
const exported = () => desk.path('audit.jsonl');
const keys = () => readFileSync(desk.path('data/master.key'), 'utf8').trimEnd().split('\n');
const rotate = ['master-key', 'rotate'];

async function done(...words: string[]): Promise<string> {
  const { code, out, error } = await desk.run(...words);
  expect({ code, error }).toEqual({ code: 0, error: '' });
  return out;
}

/** What was kept before the master key is changed. */
beforeEach(async () => {
  desk = openDesk();
  await done('migrate');
  await done('tenants', 'create', 'x');
  await done('backup', backup());
  await done('audit', 'export', exported());
});
afterEach(() => desk.clear());

test('after a rotation, exports and backups from before still open', async () => {
  const before = keys();
  expect(await done(...rotate)).toContain('the old key stays in ');
  expect(keys()).toEqual([expect.any(String), ...before]);
  expect(await done('audit', 'verify', exported())).toStartWith('sound: ');
  await done('restore', backup(), '--force');
  expect(await done('tenants', 'list')).toEndWith('  x\n');
  expect(JSON.parse(await done('doctor', '--json')).ok).toBe(true);
});

test('an old master key is dropped only when it is said, and asked first', async () => {
  const drop = [...rotate, '--drop-old'];
  const before = keys();
  expect(await desk.run(...drop)).toMatchObject({ code: 2, error: expect.stringContaining('--yes does it') });
  const env = environment(desk.folder, {});
  const refused = await shell(drop, { env, person: ['n'] });
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringContaining('audit exports from before need them'),
  });
  expect(keys()).toEqual(before);
  expect((await shell(drop, { env, person: ['y'] })).code).toBe(0);
  expect(keys()).toHaveLength(1);
  expect(keys()).not.toEqual(before);
  expect(await desk.run('audit', 'verify', exported())).toMatchObject({
    code: 1,
    out: expect.stringMatching(/which SALLYPORT_MASTER_KEY_FILE \S+master\.key does not hold$/m),
  });
  await done('tenants', 'list');
});

test('from a variable nothing can be dropped', async () => {
  const env = environment(desk.folder, { SALLYPORT_MASTER_KEY: keys()[0] as string });
  expect(await shell([...rotate, '--drop-old', '--yes'], { env })).toMatchObject({
    code: 2,
    err: expect.stringContaining('take the old key out of SALLYPORT_MASTER_KEY'),
  });
});
