/** The program in one file that starts at once, for rows that start it often. The console is left out. */
import { join } from 'node:path';
import type { BunPlugin } from 'bun';

const withoutConsole: BunPlugin = {
  name: 'without console',
  setup: (build) => {
    const contents = 'export const buildConsole = async () => [];';
    build.onLoad({ filter: /console[\\/]build\.ts$/ }, () => ({ contents, loader: 'js' }));
  },
};

/** Builds the program that lies in `root`, and answers with the file. */
export async function buildProgram(root: string, folder: string): Promise<string> {
  const outfile = join(folder, 'sallyport');
  const autoload = { autoloadDotenv: false, autoloadBunfig: false };
  const { success, logs } = await Bun.build({
    entrypoints: [join(root, 'src', 'main.ts')],
    compile: { outfile, ...autoload },
    plugins: [withoutConsole],
    minify: true,
    bytecode: true,
    format: 'esm',
    throw: false,
  });
  if (!success) throw new Error(`the program cannot be built: ${logs.join('\n')}`);
  return outfile;
}
