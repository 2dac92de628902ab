import { existsSync } from 'node:fs';
import { type Application, type Destination, PermissionError } from '../../../sdk/src/sallyport.ts';
import type { Labels } from '../../domain/labels.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { CommandError } from '../errors.ts';
import { withNewFile, withReplacedFile } from '../terminal/files.ts';
import { confirm, labelOption, labelsOf, only, yesOption } from '../terminal/options.ts';
import { showProgress } from '../terminal/print.ts';
import { withDestinations } from './plan.ts';

export const commands: RemoteCommand = {
  usage: 'pull <FILE>',
  options: [
    {
      ...labelOption,
      description:
        'Only applications with this label, which becomes a label of the file, and the destinations that their rules name; repeatable.',
    },
    yesOption,
  ],
  summary: "Write a tenant's applications and destinations to a file for `apply`.",
  details:
    'FILE is written as YAML, or as JSON if its name ends with .json; - is standard output. Keys and other secrets are not in the file: it names environment variables for those of destinations. Asks before it replaces a file; comments in that file are lost.',
  examples: ['sallyport pull access.yaml', 'sallyport pull shop.yaml --label team=shop'],
  call: pull,
};

async function pull(call: Call): Promise<number> {
  const { args, json, print, printResult } = call;
  const file = args[0] as string;
  const label = labelsOf(call);
  const read = await readApplications(call, label);
  const named = new Set(read.flatMap(({ rules }) => rules.flatMap((rule) => rule.destinations ?? [])));
  const existing = await readDestinations(call);
  const destinations = label ? existing.filter(({ id }) => named.has(id)) : existing;
  const names = new Map(destinations.map(({ id, name }) => [id, name]));
  const applications = read.map((one) => withDestinations(one, (id) => names.get(id) ?? id));
  const { formatAccessFile } = await import('./access-file.ts');
  const text = formatAccessFile(applications, json || file.endsWith('.json'), label, destinations);
  if (file === '-') {
    print(text.trimEnd());
    return 0;
  }
  const write = async (writeText: (text: string) => void) => writeText(text);
  if (existsSync(file)) {
    await confirm(call, `Replace ${file}?`);
    await withReplacedFile(file, write);
  } else await withNewFile(file, write);
  const counts = { applications: applications.length, destinations: destinations.length };
  const more = counts.destinations > 0 ? ` and ${counts.destinations} destinations` : '';
  return printResult({ file, ...counts }, `wrote ${counts.applications} applications${more} to ${file}`);
}

/** Sorted by name. Without `destination:read`, prints a hint and returns none: rules then have ids. */
async function readDestinations({ service, terminal }: Call): Promise<Destination[]> {
  try {
    const all = await Array.fromAsync(service.destinations.all());
    return all.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    if (!(error instanceof PermissionError)) throw error;
    terminal.writeError(`sallyport: hint: destinations are not in the file: ${error.problem.detail}\n`);
    return [];
  }
}

/** Sorted by name, so that two files can be compared. Throws CommandError if a name is not unique. */
async function readApplications(
  { service, terminal }: Call,
  label: Labels | undefined,
): Promise<Application[]> {
  const progress = showProgress(terminal);
  const found = new Map<string, Application[]>();
  let count = 0;
  for await (const application of service.applications.all(only({ label }))) {
    found.set(application.name, [...(found.get(application.name) ?? []), application]);
    progress.update(`${++count} applications read`);
  }
  progress.clear();
  for (const [name, same] of found) {
    if (same.length === 1) continue;
    const ids = same.map(({ id }) => id).join(', ');
    throw new CommandError(
      `${same.length} applications are named "${name}": ${ids}`,
      'rename them with `sallyport apps update ID --name TEXT`: the file identifies applications by name',
    );
  }
  return [...found.values()].flat().toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
