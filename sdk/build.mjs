// Builds the package into dist/, or into the folder given as argument: ES modules in esm/, CommonJS in cjs/.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const target = resolve(process.argv[2] ?? join(here, 'dist'));
const { resolve: find } = createRequire(import.meta.url);
const tsc = join(dirname(find('typescript/package.json')), 'bin', 'tsc');
const bun = join(dirname(find('bun/package.json')), 'bin', 'bun.exe');

rmSync(target, { recursive: true, force: true });
for (const [config, folder] of [
  ['tsconfig.json', 'esm'],
  ['tsconfig.cjs.json', 'cjs'],
]) {
  const args = [tsc, '-p', join(here, config), '--outDir', join(target, folder)];
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' });
  if (status !== 0) process.exit(1);
  rewriteDeclarations(join(target, folder));
}
// The test kit runs parts of the service, which it does not import from another package.
const bundled = spawnSync(bun, ['--no-env-file', join(here, 'testing', 'build.ts'), target], {
  stdio: 'inherit',
});
if (bundled.status !== 0) process.exit(1);
// The type of the whole package is "module".
writeFileSync(join(target, 'cjs', 'package.json'), '{ "type": "commonjs" }\n');

/** The compiler rewrites imports of .ts files only in the code. Older compilers need .js in declarations too. */
function rewriteDeclarations(folder) {
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.d.ts'))) {
    const path = join(folder, name);
    writeFileSync(path, readFileSync(path, 'utf8').replace(/(['"]\.\/[\w-]+)\.ts(['"])/g, '$1.js$2'));
  }
}
