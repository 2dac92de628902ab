/** Installs the built SDK into a project folder. */
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './service.ts';

/** Builds the SDK into the project's node_modules and returns its folder there. */
export async function installSdk(project: string): Promise<string> {
  const installed = join(project, 'node_modules/@sallyport/sdk');
  mkdirSync(installed, { recursive: true });
  cpSync(join(root, 'sdk/package.json'), join(installed, 'package.json'));
  const build = Bun.spawn(['node', join(root, 'sdk/build.mjs'), join(installed, 'dist')], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const errors = await new Response(build.stdout).text();
  if ((await build.exited) !== 0) throw new Error(`building the SDK failed: ${errors}`);
  return installed;
}
