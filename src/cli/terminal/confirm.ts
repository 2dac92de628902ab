import type { Call, Option } from '../command.ts';
import { UsageError } from '../errors.ts';

export const yesOption: Option = { name: 'yes', sentence: 'Skip the confirmation prompt.' };

/** Asks a person; without one, only `--yes` will do. */
export async function confirmed(
  { options, terminal }: Pick<Call, 'options' | 'terminal'>,
  question: string,
): Promise<boolean> {
  return answered({ options, terminal }, `${question} [y/N] `, (answer) => /^y(es)?$/i.test(answer));
}

/** For what cannot be undone at all: a person has to type the name of what it is about. */
export async function confirmedByName(
  given: Pick<Call, 'options' | 'terminal'>,
  warning: string,
  name: string,
): Promise<boolean> {
  return answered(given, `${warning} Type its name to go on: `, (answer) => answer === name.trim());
}

async function answered(
  { options, terminal }: Pick<Call, 'options' | 'terminal'>,
  question: string,
  agrees: (answer: string) => boolean,
): Promise<boolean> {
  if (options.on('yes')) return true;
  if (!terminal.person.types) {
    throw new UsageError('this is asked before it is done, and nobody is here to answer', '--yes does it');
  }
  const answer = await terminal.ask(question);
  if (answer !== undefined && agrees(answer.trim())) return true;
  terminal.note('left as it was\n');
  return false;
}
