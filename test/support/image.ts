/** Builds the container image with buildah, which needs no daemon, and runs its containers without isolation of the network. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './service.ts';
import { isMissing } from './skip.ts';

const tools = ['buildah', 'debootstrap'];
export const noBuildah = isMissing(
  tools.every((tool) => Bun.which(tool, { PATH: `${process.env.PATH}:/usr/sbin` })) &&
    process.getuid?.() === 0,
  `build of the container image: needs root and ${tools.join(' and ')}`,
);

export interface Image {
  readonly name: string;
  readonly user: string;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly healthCheck: readonly string[];
}

export interface Container {
  /** Runs a program in the container. Output and errors are in one text. */
  run(command: readonly string[], env?: Record<string, string>): { code: number; output: string };
  /** Starts a program. It ends with SIGTERM, as with `docker stop`. */
  start(
    command: readonly string[],
    env?: Record<string, string>,
  ): { output(): string; stop(): Promise<number> };
  remove(): void;
}

const environment = { ...process.env, STORAGE_DRIVER: 'vfs' };

/** Returns standard output. Throws if the command fails. */
function buildah(...args: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(['buildah', ...args], { cwd: root, env: environment });
  if (exitCode !== 0) throw new Error(`buildah ${args.join(' ')} failed: ${stdout}${stderr}`);
  return String(stdout);
}

/** Follows deploy/Dockerfile. Its base images are pulled or, without a registry, made of packages. */
export function buildImage(): Image {
  const file = 'deploy/Dockerfile';
  const bases = Array.from(
    readFileSync(join(root, file), 'utf8').matchAll(/^FROM (\S+)/gm),
    ([, name]) => name as string,
  );
  const isPresent = (name: string) =>
    Bun.spawnSync(['buildah', 'inspect', '--type', 'image', name], { env: environment }).exitCode === 0;
  const isPulled = (name: string) =>
    Bun.spawnSync(['timeout', '60', 'buildah', 'pull', '--quiet', name], { env: environment }).exitCode === 0;
  if (!bases.every((name) => isPresent(name) || isPulled(name))) {
    const script = join(root, 'test/support/base-images.sh');
    const made = Bun.spawnSync(['sh', script, ...bases.map(qualified)], { env: environment });
    if (made.exitCode !== 0) throw new Error(`the base images cannot be made: ${made.stdout}${made.stderr}`);
  }
  const name = `sallyport-test-${crypto.randomUUID()}`;
  const isolation = ['--isolation', 'chroot', '--network', 'host', '--pull=never'];
  // The Docker format, because the other one has no health check.
  const options = [...isolation, '--format', 'docker', '--ignorefile', `${file}.dockerignore`];
  buildah('build', ...options, '--file', file, '--tag', name, '--build-arg', 'COMMIT=abc1234', '.');
  const { config } = JSON.parse(JSON.parse(buildah('inspect', '--type', 'image', name)).Config);
  return {
    name,
    user: config.User,
    entrypoint: config.Entrypoint,
    command: config.Cmd,
    healthCheck: config.Healthcheck?.Test.slice(1) ?? [],
  };
}

/** The name with the registry that Docker assumes. */
function qualified(name: string): string {
  return name.includes('/') ? name : `docker.io/library/${name}`;
}

export function removeImage({ name }: Image): void {
  buildah('rmi', '--force', name);
}

/** `data` is the folder of the volume. `hosts` are names that mean this machine. */
export function createContainer({ name }: Image, data: string, hosts: readonly string[] = []): Container {
  const aliases = hosts.flatMap((host) => ['--add-host', `${host}:127.0.0.1`]);
  const id = buildah('from', '--pull-never', ...aliases, name).trim();
  // Otherwise buildah hides the given folder behind a volume of the container.
  buildah('config', '--volume', '/data-', id);
  const commandLine = (command: readonly string[], env: Record<string, string>) => [
    ...['buildah', 'run', '--isolation', 'chroot', '--network', 'host', '--volume', `${data}:/data`],
    ...Object.entries(env).flatMap(([variable, value]) => ['--env', `${variable}=${value}`]),
    ...[id, '--', ...command],
  ];
  return {
    run(command, env = {}) {
      const { exitCode, stdout, stderr } = Bun.spawnSync(commandLine(command, env), { env: environment });
      return { code: exitCode, output: `${stdout}${stderr}` };
    },
    start(command, env = {}) {
      const running = Bun.spawn(commandLine(command, env), {
        env: environment,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let output = '';
      const read = async (stream: ReadableStream<Uint8Array>) => {
        for await (const chunk of stream) output += new TextDecoder().decode(chunk);
      };
      const reading = [read(running.stdout), read(running.stderr)];
      return {
        output: () => output,
        stop: async () => {
          // A kill of buildah would not reach the program.
          process.kill(lastDescendant(running.pid), 'SIGTERM');
          await Promise.all(reading);
          return running.exited;
        },
      };
    },
    remove: () => void buildah('rm', id),
  };
}

function lastDescendant(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const children = threads.map((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim(),
  );
  const [child] = children.filter(Boolean);
  return child === undefined ? pid : lastDescendant(Number(child));
}
