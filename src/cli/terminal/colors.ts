export type Color = 'bold' | 'dim' | 'red' | 'green' | 'yellow';
export type Colorize = (ink: Color, text: string) => string;

const codes: Record<Color, readonly [on: number, off: number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
};

/** Matches every sequence that `colorizer` writes. */
export const colours = new RegExp(`(\x1b\\[(?:${Object.values(codes).flat().join('|')})m)`);

interface Viewer {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly person: { readonly reads: boolean };
}

/** Colours on a terminal, unless NO_COLOR or TERM=dumb is set. */
export function colorizer({ env, person }: Viewer): Colorize {
  const plain = !person.reads || Boolean(env.NO_COLOR) || env.TERM === 'dumb';
  if (plain) return (_, text) => text;
  return (ink, text) => `\x1b[${codes[ink][0]}m${text}\x1b[${codes[ink][1]}m`;
}
