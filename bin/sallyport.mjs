#!/usr/bin/env node
// Runs the command line with the Bun that was installed beside it; Node is only needed to find it.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { devNull } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const bun = findBun();
const root = join(dirname(fileURLToPath(import.meta.url)), '..');
// Without these Bun reads bunfig.toml, tsconfig.json and .env of the current folder, which can replace our code.
const ignoreCurrentFolder = [
  `--config=${devNull}`,
  `--tsconfig-override=${join(root, 'tsconfig.json')}`,
  '--no-env-file',
];
const command = [...ignoreCurrentFolder, join(root, 'src', 'main.ts'), ...process.argv.slice(2)];
const child = spawn(bun, command, { stdio: 'inherit' });

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 143)));
child.on('error', giveUp);

function findBun() {
  try {
    return join(dirname(createRequire(import.meta.url).resolve('bun/package.json')), 'bin', 'bun.exe');
  } catch (error) {
    giveUp(error);
  }
}

function giveUp(error) {
  const reason = error.message.split('\n')[0];
  process.stderr.write(`sallyport: error: cannot run Bun: ${reason}\nsallyport: hint: run npm ci first\n`);
  process.exit(1);
}
