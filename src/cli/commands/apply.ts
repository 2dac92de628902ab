import { existsSync, mkdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  type Application,
  type ApplicationCreate as Body,
  type Destination,
  type DestinationCreate,
  etagOf,
  type Impact,
  PermissionError,
} from '../../../sdk/src/sallyport.ts';
import { escapeText } from '../../domain/escape.ts';
import type { Labels } from '../../domain/labels.ts';
import { currentRules } from '../../domain/rule.ts';
import { type Call, option, type RemoteCommand } from '../command.ts';
import { CommandError, ErrorAbout, negativeExitCode, UsageError } from '../errors.ts';
import { withNewFile } from '../terminal/files.ts';
import { confirm, labelOption, labelsOf, only, yesOption } from '../terminal/options.ts';
import { showProgress } from '../terminal/print.ts';
import type { FileApplication, FileDestination, ReadFile, Wanted } from './access-file.ts';
import { idShape } from './apps.ts';
import {
  changesOf,
  type DestinationChange,
  expiryOf,
  findConflicts,
  formatPlan,
  isEmpty,
  makePlan,
  type Plan,
  planDestinations,
  planToJson,
  type Scope,
  updateBody,
  withDestinations,
} from './plan.ts';

export const commands: RemoteCommand = {
  usage: 'apply <FILE...>',
  options: [
    option(
      'plan',
      `Print the plan and the impact of updates, and change nothing. Exits with ${negativeExitCode} if there are changes to make. The impact needs access:review.`,
    ),
    option(
      'prune',
      'Delete applications that are not in the files and have all labels of --label, or of one of the files.',
    ),
    {
      ...labelOption,
      description:
        'With --prune: a label of the applications that may be deleted, instead of the labels of the files; repeatable.',
    },
    option('keys-dir DIR', 'Write new keys to files in this folder instead of printing them.'),
    option('print-keys', 'Print new keys even if standard output is not a terminal.'),
    yesOption,
  ],
  summary: "Make a tenant's applications and destinations match one or more files.",
  details:
    'FILE is YAML or JSON, or - for standard input. Applications and destinations are matched by name; `previous_name` renames an application. Destinations are never deleted. A JSON schema for editors is docs/reference/access-file.schema.json. Prints the plan first and asks for confirmation on a terminal.',
  examples: [
    'sallyport apply access.yaml --plan',
    'sallyport apply shop.yaml toys.yaml --keys-dir keys',
    'sallyport apply shop.yaml --prune --label team=shop',
  ],
  call: apply,
};

interface Created {
  readonly id: string;
  readonly name: string;
  readonly key?: string;
  readonly key_file?: string;
}

async function apply(call: Call): Promise<number> {
  const { options, json, print, colorize } = call;
  const input = await readFiles(call);
  const plan = await readAndPlan(call, input);
  const files = keyFiles(plan, options.value('keys-dir'));
  const impacts = options.on('plan') ? await readImpacts(call, plan) : new Map<string, Impact>();
  const printResult = (keys: readonly Created[], applied: boolean) => {
    if (json) print(JSON.stringify({ ...planToJson(plan, impacts), applied, keys }));
  };
  if (!json) print(formatPlan(plan, colorize, (id) => [impacts.get(id) ?? []].flat().flatMap(impactText)));
  if (isEmpty(plan) || options.on('plan')) {
    printResult([], false);
    return isEmpty(plan) ? 0 : negativeExitCode;
  }
  requirePlaceForKeys(call, plan);
  await confirm(call, 'Apply these changes?');
  if (!options.on('yes')) await requireUnchanged(call, input, plan);
  const created: Created[] = [];
  try {
    await applyPlan(call, plan, files, created);
    printResult(created, true);
  } catch (error) {
    printResult(created, false);
    throw error;
  }
  if (!json) print('applied');
  return 0;
}

interface ApplyInput extends Scope {
  readonly wanted: readonly Wanted[];
  readonly destinations: readonly FileDestination[];
}

/** Rules in the plan have names of destinations. `ids` has their ids, also of those that were just created. */
interface NamedPlan extends Plan {
  readonly ids: Map<string, string>;
}

async function readFiles(call: Call): Promise<ApplyInput> {
  const { args, options, input } = call;
  const { findSharedNames, readAccessFile, reportProblems } = await import('./access-file.ts');
  const files: ReadFile[] = [];
  for (const path of args) {
    const name = args.length > 1 ? path : basename(path);
    files.push(readAccessFile(await input.text(path, 'FILE'), path === '-' ? 'standard input' : name));
  }
  reportProblems(findSharedNames(files));
  const destinations = files.flatMap((file) => file.destinations);
  const names = destinations.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice) throw new UsageError(`the destination "${twice}" is in the files twice`, 'no change was made');
  const prune = options.on('prune');
  const wanted = files.flatMap((file) => file.wanted);
  return { wanted, destinations, prune, selectors: selectorsOf(call, files, prune) };
}

/** Throws UsageError if `--prune` would delete applications without regard to their labels. */
function selectorsOf(call: Call, files: readonly ReadFile[], prune: boolean): Labels[] | undefined {
  const given = labelsOf(call);
  if (given && !prune) throw new UsageError('--label is only for --prune');
  if (given) return [given];
  const selectors = files.flatMap(({ labels = {} }) => (Object.keys(labels).length > 0 ? [labels] : []));
  if (selectors.length === files.length) return selectors;
  if (!prune) return undefined;
  const { file } = files.find(({ labels = {} }) => Object.keys(labels).length === 0) as ReadFile;
  throw new UsageError(
    `--prune needs labels, and ${file} has none: it would delete every other application of the tenant`,
    'set `labels` in the file, or pass --label NAME=VALUE',
  );
}

async function readAndPlan(call: Call, { wanted, destinations, ...scope }: ApplyInput): Promise<NamedPlan> {
  const { service, terminal } = call;
  const progress = showProgress(terminal);
  const current: Application[] = [];
  for await (const application of service.applications.all()) {
    current.push(application);
    progress.update(`${current.length} applications read`);
  }
  progress.clear();
  const own = (await service.applications.current()).id;
  const existing = await readDestinations(call, wanted, destinations);
  const names = new Map(existing.map(({ id, name }) => [id, name]));
  const named = <A extends FileApplication | Application>(one: A) =>
    withDestinations(one, (reference) => names.get(reference) ?? reference);
  const now = Date.now();
  const inFiles = wanted.map(({ application, ...one }) => {
    const rules = currentRules(application.rules, now);
    return { ...one, application: named({ ...application, rules }) };
  });
  const { reportProblems } = await import('./access-file.ts');
  const known = new Set([...existing, ...destinations].map(({ name }) => name));
  const unknown = inFiles.flatMap(({ application: { name, rules }, file, line }) =>
    rules
      .flatMap((rule) => rule.destinations ?? [])
      .filter((reference) => !idShape.test(reference) && !known.has(reference))
      .map((reference) => ({
        file,
        line,
        message: `"${name}" has a rule with the unknown destination "${reference}"`,
      })),
  );
  reportProblems([...findConflicts(inFiles, current, now), ...unknown]);
  return {
    ...makePlan(inFiles, current.map(named), scope, own),
    destinations: planDestinations(destinations, existing),
    ids: new Map(existing.map(({ id, name }) => [name, id])),
  };
}

/** Without destinations in the files, the key needs no `destination:read`. */
async function readDestinations(
  { service }: Call,
  wanted: readonly Wanted[],
  given: readonly FileDestination[],
) {
  const rules = wanted.flatMap(({ application }) => application.rules);
  const isNamed = rules.some(({ destinations = [] }) => destinations.some((one) => !idShape.test(one)));
  return given.length > 0 || isNamed ? Array.fromAsync(service.destinations.all()) : [];
}

const noDestination = '00000000-0000-0000-0000-000000000000';

/** The application with the ids of its destinations. In a preview, a new destination has the nil id. */
function withIds(application: FileApplication, { ids }: NamedPlan): FileApplication {
  return withDestinations(
    application,
    (name) => ids.get(name) ?? (idShape.test(name) ? name : noDestination),
  );
}

/** Prevents that keys end up in the log of a pipeline. */
function requirePlaceForKeys({ options, terminal }: Call, { create }: Plan): void {
  const hasPlace = options.value('keys-dir') !== undefined || options.on('print-keys');
  if (create.length === 0 || hasPlace || terminal.isTty.stdout) return;
  throw new UsageError(
    `${create.length} new keys would be printed, but standard output is not a terminal`,
    'pass --keys-dir DIR to write them to files, or --print-keys',
  );
}

/** Plans again after the confirmation, and throws if the plan has changed. */
async function requireUnchanged(call: Call, input: ApplyInput, confirmed: Plan): Promise<void> {
  const plan = await readAndPlan(call, input);
  if (JSON.stringify(planToJson(plan)) === JSON.stringify(planToJson(confirmed))) return;
  throw new UsageError('the applications changed after the plan was printed', 'run the command again');
}

/** The key file of each new application, by name. Throws if a file exists, before any change. */
export function keyFiles(plan: Pick<Plan, 'create'>, folder: string | undefined): Map<string, string> {
  if (folder === undefined) return new Map();
  const paths = new Map(plan.create.map(({ name }) => [name, join(folder, `${fileName(name)}.key`)]));
  const all = [...paths.values()];
  const twice = all.find((path, index) => all.indexOf(path) !== index);
  if (twice)
    throw new UsageError(`two new applications would use the same key file ${twice}`, 'rename one of them');
  const taken = all.find((path) => existsSync(path));
  if (taken)
    throw new UsageError(`${taken} already exists`, 'move it away, or choose another folder with --keys-dir');
  return paths;
}

function fileName(name: string): string {
  return name.replace(/[^\p{L}\p{N}._-]+/gu, '-').replace(/^[.-]+/, '') || 'application';
}

/** Prints each new key immediately, so that a later failure does not lose it. */
async function applyPlan(
  call: Call,
  plan: NamedPlan,
  files: Map<string, string>,
  created: Created[],
): Promise<void> {
  const { service, json, print, terminal } = call;
  const all = changesOf(plan);
  const bodies: [DestinationCreate, Destination | undefined][] = [];
  for (const change of plan.destinations) bodies.push([await destinationBody(call, change), change.current]);
  const progress = showProgress(terminal);
  let count = 0;
  const step = async <T>(name: string, change: () => Promise<T>): Promise<T> => {
    progress.update(`${++count} of ${all}: ${escapeText(name)}`);
    try {
      return await change();
    } catch (error) {
      throw new ErrorAbout(`"${name}"`, error);
    } finally {
      progress.clear();
    }
  };
  for (const [body, current] of bodies) {
    const { id } = await step(body.name, async () => {
      if (!current) return service.destinations.create(body);
      const ifMatch = etagIfUnchanged(current, await service.destinations.get(current.id));
      return service.destinations.update(current.id, body, { ifMatch });
    });
    plan.ids.set(body.name, id);
  }
  for (const application of plan.create) {
    const { name } = application;
    const one = await step(name, () => createApplication(call, withIds(application, plan), files.get(name)));
    created.push(one);
    if (!json) print(`${escapeText(name)}  ${one.key ? `${one.key} (shown only once)` : one.key_file}`);
  }
  for (const { current, wanted } of plan.update) {
    await step(current.name, async () => {
      const ifMatch = etagIfUnchanged(current, await service.applications.get(current.id));
      await service.applications.update(current.id, updateBody(withIds(wanted, plan)), { ifMatch });
    });
  }
  for (const application of plan.delete) {
    await step(application.name, async () => {
      const ifMatch = etagIfUnchanged(application, await service.applications.get(application.id));
      await service.applications.delete(application.id, { ifMatch });
    });
  }
}

/** The items of a list have no ETag, so it is read again. Throws if it has changed since. */
function etagIfUnchanged<A extends Application | Destination>(listed: A, current: A): string | undefined {
  if (current.modified_at === listed.modified_at) return etagOf(current);
  const message = 'was changed after the plan was made, and was not updated (changed_meanwhile)';
  throw new CommandError(message, 'run the command again', 4);
}

/** The request body of a destination. Reads the secrets that it needs, and throws UsageError if one is missing. */
async function destinationBody(
  { terminal, input }: Call,
  { current, wanted, add, remove }: DestinationChange,
): Promise<DestinationCreate> {
  const { name, headers: given = {}, client_certificate: certificate, ...rest } = wanted;
  const read = async ({ env, file = '' }: NonNullable<typeof certificate>) => {
    const text = env === undefined ? await input.text(file, `"${name}":`) : terminal.env[env];
    if (text) return text.replace(/\r?\n$/, '');
    throw new UsageError(`"${name}": ${env ?? file} is not set or empty`, 'no change was made');
  };
  const headers: Record<string, string> = {};
  const sendsHeaders = [...add, ...remove].some((line) => line.startsWith('header '));
  if (sendsHeaders) for (const [each, source] of Object.entries(given)) headers[each] = await read(source);
  const client_certificate = current?.client_certificate ?? (certificate && (await read(certificate)));
  const body = { ...rest, name, headers: sendsHeaders ? headers : undefined, client_certificate };
  return only(body) as unknown as DestinationCreate;
}

/** Writes the key to `path` if it is given, and creates its folder. Otherwise the result contains the key. */
export async function createApplication(
  { service }: Call,
  wanted: FileApplication,
  path: string | undefined,
): Promise<Created> {
  if (path === undefined) {
    const { id, name, key } = await service.applications.create(bodyOf(wanted));
    return { id, name, key };
  }
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  return withNewFile(path, async (write) => {
    const { id, name, key } = await service.applications.create(bodyOf(wanted));
    write(`${key}\n`);
    return { id, name, key_file: path };
  });
}

function bodyOf(wanted: FileApplication): Body {
  const { expires_at: _, ...body } = updateBody(wanted);
  return { ...body, type: wanted.type, ...only({ expires_at: expiryOf(wanted) }) } as Body;
}

/** The impact of each update, by application id. Without `access:review`, prints a hint and returns an empty map. */
async function readImpacts({ service, terminal }: Call, plan: NamedPlan): Promise<Map<string, Impact>> {
  const impacts = new Map<string, Impact>();
  const progress = showProgress(terminal);
  try {
    for (const { current, wanted } of plan.update) {
      const body = updateBody(withIds(wanted, plan));
      impacts.set(current.id, await service.applications.preview(current.id, body));
      progress.update(`impact of ${impacts.size} of ${plan.update.length} updates computed`);
    }
  } catch (error) {
    if (!(error instanceof PermissionError)) throw error;
    terminal.writeError(`sallyport: hint: the impact of the updates is not shown: ${error.problem.detail}\n`);
  } finally {
    progress.clear();
  }
  return impacts;
}

/** One sentence per change of tokens, sessions and recorded reads. */
export function impactText({ sessions, tokens, reads, quarantined }: Impact): string[] {
  const lines = [
    ...tokens.data.map(({ permission, container, from, to, count }) => {
      const some = number(count, tokens.complete, 'token');
      return `${some} in ${container} ${verb(count)} from ${from} to ${to}${forPermission(permission)}`;
    }),
    ...(sessions.count > 0 || !sessions.complete
      ? [`${number(sessions.count, sessions.complete, 'active session')} ${verb(sessions.count)}`]
      : []),
    ...reads.data.map(({ permission, from, to, count, applications }) => {
      const some = number(count, reads.complete, 'read');
      const by = number(applications, true, 'application');
      return `${some} by ${by} ${verb(count)} from ${from} to ${to}${forPermission(permission)}`;
    }),
  ];
  if (reads.undecided > 0) lines.push(`${number(reads.undecided, true, 'read')}: too little is recorded`);
  if (reads.recorded !== 'all') lines.push(missingReads[reads.recorded]);
  if (quarantined) lines.push('in quarantine: this is the impact after the release');
  return lines;
}

const missingReads = {
  reveal: 'masked reads are not recorded (SALLYPORT_AUDIT_READS=reveal)',
  off: 'reads are not recorded (SALLYPORT_AUDIT_READS=off)',
};

function number(count: number, isComplete: boolean, noun: string): string {
  return `${isComplete ? '' : 'at least '}${count} ${noun}${count === 1 ? '' : 's'}`;
}

function verb(count: number): string {
  return count === 1 ? 'changes' : 'change';
}

function forPermission(permission: string): string {
  return permission === 'token:read' ? '' : ` for ${permission}`;
}
