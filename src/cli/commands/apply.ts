/** Makes a tenant's Applications match a file: first the plan, then, if that is wanted, the changes. */

import { existsSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Application, ApplicationCreate as Body } from '../../../sdk/src/sallyport.ts';
import type { ApplicationCreate } from '../../domain/application.ts';
import { timestamp } from '../../domain/common-fields.ts';
import { escapeText } from '../../domain/escape.ts';
import type { Call, RemoteCommand } from '../command.ts';
import { UsageError } from '../errors.ts';
import { only } from '../terminal/body-options.ts';
import { confirmed, yesOption } from '../terminal/confirm.ts';
import { withNewFile } from '../terminal/key-file.ts';
import { progress } from '../terminal/list.ts';
import { complain, readAccess, type Wanted } from './access-file.ts';
import { conflicts, isEmpty, type Plan, planOf } from './plan.ts';
import { asJson, inWords } from './plan-view.ts';

export const applyCommands: readonly RemoteCommand[] = [
  {
    words: ['apply'],
    takes: ['FILE'],
    options: [
      { name: 'plan', sentence: 'Print the plan and exit with 1 if it is not empty.' },
      { name: 'prune', sentence: 'Delete applications that are not in the file.' },
      {
        name: 'keys-dir',
        takes: 'DIR',
        sentence: 'Write new keys to files in this folder instead of printing them.',
      },
      yesOption,
    ],
    summary: "Make a tenant's applications match a file.",
    details:
      'FILE is YAML or JSON, or - for standard input. Applications are matched by name. Prints the plan first and asks for confirmation on a terminal.',
    examples: ['sallyport apply access.yaml --plan', 'sallyport apply access.yaml --keys-dir keys'],
    call: apply,
  },
];

/** A new Application, with its key or where that is. */
interface Made {
  readonly id: string;
  readonly name: string;
  readonly key?: string;
  readonly key_file?: string;
}

async function apply(call: Call): Promise<number> {
  const { args, options, input, json, print, paint } = call;
  const file = args[0] as string;
  const wanted = readAccess(await input.text(file, 'FILE'), file === '-' ? 'standard input' : basename(file));
  const plan = await planned(call, wanted, file);
  const files = keyFiles(plan, options.value('keys-dir'));
  const done = (made: readonly Made[], applied: boolean) => {
    if (json) print(JSON.stringify({ ...asJson(plan), applied, keys: made }));
  };
  if (!json) print(inWords(plan, paint));
  if (isEmpty(plan) || options.on('plan')) {
    done([], false);
    return isEmpty(plan) ? 0 : 1;
  }
  if (!(await confirmed(call, 'Apply this?'))) return 1;
  if (!options.on('yes')) await refuseChanged(call, wanted, file, plan);
  const made: Made[] = [];
  try {
    await carryOut(call, plan, files, made);
    done(made, true);
  } catch (error) {
    done(made, false);
    throw error;
  }
  if (!json) print('done');
  return 0;
}

async function planned({ service, options, terminal }: Call, wanted: readonly Wanted[], file: string) {
  const seen = progress(terminal);
  const current: Application[] = [];
  for await (const application of service.applications.all()) {
    current.push(application);
    seen.say(`${current.length} Applications read`);
  }
  seen.done();
  const own = (await service.applications.current()).id;
  const now = Date.now();
  complain(basename(file), conflicts(wanted, current, { now }));
  return planOf(wanted, current, { prune: options.on('prune'), own, now });
}

/** What was agreed to is what is done. */
async function refuseChanged(
  call: Call,
  wanted: readonly Wanted[],
  file: string,
  agreed: Plan,
): Promise<void> {
  const plan = await planned(call, wanted, file);
  if (JSON.stringify(asJson(plan)) === JSON.stringify(asJson(agreed))) return;
  throw new UsageError('the Applications have changed since the plan was shown', 'look at the new plan');
}

/** Where each new key goes, by the name of its Application; refused before anything is done. */
function keyFiles(plan: Plan, folder: string | undefined): Map<string, string> {
  if (folder === undefined) return new Map();
  const paths = new Map(plan.create.map(({ name }) => [name, join(folder, `${fileName(name)}.key`)]));
  const all = [...paths.values()];
  const twice = all.find((path, index) => all.indexOf(path) !== index);
  if (twice) throw new UsageError(`two new Applications would have their keys in ${twice}`);
  const taken = all.find((path) => existsSync(path));
  if (taken) throw new UsageError(`${taken} is there already`);
  if (all.length > 0) mkdirSync(folder, { recursive: true, mode: 0o700 });
  return paths;
}

function fileName(name: string): string {
  return name.replace(/[^\p{L}\p{N}._-]+/gu, '-').replace(/^[.-]+/, '') || 'application';
}

/** Each new key is shown as soon as it is there, so that a failure later on does not lose it. */
async function carryOut(call: Call, plan: Plan, files: Map<string, string>, made: Made[]): Promise<void> {
  const { service, json, print, terminal } = call;
  const all = plan.create.length + plan.update.length + plan.delete.length;
  const seen = progress(terminal);
  let count = 0;
  const step = (name: string) => seen.say(`${++count} of ${all}: ${escapeText(name)}`);
  for (const application of plan.create) {
    step(application.name);
    const one = await create(call, application, files.get(application.name));
    made.push(one);
    seen.done();
    if (!json) print(`${escapeText(one.name)}  ${one.key ? `${one.key} (shown this once)` : one.key_file}`);
  }
  for (const { current, wanted } of plan.update) {
    step(current.name);
    const { name, permissions, rules, allowed_origins } = bodyOf(wanted);
    await service.applications.update(current.id, { name, ...only({ permissions, rules, allowed_origins }) });
  }
  for (const { id, name } of plan.delete) {
    step(name);
    await service.applications.delete(id);
  }
  seen.done();
}

async function create({ service }: Call, wanted: ApplicationCreate, path: string | undefined): Promise<Made> {
  if (path === undefined) {
    const { id, name, key } = await service.applications.create(bodyOf(wanted));
    return { id, name, key };
  }
  return withNewFile(path, async (keep) => {
    const { id, name, key } = await service.applications.create(bodyOf(wanted));
    keep(`${key}\n`);
    return { id, name, key_file: path };
  });
}

/** As the service takes it. */
function bodyOf({ expires_at, allowed_origins, rules, ...application }: ApplicationCreate): Body {
  return {
    ...application,
    ...(allowed_origins && { allowed_origins }),
    rules: rules as Body['rules'] & {},
    ...(expires_at !== undefined && { expires_at: timestamp(expires_at) }),
  };
}
