/** Builds the program as one file without the console and frames, which starts faster. */
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
];

function patchPlugin({ file, revise }: SourcePatch): BunPlugin {
  return {
    name: String(file),
    setup: (build) => {
      build.onLoad({ filter: file }, async ({ path }) => ({
        contents: revise(await Bun.file(path).text()),
        loader: 'ts',
      }));
    },
  };
}

/** Builds the program in `root` and returns the path of the file. */
export async function buildProgram(
  root: string,
  folder: string,
  revisions: readonly SourcePatch[] = [],
): Promise<string> {
  const outfile = join(folder, 'sallyport');
  const autoload = { autoloadDotenv: false, autoloadBunfig: false };
  const { success, logs } = await Bun.build({
    entrypoints: [join(root, 'src/main.ts')],
    compile: { outfile, ...autoload },
    plugins: [...withoutPages, ...revisions].map(patchPlugin),
    minify: true,
    bytecode: true,
    format: 'esm',
    throw: false,
  });
  if (!success) throw new Error(`the program cannot be built: ${logs.join('\n')}`);
  return outfile;
}
