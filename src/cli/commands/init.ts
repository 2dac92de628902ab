/** The first steps of a project: an Application for its backend, one for its page, and their keys in a file. */
import { basename } from 'node:path';
import type { AccessRule, ApplicationCreate, ApplicationWithKey } from '../../../sdk/src/sallyport.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import { confirmed, yesOption } from '../terminal/confirm.ts';
import { withNewFile } from '../terminal/key-file.ts';

/** What the file says to the project. */
export const projectVariables = ['SALLYPORT_URL', 'SALLYPORT_KEY', 'SALLYPORT_PUBLIC_KEY'] as const;

export const initCommands: readonly RemoteCommand[] = [
  {
    words: ['init'],
    takes: [],
    options: [
      {
        name: 'name',
        takes: 'TEXT',
        sentence: 'Project name; default is the name of the folder.',
      },
      { name: 'env-file', takes: 'FILE', sentence: 'File for the keys; default .env.' },
      yesOption,
    ],
    summary: 'Set up a project: create a backend and a browser application and write their keys to .env.',
    details:
      'Both are limited to one container. The backend reads and writes tokens there and authorizes sessions. The browser application only creates tokens. Needs a key with application:create, such as the first management key.',
    examples: ['sallyport init --key-file data/management.key'],
    call: init,
  },
];

interface Project {
  readonly name: string;
  readonly container: string;
  readonly file: string;
}

async function init(call: Call): Promise<number> {
  const { json, print, url } = call;
  const project = await projectOf(call);
  const { name, container, file } = project;
  await refuseTaken(call, project);
  if (call.terminal.person.types) {
    call.terminal.note(
      `At ${url}: "${name} backend" (private) and "${name} browser" (public), for ${container}; keys in ${file}\n`,
    );
    if (!(await confirmed(call, 'Make them?'))) return 1;
  }
  const made = await make(call, project);
  print(json ? JSON.stringify({ ...made, container, env_file: file }) : nextSteps(project));
  return 0;
}

async function projectOf({ options, terminal }: Call): Promise<Project> {
  const folder = basename(process.cwd()) || 'project';
  const given = options.value('name');
  const asked =
    given === undefined && terminal.person.types && !options.on('yes')
      ? await terminal.ask(`What is the project called? [${folder}] `)
      : given;
  const name = asked?.trim() || folder;
  const segment = name
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  if (segment === '')
    throw new UsageError(`"${name}" has no letter or digit to name a container by`, '--name');
  return { name, container: `/${segment.slice(0, 100)}/`, file: options.value('env-file') ?? '.env' };
}

async function refuseTaken({ service }: Call, { name }: Project): Promise<void> {
  for await (const one of service.applications.all({ name })) {
    if (one.name !== `${name} backend` && one.name !== `${name} browser`) continue;
    throw new UsageError(`there is an Application "${one.name}" already`, 'choose another name with --name');
  }
}

/** All of it or nothing: neither a file without keys nor an Application whose key nobody has. */
async function make({ service, url }: Call, { name, container, file }: Project) {
  const rule = (transform: AccessRule['transform'], permissions: string[]): AccessRule[] => [
    { priority: 1, container, transform, permissions },
  ];
  const all = ['token:create', 'token:read', 'token:update', 'token:delete'];
  const bodies: ApplicationCreate[] = [
    { name: `${name} backend`, type: 'private', rules: rule('reveal', all) },
    { name: `${name} browser`, type: 'public', rules: rule('redact', ['token:create']) },
  ];
  const made: ApplicationWithKey[] = [];
  return withNewFile(file, async (keep) => {
    try {
      for (const body of bodies) made.push(await service.applications.create(body));
      const [backend, browser] = made as [ApplicationWithKey, ApplicationWithKey];
      keep(envFile(url, backend.key, browser.key));
      return { backend: backend.id, browser: browser.id };
    } catch (error) {
      for (const { id } of made) await service.applications.delete(id).catch(() => undefined);
      throw error;
    }
  });
}

function envFile(url: string, key: string, publicKey: string): string {
  const [urlName, keyName, publicName] = projectVariables;
  return [
    `${urlName}=${url}`,
    '# For the backend alone.',
    `${keyName}=${key}`,
    '# For the page: anyone may see it.',
    `${publicName}=${publicKey}`,
    '',
  ].join('\n');
}

function nextSteps({ name, container, file }: Project): string {
  return `"${name} backend" keeps and reads Tokens in ${container}
"${name} browser" puts data there, and reads nothing
Their keys are in ${file}, for its owner alone: keep it out of version control.

Next:
  1. Load it into this shell:    set -a; . ${file.includes('/') ? file : `./${file}`}; set +a
  2. Keep something as a Token:  echo 4242424242424242 | sallyport tokens create --text-file - \\
                                   --container ${container} --mask '{{ data | reveal_last: 4 }}'
  3. In the page, open a Session with SALLYPORT_PUBLIC_KEY and hand its nonce to your backend,
     which lets it in with SALLYPORT_KEY: startSession() and authorizeSession() of the SDK do that.`;
}
