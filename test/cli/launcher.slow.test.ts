import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { allCommands } from '../../src/cli/commands.ts';
import { callOptions } from '../../src/cli/terminal/connection.ts';
import { flagOf, settingList } from '../../src/config/settings.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { hostileFiles, runInHostileFolder } from '../support/hostile-folder.ts';
import { unknownKey } from '../support/keys.ts';
import { root } from '../support/service.ts';

const folder = temporaryFolder();

const launcher = ['node', join(root, 'bin/sallyport.mjs')];
const env = { PATH: String(process.env.PATH) };

describe('bin/sallyport.mjs runs no code of the current folder, its parents or the home folder:', () => {
  test.each(Object.keys(hostileFiles))('%s', async (file) => {
    for (const printed of await runInHostileFolder(folder, file, launcher, env))
      expect(printed).toStartWith('sallyport: error: no key was given');
  });
});

test('Node takes no option of a command for its own, wherever it is in the command line', async () => {
  const options = (await allCommands()).flatMap((command) => command.options ?? []);
  const names = [
    ...[...options, ...callOptions].map(({ name }) => name),
    ...settingList.map(({ variable }) => flagOf(variable)),
  ];
  const missing = join(folder, 'missing.env');
  const words = [...new Set(names)].flatMap((name) => [`--${name}`, missing]);
  const child = Bun.spawn([...launcher, 'nonsense', ...words], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  const printed = await new Response(child.stderr).text();
  expect([await child.exited, printed]).toEqual([2, expect.stringMatching(/^sallyport: error: unknown/)]);
});

test.each([
  ['SIGHUP', 129],
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('%s ends a command with %d', async (signal, code) => {
  const asked = Promise.withResolvers<void>();
  const silent = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => {
      asked.resolve();
      return new Promise<Response>(() => {});
    },
  });
  const child = Bun.spawn([...launcher, 'whoami'], {
    env: { ...env, SALLYPORT_URL: silent.url.href, SALLYPORT_KEY: unknownKey('pvt').secret.reveal() },
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  await asked.promise;
  child.kill(signal);
  expect(await child.exited).toBe(code);
  await silent.stop(true);
});
