import { existsSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { parseEnv } from 'node:util';
import type { AccessRule, ApplicationCreate, ApplicationWithKey } from '../../../sdk/src/sallyport.ts';
import { cut } from '../../domain/escape.ts';
import { type Call, option, type RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import { requireFile, withNewFile, withReplacedFile } from '../terminal/files.ts';
import { confirm, yesOption } from '../terminal/options.ts';

/** The variables that `init` writes to the env file. */
export const projectVariables = ['SALLYPORT_URL', 'SALLYPORT_KEY', 'SALLYPORT_PUBLIC_KEY'] as const;

export const commands: RemoteCommand = {
  usage: 'init',
  options: [
    option('name TEXT', 'Project name; default is the name of the folder.'),
    // Not --env-file: Node, which runs the launcher, takes that option for its own.
    option('keys-to FILE', 'File for the keys; default .env. An existing file is extended.'),
    yesOption,
  ],
  summary: 'Set up a project: create a backend and a browser application and write their keys to .env.',
  details:
    'Both are limited to one container. The backend reads and writes tokens there and authorizes sessions. The browser application only creates tokens. Other variables and comments of an existing .env are preserved; the command asks before it changes the file. Needs a key with application:create, such as the first management key.',
  examples: ['sallyport init --key-file data/management.key'],
  call: init,
};

interface Project {
  readonly name: string;
  readonly container: string;
  readonly file: string;
  /** The content of the env file. Undefined if it does not exist. */
  readonly existing: string | undefined;
}

async function init(call: Call): Promise<number> {
  const { url, terminal, printResult } = call;
  const project = await projectOf(call);
  const { name, container, file, existing } = project;
  await requireUnusedNames(call, project);
  // Tries the change with sample keys, to report an unsuitable file before applications are created.
  if (existing !== undefined) mergeEnv(existing, variablesOf(url, 'key', 'key'), file);
  if (terminal.isTty.stdin || existing !== undefined) {
    terminal.writeError(
      `Creates the applications "${name} backend" (private) and "${name} browser" (public) at ${url},\n` +
        `limited to the container ${container}, and writes their keys to ${file}.\n${effectOnFile(project)}`,
    );
    await confirm(call, 'Continue?');
  }
  const created = await createApplications(call, project);
  return printResult({ ...created, container, env_file: file }, nextSteps(project));
}

function effectOnFile({ file, existing }: Project): string {
  if (existing === undefined) return '';
  const replaced = definedIn(existing, projectVariables);
  const values = replaced.length > 0 ? `The values of ${replaced.join(', ')} in it are replaced. ` : '';
  return `${file} exists. ${values}Its other lines are not changed. Its mode becomes 0600.\n`;
}

async function projectOf({ options, terminal }: Call): Promise<Project> {
  const folder = basename(process.cwd()) || 'project';
  const option = options.value('name');
  const answer =
    option === undefined && terminal.isTty.stdin && !options.on('yes')
      ? await terminal.prompt(`Project name [${folder}]: `)
      : option;
  const name = answer?.trim() || folder;
  const segment = name
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  if (segment === '')
    throw new UsageError(
      `cannot name a container after "${name}": it has no letter or digit from a to z or 0 to 9`,
      'choose another name with --name',
    );
  const file = options.value('keys-to') ?? '.env';
  return { name, container: `/${cut(segment, 100)}/`, file, existing: contentOf(file) };
}

function contentOf(path: string): string | undefined {
  if (!existsSync(path)) return undefined;
  requireFile(path);
  return readFileSync(path, 'utf8');
}

async function requireUnusedNames({ service }: Call, { name }: Project): Promise<void> {
  for await (const one of service.applications.all({ name })) {
    if (one.name !== `${name} backend` && one.name !== `${name} browser`) continue;
    throw new UsageError(
      `an application named "${one.name}" already exists`,
      'choose another name with --name',
    );
  }
}

/** If a step fails, deletes the applications that were created, and the file if it is new. */
async function createApplications({ service, url }: Call, { name, container, file, existing }: Project) {
  const rule = (transform: AccessRule['transform'], permissions: string[]): AccessRule[] => [
    { priority: 1, container, transform, permissions },
  ];
  const all = ['token:create', 'token:read', 'token:update', 'token:delete'];
  const bodies: ApplicationCreate[] = [
    { name: `${name} backend`, type: 'private', rules: rule('reveal', all) },
    { name: `${name} browser`, type: 'public', rules: rule('redact', ['token:create']) },
  ];
  const created: ApplicationWithKey[] = [];
  const create = async (write: (text: string) => void) => {
    try {
      for (const body of bodies) created.push(await service.applications.create(body));
      const [backend, browser] = created as [ApplicationWithKey, ApplicationWithKey];
      write(mergeEnv(contentOf(file) ?? '', variablesOf(url, backend.key, browser.key), file));
      return { backend: backend.id, browser: browser.id };
    } catch (error) {
      for (const { id } of created) await service.applications.delete(id).catch(() => undefined);
      throw error;
    }
  };
  return existing === undefined ? withNewFile(file, create) : withReplacedFile(file, create, 0o600);
}

function variablesOf(url: string, key: string, publicKey: string): EnvVariable[] {
  const [urlName, keyName, publicName] = projectVariables;
  return [
    { name: urlName, value: url },
    { name: keyName, value: key, comment: 'Secret: only for the backend.' },
    { name: publicName, value: publicKey, comment: 'Public: for the web page.' },
  ];
}

function nextSteps({ name, container, file }: Project): string {
  return `Created "${name} backend", which reads and writes tokens in ${container},
and "${name} browser", which creates tokens there.
Their keys are in ${file} (mode 0600). Do not commit it.

Next steps:
  1. Load the keys into your shell:  set -a; . ${file.includes('/') ? file : `./${file}`}; set +a
  2. Create a token:                 echo 4242424242424242 | sallyport tokens create --text-file - \\
                                       --container ${container} --mask '{{ data | reveal_last: 4 }}'
  3. In the web page, create a session with SALLYPORT_PUBLIC_KEY: startSession() of the SDK.
     In the backend, authorize its nonce with SALLYPORT_KEY: authorizeSession() of the SDK.`;
}

interface EnvVariable {
  readonly name: string;
  readonly value: string;
  /** A comment above a new line. */
  readonly comment?: string;
}

function definedIn(text: string, names: readonly string[]): string[] {
  const variables = parseEnv(text);
  return names.filter((name) => Object.hasOwn(variables, name));
}

/**
 * Replaces the values of defined variables in place and appends the others. Throws UsageError, with `path` in its
 * message, if that would change another variable. An example is a name that occurs inside a multi-line value.
 */
function mergeEnv(text: string, variables: readonly EnvVariable[], path: string): string {
  const lineEnd = text.includes('\r\n') ? '\r\n' : '\n';
  let merged = text;
  const added: string[] = [];
  for (const { name, value, comment } of variables) {
    const line = new RegExp(`^([ \\t]*(?:export[ \\t]+)?${name}[ \\t]*=[ \\t]*)[^\\r\\n]*`, 'gm');
    if (definedIn(merged, [name]).length > 0) merged = merged.replace(line, (_, start) => start + value);
    else added.push(...(comment ? [`# ${comment}`] : []), `${name}=${value}`);
  }
  if (added.length > 0) {
    const separator = merged === '' || /\n$/.test(merged) ? '' : lineEnd;
    merged += separator + added.map((line) => line + lineEnd).join('');
  }
  requireOthersUnchanged(text, merged, variables, path);
  return merged;
}

function requireOthersUnchanged(
  before: string,
  after: string,
  variables: readonly EnvVariable[],
  path: string,
): void {
  const expected = { ...parseEnv(before) };
  for (const { name, value } of variables) expected[name] = value;
  if (Bun.deepEquals({ ...parseEnv(after) }, expected)) return;
  const names = variables.map(({ name }) => name).join(', ');
  throw new UsageError(
    `cannot add ${names} to ${path} without changing its other variables`,
    'choose another file with --keys-to, and copy the variables yourself',
  );
}
