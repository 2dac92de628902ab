/**
 * Makes the one file: `npm run build`. Server, pages and command line in an executable that needs neither Node
 * nor Bun. Another place than dist/sallyport can be named.
 */
import { mkdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { BunPlugin } from 'bun';
import { buildConsole, type ConsoleFile } from '../console/build.ts';

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

// Before the other build begins: one inside another waits for ever.
const files = (await buildConsole({ quality: 11 })).map(asSource).join(',');

/** What would make the console when it is asked for has made it already. */
const consoleInside: BunPlugin = {
  name: 'console',
  setup(build) {
    build.onLoad({ filter: /console[\\/]build\.ts$/ }, () => {
      const contents = `const bytes = (text) => new Uint8Array(Buffer.from(text, 'base64'));
export const buildConsole = async () => [${files}];`;
      return { contents, loader: 'js' };
    });
  },
};

function asSource({ path, type, lasting, plain, gzip, brotli }: ConsoleFile): string {
  const bytes = (content: Uint8Array) => `bytes('${Buffer.from(content).toString('base64')}')`;
  const head = `path: '${path}', type: '${type}', lasting: ${lasting}`;
  return `{ ${head}, plain: ${bytes(plain)}, gzip: ${bytes(gzip)}, brotli: ${bytes(brotli)} }`;
}

const { success, logs } = await Bun.build({
  entrypoints: [join(root, 'src/main.ts')],
  compile: { outfile, ...alone },
  minify: true,
  plugins: [consoleInside],
  // Half the time to start, and errors that name the lines of the source.
  bytecode: true,
  format: 'esm',
  sourcemap: 'inline',
});
rmSync(`${outfile}.map`, { force: true });
for (const log of logs) console.error(String(log));
if (!success) process.exit(1);
console.log(`${outfile} (${Math.round(statSync(outfile).size / 2 ** 20)} MiB)`);
