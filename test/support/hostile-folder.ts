/** A folder whose files would run code in any program that Bun starts there, if Bun read them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const paths = JSON.stringify({ compilerOptions: { baseUrl: '.', paths: { '*': ['./planted.ts'] } } });

/** One file each, so that a failure names the file that was read. */
export const hostileFiles: Record<string, string> = {
  'bunfig.toml': 'preload = ["./planted.ts"]\n',
  'tsconfig.json': paths,
  'jsconfig.json': paths,
  'package.json': JSON.stringify({ imports: { zod: './planted.ts' }, browser: { zod: './planted.ts' } }),
  'node_modules/zod/index.ts': `import '../../planted.ts';\n`,
  '.env': 'BUN_OPTIONS=--preload=./planted.ts\nSALLYPORT_KEY=from-the-folder\n',
  '.bunfig.toml': 'preload = ["./planted.ts"]\n',
};

/** Runs a command that needs a key inside the folder and one folder below; returns what it printed. */
export async function runInHostileFolder(
  folder: string,
  file: string,
  command: readonly string[],
  env: Record<string, string>,
): Promise<string[]> {
  const cwd = join(folder, file.replaceAll('/', '-'));
  const below = join(cwd, 'below');
  mkdirSync(below, { recursive: true });
  mkdirSync(join(cwd, file, '..'), { recursive: true });
  writeFileSync(join(cwd, 'planted.ts'), `console.error('planted code ran'); process.exit(9);\n`);
  writeFileSync(join(cwd, file), hostileFiles[file] as string);
  const printed: string[] = [];
  for (const place of [cwd, below]) {
    const child = Bun.spawn([...command, 'whoami'], {
      cwd: place,
      // The folder also serves as the home folder, for .bunfig.toml.
      env: { ...env, HOME: cwd, XDG_CONFIG_HOME: cwd },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    printed.push(await new Response(child.stderr).text());
    await child.exited;
  }
  return printed;
}
