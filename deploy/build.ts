/**
 * Makes the one file: `npm run build`. Server, pages and command line in an executable that needs neither Node
 * nor Bun. Another place than dist/sallyport can be named.
 */
import { mkdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const root = join(import.meta.dirname, '..');
const outfile = resolve(process.argv[2] ?? join(root, 'dist/sallyport'));
mkdirSync(dirname(outfile), { recursive: true });

/** What lies in the folder that it is started in must not change what the program is. */
const alone = {
  autoloadDotenv: false,
  autoloadBunfig: false,
  autoloadTsconfig: false,
  autoloadPackageJson: false,
};

const { success, logs } = await Bun.build({
  entrypoints: [join(root, 'src/main.ts')],
  compile: { outfile, ...alone },
  minify: true,
  // Half the time to start, and errors that name the lines of the source.
  bytecode: true,
  format: 'esm',
  sourcemap: 'inline',
});
rmSync(`${outfile}.map`, { force: true });
for (const log of logs) console.error(String(log));
if (!success) process.exit(1);
console.log(`${outfile} (${Math.round(statSync(outfile).size / 2 ** 20)} MiB)`);
