/** Packs the SDK and the server with npm, and installs them or other packages into an empty project. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterFile } from './cleanup.ts';
import { root } from './service.ts';
import { isMissing } from './skip.ts';

export const offline = isMissing(
  Bun.which('npm') !== null && Bun.spawnSync(['npm', 'ping'], { timeout: 30_000 }).exitCode === 0,
  'installation of packages in an empty project: the npm registry cannot be reached',
);

const install = ['npm', 'install', '--no-audit', '--no-fund', '--prefer-offline'];

/** Installs packages that are not dependencies of this project. Returns the folder, which exists until the end of the test file. */
export async function installPackages(...packages: string[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-packages-'));
  afterFile(async () => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  await run(folder, ...install, ...packages);
  return folder;
}

export interface Packed {
  /** The path of the tarball. */
  readonly path: string;
  /** Paths of the files in the tarball. */
  readonly files: readonly string[];
}

export interface Project {
  readonly folder: string;
  readonly sdk: Packed;
  readonly server: Packed;
  /** Runs a command in the project. Throws if it fails. Resolves with standard output. */
  run(...command: string[]): Promise<string>;
  remove(): void;
}

export async function createProject(): Promise<Project> {
  const scratch = mkdtempSync(join(tmpdir(), 'sallyport-packages-'));
  const folder = join(scratch, 'project');
  mkdirSync(folder);
  rmSync(join(root, 'sdk/dist'), { recursive: true, force: true });
  const [sdk, server] = [await pack(join(root, 'sdk'), scratch), await pack(root, scratch)];
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  await run(folder, ...install, sdk.path, server.path);
  return {
    folder,
    sdk,
    server,
    run: (...command) => run(folder, ...command),
    remove: () => rmSync(scratch, { recursive: true, force: true }),
  };
}

async function pack(source: string, target: string): Promise<Packed> {
  const out = await run(source, 'npm', 'pack', '--json', '--silent', '--pack-destination', target);
  // npm prints the output of the build before the JSON.
  const [{ filename, files }] = JSON.parse(out.slice(out.indexOf('[\n')));
  return { path: join(target, filename), files: files.map(({ path }: { path: string }) => path) };
}

async function run(cwd: string, ...command: string[]): Promise<string> {
  const child = Bun.spawn(command, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(' ')} failed: ${err}${out}`);
  return out;
}
