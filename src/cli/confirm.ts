import { type Call, type Option, UsageError } from './command.ts';

export const yesOption: Option = { name: 'yes', sentence: 'Do it without asking.' };

/** Asks a person; without one, only `--yes` will do. */
export async function confirmed(
  { options, terminal }: Pick<Call, 'options' | 'terminal'>,
  question: string,
): Promise<boolean> {
  if (options.on('yes')) return true;
  if (!terminal.person.types) {
    throw new UsageError('this is asked before it is done, and nobody is here to answer', '--yes does it');
  }
  const answer = await terminal.ask(`${question} [y/N] `);
  if (/^y(es)?$/i.test(answer?.trim() ?? '')) return true;
  terminal.note('left as it was\n');
  return false;
}
