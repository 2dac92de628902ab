#!/usr/bin/env node
// Runs the command line with the Bun that was installed beside it; Node is only needed to find it.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const bun = findBun();
const main = join(dirname(fileURLToPath(import.meta.url)), '..', 'src', 'main.ts');
const child = spawn(bun, ['--no-env-file', main, ...process.argv.slice(2)], { stdio: 'inherit' });

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
