import { describe, expect, test } from 'bun:test';
import { commands } from '../../../src/cli/commands.ts';
import { completionScript, shells } from '../../../src/cli/terminal/completion.ts';
import { root } from '../../support/service.ts';
import { shell } from '../../support/shell.ts';

test.each(shells)('the script for %s knows every command and every option', async (name) => {
  const { code, out } = await shell(['completion', name]);
  expect(code).toBe(0);
  for (const { words, options = [] } of commands) {
    for (const part of [...words, ...options.map((option) => option.name)]) expect(out).toContain(part);
  }
});

test('a shell that is not known is refused with those that are', async () => {
  const { code, err } = await shell(['completion', 'cmd']);
  expect([code, err]).toEqual([2, expect.stringContaining('bash, zsh, fish')]);
});

describe('in bash', () => {
  /** What is offered behind the words. */
  async function offered(...words: string[]): Promise<string[]> {
    const typed = ['sallyport', ...words].map((word) => `'${word}'`).join(' ');
    const script = `${completionScript('bash', commands)}
      COMP_WORDS=(${typed}); COMP_CWORD=${words.length}; _sallyport; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const bash = Bun.spawn(['bash', '--norc', '-euc', script], {
      cwd: root,
      stdout: 'pipe',
      stderr: 'inherit',
    });
    const out = await new Response(bash.stdout).text();
    return out.split('\n').filter((line) => line !== '');
  }

  test('words follow words, and options follow commands', async () => {
    expect(await offered('ap')).toContain('apps');
    expect(await offered('apps', '')).toEqual(expect.arrayContaining(['list', 'create', 'delete']));
    expect(await offered('apps', 'create', '--')).toEqual(expect.arrayContaining(['--type', '--key-file']));
    expect(await offered('apps', 'create', '--')).not.toContain('--port');
    expect(await offered('serve', '--p')).toEqual(['--port']);
    expect(await offered('he')).toEqual(['health', 'help']);
    expect(await offered('help', 'ap')).toEqual(['apps', 'apply']);
    expect(await offered('help', 'keys', '')).toEqual(['list', 'create', 'delete']);
    expect(await offered('completion', '')).toEqual(expect.arrayContaining([...shells]));
  });

  test('the value of an option is offered where it is one of a few words', async () => {
    expect(await offered('sessions', 'list', '--state', '')).toEqual(['waiting', 'authorized']);
    expect(await offered('apps', 'create', '--type', 'p')).toEqual(['private', 'public']);
    expect(await offered('logs', 'tail', '--lines', '5', '--result', 'd')).toEqual(['denied']);
    expect(await offered('tokens', 'list', '--type', '')).toEqual([]);
    expect(await offered('sessions', 'list', '--state', 'waiting', '--a')).toEqual([
      '--app',
      '--authorized-by',
    ]);
  });

  test('the value of an option is not taken for a word of the command', async () => {
    expect(await offered('apps', '--name', 'tokens', '')).toContain('list');
    expect(await offered('apps', 'list', '--name', '')).toEqual([]);
    expect(await offered('whoami', '--key-file', 'package.j')).toEqual(['package.json']);
  });
});
