/** Options that several commands share. */
import { timestamp } from '../../domain/common-fields.ts';
import { parseDuration } from '../../domain/duration.ts';
import { type Context, type Option, option } from '../command.ts';
import { Cancelled, UsageError } from '../errors.ts';

export const fileOption = option(
  'file FILE',
  'Request body as JSON, or - for standard input. Options override its fields.',
);
export const permissionOption = option('permission PERMISSION...', 'Permission to grant; repeatable.');

export const originOption = option('origin ORIGIN...', 'Allowed origin of a public application; repeatable.');

export const boundSessionsOption = option(
  'bound-sessions WHEN',
  'Whether a public application can create only bound sessions.',
  ['required', 'optional'],
);

export const networkOption = option(
  'network CIDR...',
  'Allowed network of a private or management application, such as 10.0.0.0/8; repeatable.',
);

export const labelOption = option(
  'label NAME=VALUE...',
  'Label of the application, such as team=payments; repeatable.',
);

/** The values of a repeatable option NAME=VALUE. Undefined if it was not given. */
export function pairsOf(
  { options }: Pick<Context, 'options'>,
  { name }: Option,
): Record<string, string> | undefined {
  const pairs = options.values(name)?.map((pair): [string, string] => {
    const at = pair.indexOf('=');
    if (at < 1) throw new UsageError(`--${name} must be NAME=VALUE, not "${pair}"`);
    return [pair.slice(0, at), pair.slice(at + 1)];
  });
  const names = pairs?.map(([each]) => each) ?? [];
  const twice = names.find((each, index) => names.indexOf(each) !== index);
  if (twice !== undefined) throw new UsageError(`--${name} has two values for ${twice}`);
  return pairs && Object.fromEntries(pairs);
}

/** The values of `--label`. An empty one is probably a variable that is not set, and no application can have it. */
export function labelsOf(context: Pick<Context, 'options'>): Record<string, string> | undefined {
  const labels = pairsOf(context, labelOption);
  const empty = Object.entries(labels ?? {}).find(([, value]) => value === '');
  if (empty) throw new UsageError(`--${labelOption.name} has no value for ${empty[0]}`);
  return labels;
}

/** The text of labels or metadata: `NAME=VALUE, NAME=VALUE`. */
export function formatPairs(pairs: Readonly<Record<string, string>> = {}): string {
  return Object.entries(pairs)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');
}

export const expiryOption = option(
  'expires-at TIME',
  'Expiry, such as 2030-01-31T12:00:00Z, or 90d for 90 days from now.',
);

export const oldKeysOption = option(
  'old-keys-expire-at TIME',
  'Expiry of the existing keys, such as 2030-01-31T12:00:00Z, or 24h for 24 hours from now.',
);

/** The value of an option for a time. A duration counts from now. Other text is unchanged: the service validates it. */
export function timeOf({ options }: Pick<Context, 'options'>, { name }: Option): string | undefined {
  const text = options.value(name);
  const duration = text === undefined ? undefined : parseDuration(text);
  return duration === undefined ? text : timestamp(Date.now() + duration);
}

/** The value of an option for a whole number. Throws UsageError for other text, which JSON would send as null. */
export function wholeNumberOf({ options }: Pick<Context, 'options'>, name: string): number | undefined {
  const text = options.value(name);
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new UsageError(`--${name} must be a whole number, not "${text}"`);
}

export function only<T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>;
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

export const yesOption = option('yes', 'Skip the confirmation prompt.');

type Prompting = Pick<Context, 'options' | 'terminal'>;

/** Asks yes or no. Throws Cancelled for no, and UsageError without a terminal and without `--yes`. */
export async function confirm(context: Prompting, question: string): Promise<void> {
  await ask(context, `${question} [y/N] `, (answer) => /^y(es)?$/i.test(answer));
}

/** For deletions that cannot be undone: the user must type the name. */
export async function confirmByName(context: Prompting, warning: string, name: string): Promise<void> {
  await ask(context, `${warning} Type the name to confirm: `, (answer) => answer === name.trim());
}

async function ask(
  { options, terminal }: Prompting,
  question: string,
  isYes: (answer: string) => boolean,
): Promise<void> {
  if (options.on('yes')) return;
  if (!terminal.isTty.stdin)
    throw new UsageError('cannot ask for confirmation: standard input is not a terminal', 'pass --yes');
  const answer = await terminal.prompt(question);
  if (answer === undefined || !isYes(answer.trim())) throw new Cancelled();
}
