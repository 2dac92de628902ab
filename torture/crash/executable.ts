/** Builds the program as one file without the console, the frames and the documentation, which starts faster. */
import { join } from 'node:path';
import type { BunPlugin } from 'bun';

/** A change to a source file, named by the end of its path. */
export interface SourcePatch {
  readonly file: RegExp;
  revise(source: string): string;
}

const withoutPages: readonly SourcePatch[] = [
  { file: /console[\\/]build\.ts$/, revise: () => 'export const buildConsole = async () => [];' },
  { file: /frames[\\/]build\.ts$/, revise: () => 'export const buildFrames = async () => [];' },
  { file: /site[\\/]build\.ts$/, revise: () => 'export const buildDocs = async () => [];' },
];

/** Builds the program in `root` and returns the path of the file. Throws if a revision changes nothing. */
export async function buildProgram(
  root: string,
  folder: string,
  revisions: readonly SourcePatch[] = [],
): Promise<string> {
  const outfile = join(folder, 'sallyport');
  const autoload = { autoloadDotenv: false, autoloadBunfig: false };
  const unused = new Set([...withoutPages, ...revisions]);
  const plugins = [...unused].map(
    (patch): BunPlugin => ({
      name: String(patch.file),
      setup: (build) => {
        build.onLoad({ filter: patch.file }, async ({ path }) => {
          const source = await Bun.file(path).text();
          const contents = patch.revise(source);
          if (contents !== source) unused.delete(patch);
          return { contents, loader: 'ts' };
        });
      },
    }),
  );
  const { success, logs } = await Bun.build({
    entrypoints: [join(root, 'src/main.ts')],
    compile: { outfile, ...autoload },
    plugins,
    minify: true,
    bytecode: true,
    format: 'esm',
    throw: false,
  });
  if (!success) throw new Error(`the program cannot be built: ${logs.join('\n')}`);
  for (const { file } of unused) throw new Error(`the revision of ${file} changes nothing`);
  return outfile;
}
