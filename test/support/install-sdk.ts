/** The SDK as others install it. */
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './service.ts';

/** Builds it, and puts it where the programs of that folder find it. */
export async function installSdk(project: string): Promise<string> {
  const installed = join(project, 'node_modules/@sallyport/sdk');
  mkdirSync(installed, { recursive: true });
  cpSync(join(root, 'sdk/package.json'), join(installed, 'package.json'));
  const tsc = join(root, 'node_modules/.bin/tsc');
  const build = Bun.spawn([tsc, '-p', 'sdk', '--outDir', join(installed, 'dist')], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const complaint = await new Response(build.stdout).text();
  if ((await build.exited) !== 0) throw new Error(`the SDK cannot be built: ${complaint}`);
  return installed;
}
