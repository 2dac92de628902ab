export type Color = 'bold' | 'dim' | 'red' | 'green' | 'yellow';
export type Colorize = (color: Color, text: string) => string;

const codes: Record<Color, readonly [on: number, off: number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
};

/** Matches every sequence that `colorizer` writes. */
export const colorCodes = new RegExp(`(\x1b\\[(?:${Object.values(codes).flat().join('|')})m)`);

interface ColorSupport {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isTty: { readonly stdout: boolean };
}

/** Colors on a terminal, unless NO_COLOR or TERM=dumb is set. */
export function colorizer({ env, isTty }: ColorSupport): Colorize {
  const plain = !isTty.stdout || Boolean(env.NO_COLOR) || env.TERM === 'dumb';
  if (plain) return (_, text) => text;
  return (color, text) => `\x1b[${codes[color][0]}m${text}\x1b[${codes[color][1]}m`;
}
