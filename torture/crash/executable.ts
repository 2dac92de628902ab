/** The program in one file that starts at once, for rows that start it often. The console is left out. */
import { join } from 'node:path';
import type { BunPlugin } from 'bun';

/** What is to be changed in the source of a file, which is named by the end of its path. */
export interface Revision {
  readonly file: RegExp;
  revise(source: string): string;
}

const withoutConsole: Revision = {
  file: /console[\\/]build\.ts$/,
  revise: () => 'export const buildConsole = async () => [];',
};

function revising({ file, revise }: Revision): BunPlugin {
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

/** Builds the program that lies in `root`, and answers with the file. */
export async function buildProgram(
  root: string,
  folder: string,
  revisions: readonly Revision[] = [],
): Promise<string> {
  const outfile = join(folder, 'sallyport');
  const autoload = { autoloadDotenv: false, autoloadBunfig: false };
  const { success, logs } = await Bun.build({
    entrypoints: [join(root, 'src', 'main.ts')],
    compile: { outfile, ...autoload },
    plugins: [withoutConsole, ...revisions].map(revising),
    minify: true,
    bytecode: true,
    format: 'esm',
    throw: false,
  });
  if (!success) throw new Error(`the program cannot be built: ${logs.join('\n')}`);
  return outfile;
}
