/**
 * `npm run build [-- PATH]`: compiles server, console, frames, documentation and command line into one executable,
 * dist/sallyport by default. It needs neither Node nor Bun. Writes a list of its parts next to it, dist/sallyport.cdx.json.
 */
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { BunPlugin } from 'bun';
import { buildConsole } from '../console/build.ts';
import { buildDocs } from '../docs/site/build.ts';
import { buildFrames } from '../frames/build.ts';
import lock from '../package-lock.json' with { type: 'json' };
import { commitOf } from '../src/config/version.ts';
import type { StaticFile } from '../src/http/pipeline/static-file.ts';
import { sbom } from './sbom.ts';

const root = join(import.meta.dirname, '..');
const outfile = resolve(process.argv[2] ?? join(root, 'dist/sallyport'));
mkdirSync(dirname(outfile), { recursive: true });

/** Configuration files in the current folder must not change the program. */
const ignoreCurrentFolder = {
  autoloadDotenv: false,
  autoloadBunfig: false,
  autoloadTsconfig: false,
  autoloadPackageJson: false,
};

// Must run before Bun.build below, because nested builds deadlock.
const embedded = [
  embed('buildConsole', /console[\\/]build\.ts$/, await buildConsole({ quality: 11 })),
  embed('buildFrames', /frames[\\/]build\.ts$/, await buildFrames({ quality: 11 })),
  embed('buildDocs', /site[\\/]build\.ts$/, await buildDocs({ quality: 11 })),
];

/** Replaces the module that builds files with one that contains them. */
function embed(exported: string, filter: RegExp, files: StaticFile[]): BunPlugin {
  const contents = `const bytes = (text) => new Uint8Array(Buffer.from(text, 'base64'));
export const ${exported} = async () => [${files.map(asSource).join(',')}];`;
  return {
    name: exported,
    setup: (build) => void build.onLoad({ filter }, () => ({ contents, loader: 'js' })),
  };
}

function asSource({ path, type, immutable, plain, gzip, brotli }: StaticFile): string {
  const bytes = (content: Uint8Array | undefined) =>
    content && `bytes('${Buffer.from(content).toString('base64')}')`;
  const head = `path: '${path}', type: '${type}', immutable: ${immutable}`;
  return `{ ${head}, plain: ${bytes(plain)}, gzip: ${bytes(gzip)}, brotli: ${bytes(brotli)} }`;
}

/** In an image build, which has no repository, the variable has the commit. */
const commit = process.env.SALLYPORT_COMMIT || commitOf(root) || '';

const { success, logs } = await Bun.build({
  entrypoints: [join(root, 'src/main.ts')],
  compile: { outfile, ...ignoreCurrentFolder },
  minify: true,
  define: { SALLYPORT_COMMIT: JSON.stringify(commit) },
  plugins: embedded,
  // Bytecode halves the start time. With source maps, errors have the lines of the source.
  bytecode: true,
  format: 'esm',
  sourcemap: 'inline',
});
rmSync(`${outfile}.map`, { force: true });
for (const log of logs) console.error(String(log));
if (!success) process.exit(1);
writeFileSync(`${outfile}.cdx.json`, `${JSON.stringify(sbom(lock, commit), null, 2)}\n`);
console.log(`${outfile} (${Math.round(statSync(outfile).size / 2 ** 20)} MiB)`);
