import type { Terminal } from './terminal.ts';

export type Color = 'bold' | 'dim' | 'red' | 'green' | 'yellow';
export type Colorize = (ink: Color, text: string) => string;

const codes: Record<Color, readonly [on: number, off: number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
};

/** Matches every sequence that `painter` writes. */
export const colours = new RegExp(`(\x1b\\[(?:${Object.values(codes).flat().join('|')})m)`);

/** Colours for a person who wants them; for anyone else, the text as it is. */
export function colorizer({ env, person }: Terminal): Colorize {
  const plain = !person.reads || Boolean(env.NO_COLOR) || env.TERM === 'dumb';
  if (plain) return (_, text) => text;
  return (ink, text) => `\x1b[${codes[ink][0]}m${text}\x1b[${codes[ink][1]}m`;
}
