import type { Call, Option } from '../command.ts';
import { UsageError } from '../errors.ts';

export const yesOption: Option = { name: 'yes', description: 'Skip the confirmation prompt.' };

type Prompting = Pick<Call, 'options' | 'terminal'>;

/** Asks yes or no. Throws UsageError without a terminal and without `--yes`. */
export async function confirm(context: Prompting, question: string): Promise<boolean> {
  return ask(context, `${question} [y/N] `, (answer) => /^y(es)?$/i.test(answer));
}

/** For deletions that cannot be undone: the user must type the name. */
export async function confirmByName(context: Prompting, warning: string, name: string): Promise<boolean> {
  return ask(context, `${warning} Type the name to confirm: `, (answer) => answer === name.trim());
}

async function ask(
  { options, terminal }: Prompting,
  question: string,
  isYes: (answer: string) => boolean,
): Promise<boolean> {
  if (options.on('yes')) return true;
  if (!terminal.isTty.stdin) {
    throw new UsageError('cannot ask for confirmation: standard input is not a terminal', 'pass --yes');
  }
  const answer = await terminal.prompt(question);
  if (answer !== undefined && isYes(answer.trim())) return true;
  terminal.writeError('Cancelled.\n');
  return false;
}
