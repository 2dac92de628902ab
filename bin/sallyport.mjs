#!/usr/bin/env node
// Runs the command line with the Bun that was installed beside it; Node is only needed to find it.
import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants, devNull } from 'node:os';
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
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
child.on('error', giveUp);

/** The install script of the package `bun` replaces its placeholder. If scripts are disabled, uses the platform package. */
function findBun() {
  try {
    const manifest = createRequire(import.meta.url).resolve('bun/package.json');
    const installed = join(dirname(manifest), 'bin', 'bun.exe');
    return statSync(installed).size > 1_000_000 ? installed : findPlatformBun(manifest);
  } catch (error) {
    giveUp(error);
  }
}

function findPlatformBun(manifest) {
  const require = createRequire(manifest);
  for (const name of Object.keys(require(manifest).optionalDependencies)) {
    try {
      const folder = join(dirname(require.resolve(`${name}/package.json`)), 'bin');
      return join(folder, process.platform === 'win32' ? 'bun.exe' : 'bun');
    } catch {
      // For another platform.
    }
  }
  throw new Error('no binary is installed for this platform');
}

function giveUp(error) {
  const reason = error.message.split('\n')[0];
  process.stderr.write(
    `sallyport: error: cannot run Bun: ${reason}\nsallyport: hint: install the dependencies with npm ci or npm install\n`,
  );
  process.exit(1);
}
