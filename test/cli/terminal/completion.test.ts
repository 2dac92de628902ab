import { expect, test } from 'bun:test';
import { nameOf } from '../../../src/cli/command.ts';
import { allCommands } from '../../../src/cli/commands.ts';
import { shells } from '../../../src/cli/terminal/completion.ts';
import { builtIn } from '../../../src/domain/permission.ts';
import { shell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const commands = await allCommands();

/** The suggestions for the last word, without descriptions. */
async function suggestions(...words: string[]): Promise<string[]> {
  const { code, out, err } = await shell(['__complete', ...words]);
  expect([code, err]).toEqual([0, '']);
  return out
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t')[0] as string);
}

test('every command and every option of it is suggested', async () => {
  const next = new Map<string, string[]>();
  for (const command of commands) {
    const words = nameOf(command).split(' ');
    for (const [index, word] of words.entries()) {
      const before = words.slice(0, index);
      const known = next.get(before.join(' ')) ?? (await suggestions(...before, ''));
      next.set(before.join(' '), known);
      expect(known).toContain(word);
    }
    const names = (command.options ?? []).map(({ name }) => `--${name}`);
    expect(await suggestions(...words, '-')).toEqual(expect.arrayContaining([...names, '--json', '--help']));
  }
});

test('options of other commands are not suggested', async () => {
  expect(await suggestions('apps', 'create', '--')).not.toContain('--port');
  expect(await suggestions('serve', '--')).toContain('--port');
  expect(await suggestions('serve', '--')).not.toContain('--key-file');
});

test('help is followed by commands', async () => {
  expect(await suggestions('help', '')).toContain('apps');
  expect(await suggestions('help', 'keys', '')).toEqual(['list', 'create', 'delete', 'exchange', 'revoke']);
});

test('applications is followed by the commands of apps', async () => {
  const commandsOfApps = await suggestions('apps', '');
  for (const before of [['applications'], ['--json', 'applications'], ['help', 'applications']])
    expect(await suggestions(...before, '')).toEqual(commandsOfApps);
  expect(await suggestions('applications', 'create', '--type', '')).toContain('private');
});

test('an option or argument with a fixed set of values suggests these', async () => {
  expect(await suggestions('apps', 'create', '--type', '')).toEqual(['private', 'public', 'management']);
  expect(await suggestions('logs', 'tail', '--lines', '5', '--result', '')).toContain('denied');
  expect(await suggestions('tokens', 'list', '--type', '')).toEqual([]);
  expect(await suggestions('completion', '')).toEqual(shells);
});

test('the value of an option is not taken for a command', async () => {
  expect(await suggestions('apps', 'list', '--name', 'tokens', '--')).toContain('--type');
  expect(await suggestions('apps', 'list', '--name', '')).toEqual([]);
});

test('application names are suggested where a command takes an application', async () => {
  const server = await openTestServer(sqlite);
  const { key } = await server.tenant();
  const shop = await server.application(key, { name: 'web shop' });
  const env = { SALLYPORT_URL: server.url, SALLYPORT_KEY: key };
  const names = async (words: string[], given: Record<string, string> = env) =>
    (await shell(['__complete', ...words], { env: given })).out.split('\n').filter(Boolean);
  const expected = [`web shop\tprivate ${shop.id}`];
  for (const words of [
    ['apps', 'get'],
    ['keys', 'delete'],
    ['can', 'token:read', '--app'],
  ])
    expect(await names([...words, 'web'])).toEqual(expected);
  expect(await names(['apps', 'get', 'web', '--url', server.url], {})).toEqual([]);
  expect(await names(['apps', 'get', '--url', server.url, 'web'], { SALLYPORT_KEY: key })).toEqual(expected);
  expect(await names(['help', 'apps', 'get', ''])).toEqual([]);
  await server.close();
  expect(await names(['apps', 'get', 'web'])).toEqual([]);
});

test('permissions are suggested where a command takes one', async () => {
  for (const words of [
    ['can'],
    ['apps', 'create', '--permission'],
    ['sessions', 'authorize', '--permission'],
  ])
    expect(await suggestions(...words, '')).toEqual(builtIn);
});

test('an unknown shell is rejected', async () => {
  const { code, err } = await shell(['completion', 'cmd']);
  expect([code, err]).toEqual([2, expect.stringContaining('Allowed choices are bash, zsh, fish')]);
});
