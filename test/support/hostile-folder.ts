/** A working folder with configuration files that would run code if Bun loaded them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const paths = JSON.stringify({ compilerOptions: { baseUrl: '.', paths: { '*': ['./injected.ts'] } } });

/** Tested one at a time, so that a failure names the file. */
export const hostileFiles: Record<string, string> = {
  'bunfig.toml': 'preload = ["./injected.ts"]\n',
  'tsconfig.json': paths,
  'jsconfig.json': paths,
  'package.json': JSON.stringify({ imports: { zod: './injected.ts' }, browser: { zod: './injected.ts' } }),
  'node_modules/zod/index.ts': `import '../../injected.ts';\n`,
  '.env': 'BUN_OPTIONS=--preload=./injected.ts\nSALLYPORT_KEY=from-the-folder\n',
  '.bunfig.toml': 'preload = ["./injected.ts"]\n',
};

/** Runs `whoami` in the folder and in a subfolder. Returns what each run printed to stderr. */
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
  writeFileSync(join(cwd, 'injected.ts'), `console.error('injected code ran'); process.exit(9);\n`);
  writeFileSync(join(cwd, file), hostileFiles[file] as string);
  const printed: string[] = [];
  for (const directory of [cwd, below]) {
    const child = Bun.spawn([...command, 'whoami'], {
      cwd: directory,
      // The folder also serves as the home folder, for .bunfig.toml.
      env: { ...env, HOME: cwd, XDG_CONFIG_HOME: cwd },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    printed.push(await new Response(child.stderr).text());
    await child.exited;
  }
  return printed;
}
