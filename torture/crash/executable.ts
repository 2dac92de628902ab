/** The program as it is shipped, in one file that starts at once. */
import { join } from 'node:path';

/** Builds the program that lies in `root`, and answers with the file. */
export async function buildProgram(root: string, folder: string): Promise<string> {
  const file = join(folder, 'sallyport');
  const build = Bun.spawn([process.execPath, '--no-env-file', join(root, 'deploy', 'build.ts'), file], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const complaint = await new Response(build.stderr).text();
  if ((await build.exited) !== 0) throw new Error(`the program cannot be built: ${complaint}`);
  return file;
}
