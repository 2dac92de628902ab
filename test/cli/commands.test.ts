import { beforeEach, expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import manifest from '../../package.json' with { type: 'json' };
import { type Command, nameOf } from '../../src/cli/command.ts';
import { allCommands, commandsOf, topics } from '../../src/cli/commands.ts';
import { settingList } from '../../src/config/settings.ts';
import { build } from '../../src/config/version.ts';
import { newestSchema } from '../../src/db/migrate.ts';
import { type Cli, openCli, openSqliteCli } from '../support/cli.ts';
import { keyPattern } from '../support/program.ts';
import { filesIn, read } from '../support/source-files.ts';
import { openTestServer } from '../support/test-server.ts';

let cli: Cli;
beforeEach(() => {
  cli = openCli();
});

test('tenants create prints an id and a valid key; tenants list prints the id and no key', async () => {
  const operator = openSqliteCli();
  const server = await openTestServer(`sqlite:${operator.path('live.db')}`);
  const created = await operator.run('tenants', 'create', 'Zoë & Söhne 🗝');
  expect(created).toMatchObject({ code: 0, err: '' });
  const [, id, key] = /^tenant {2}(\S+)\nkey {5}(\S+)\n$/.exec(created.out)!;
  expect(key).toMatch(keyPattern);
  const { body } = await server.call('GET', '/applications/key', { key });
  expect(body).toMatchObject({ tenant_id: id, type: 'management' });
  const listed = await operator.run('tenants', 'list');
  expect(listed.out.trimEnd().split('\n')).toHaveLength(3);
  expect(listed.out).toMatch(new RegExp(`^${id}  \\d{4}-\\S+Z  active  Zoë & Söhne 🗝$`, 'm'));
  expect(listed.out).not.toMatch(keyPattern);
});

test('--json prints JSON', async () => {
  await cli.run('migrate');
  const created = JSON.parse((await cli.run('tenants', 'create', 'acme', '--json')).out);
  expect(Object.keys(created)).toEqual(['tenant_id', 'key']);
  const listed = JSON.parse((await cli.run('--json', 'tenants', 'list')).out);
  const fields = { name: 'acme', created_at: expect.stringMatching(/Z$/), tag: created.key.slice(8, 14) };
  expect(listed).toEqual([{ id: created.tenant_id, ...fields }]);
  expect(JSON.parse((await cli.run('version', '--json')).out)).toEqual({
    version: manifest.version,
    build: build(),
    schema: newestSchema,
  });
});

test('a tenant name can have 200 characters', async () => {
  const name = '🗝'.repeat(200);
  await cli.run('migrate');
  expect((await cli.run('tenants', 'create', name)).code).toBe(0);
  expect((await cli.run('tenants', 'list')).out).toContain(name);
});

test.each([[''], [' '], ['a\nb'], ['x'.repeat(201)]])('%p is rejected as a tenant name', async (name) => {
  await cli.run('migrate');
  const { code, out, err } = await cli.run('tenants', 'create', name);
  expect([code, out]).toEqual([2, '']);
  expect(err).toStartWith('sallyport: error: NAME must ');
});

test('migrate creates the schema in a new folder; a second run changes nothing', async () => {
  expect(JSON.parse((await cli.run('migrate', '--json')).out)).toMatchObject({ from: 0 });
  expect(existsSync(cli.path('data/management.key'))).toBe(false);
  const again = await cli.run('migrate');
  expect([again.code, again.out]).toEqual([0, expect.stringContaining('schema is up to date')]);
});

test('version prints the version of package.json, with the commit', async () => {
  for (const args of [['version'], ['--version']]) {
    expect(await cli.run(...args)).toEqual({ code: 0, out: `${build()}\n`, err: '' });
  }
});

test.each(Object.entries(topics))('help shows the declaration of %s', async (word, topic) => {
  const declared = await commandsOf(word, topic);
  const [first] = declared as [Command, ...Command[]];
  const isGroup = declared.every((command) => nameOf(command) !== word);
  if (!isGroup) expect(topic.summary).toBe(first.summary);
  const other = 'standalone' in first && first.standalone && !isGroup ? 'other' : 'server';
  expect(topic.kind).toBe('call' in first ? 'api' : other);
});

test('every command in the files of src/cli/commands/ can be run', async () => {
  const names = new Set((await allCommands()).map(nameOf));
  for (const file of filesIn('src/cli/commands', '.ts'))
    for (const [, usage] of read(file).matchAll(/^ +usage: '([^']+)'/gm))
      expect(names).toContain(nameOf({ usage } as Command));
});

test('help lists every command, and the help of serve every setting', async () => {
  for (const args of [['--help'], ['-h'], ['help'], []]) {
    const { code, out } = await cli.run(...args);
    expect(code).toBe(0);
    for (const word of ['serve', 'tenants', 'apps', 'migrate', 'version']) expect(out).toContain(word);
  }
  const { code, out } = await cli.run('serve', '--help');
  expect(code).toBe(0);
  const text = out.replace(/\s+/g, ' ');
  for (const { variable, description, fallback, secret } of settingList) {
    for (const part of [variable, description, ...(secret ? [] : [fallback])]) expect(text).toContain(part);
  }
});

test.each([[['tenants']], [['tenants', 'create']], [['serve']]])(
  'help %p prints the same as --help',
  async (words) => {
    const printed = await cli.run('help', ...words);
    expect(printed).toEqual(await cli.run(...words, '--help'));
    expect([printed.code, printed.out]).toEqual([0, expect.stringContaining(words.join(' '))]);
    expect(printed.out).not.toContain('tokens list');
  },
);

test.each([
  [['nonsense'], 'nonsense'],
  [['help', 'nonsense'], 'nonsense'],
  [['nonsense', '--help'], 'nonsense'],
  [['help', 'tenants', 'nonsense'], 'nonsense'],
  [['backup', '-'], 'standard output'],
  [['tenants', 'remove'], "unknown command 'remove' (Did you mean move?)"],
  [['tenants', 'create'], "missing required argument 'NAME'"],
  [['tenants', 'list', 'all'], 'too many arguments'],
  [['serve', '--nonsense'], '--nonsense'],
  [['serve', '--port'], '--port'],
])('%p is rejected with an error and a hint', async (args, named) => {
  const { code, out, err } = await cli.run(...args);
  expect([code, out]).toEqual([2, '']);
  const lines = err.trimEnd().split('\n');
  expect(lines).toHaveLength(2);
  expect(lines[0]).toStartWith('sallyport: error: ');
  expect(lines[0]).toContain(named);
  expect(lines[1]).toStartWith('sallyport: hint: ');
});
