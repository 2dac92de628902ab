/** The completion script in a real bash, which starts the program for each word. */

import { expect, test } from 'bun:test';
import { chmodSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { completionScripts } from '../../../src/cli/terminal/completion.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { root } from '../../support/service.ts';
import { shell } from '../../support/shell.ts';
import { openTestServer, sqlite } from '../../support/test-server.ts';

const folder = temporaryFolder();
const program = join(folder, 'sallyport');
writeFileSync(
  program,
  `#!/bin/sh\nexec '${process.execPath}' --no-env-file '${join(root, 'src/main.ts')}' "$@"\n`,
);
chmodSync(program, 0o700);

/** Loads the script, and completes the last word. */
async function complete(env: Record<string, string>, ...words: string[]): Promise<string[]> {
  const typed = ['sallyport', ...words].map((word) => `'${word}'`).join(' ');
  const script = `${completionScripts.bash}
    COMP_WORDS=(${typed}); COMP_CWORD=${words.length}
    _sallyport sallyport '${words.at(-1)}'; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const bash = Bun.spawn(['bash', '--norc', '-ec', script], {
    env: { ...env, PATH: `${folder}:${process.env.PATH}` },
    stdout: 'pipe',
    stderr: 'inherit',
  });
  const out = await new Response(bash.stdout).text();
  return out.split('\n').filter(Boolean);
}

test('the bash script completes application names and permissions as single words, and runs nothing in a name', async () => {
  const server = await openTestServer(sqlite);
  const { key } = await server.tenant();
  const mark = join(folder, 'executed');
  const names = [`web $(touch ${mark})`, 'web shop', 'ci: deploy', 'ci: test', 'back\\slash'];
  for (const name of names) await server.application(key, { name });
  const env = { SALLYPORT_URL: server.url, SALLYPORT_KEY: key };
  expect(await complete(env, 'apps', 'get', 'web')).toEqual(['web\\ shop', `web\\ \\$\\(touch\\ ${mark}\\)`]);
  expect(await complete(env, 'keys', 'list', 'web\\ s')).toEqual(['web\\ shop']);
  expect(await complete(env, 'sessions', 'list', '--app', '"web')).toEqual(['web shop']);
  expect(await complete(env, 'apps', 'get', 'ci', ':', '\\ t')).toEqual(['\\ test']);
  expect(await complete(env, 'apps', 'get', 'back')).toEqual(['back\\\\slash']);
  expect(await complete({}, 'can', 'token', ':', 're')).toEqual(['read']);
  expect(await complete({}, 'apps', 'create', '--permission', 'log')).toEqual(['log:read']);
  expect(existsSync(mark)).toBe(false);
});

test('the bash script completes commands, options and values', async () => {
  expect(completionScripts.bash).toContain('eval "$(sallyport completion bash)"');
  expect((await shell(['completion', 'bash'])).out).toBe(`${completionScripts.bash}\n`);
  expect(await complete({}, 'help', 'ap')).toEqual(['apps', 'apply']);
  expect(await complete({}, 'serve', '--po')).toEqual(['--port']);
  expect(await complete({}, 'apps', 'create', '--type', 'p')).toEqual(['private', 'public']);
  expect(await complete({}, 'backup', '')).toEqual([]);
  rmSync(folder, { recursive: true });
});
