/** JSON may hold numbers of more digits than a number here can keep. What is kept must be what was sent. */

/**
 * Fewer digits than this, without an exponent, are always kept. A number is the first thing there is, or stands behind
 * one of these, as digits in a text seldom do.
 */
const suspect = /(?:^|[\s[,:])-?(?:[\d.]{16}|[\d.]{1,15}[eE])/;
const longest = 400;

type Reviver = (name: string, value: unknown, context: { source?: string }) => unknown;

/** The dotted path of a number that would come out as another one, such as 12345678901234567890 or 1e400. */
export function findInexactNumber(json: string): string | undefined {
  if (!suspect.test(json) || !hasInexact(json)) return undefined;
  let found = false;
  const marked: Reviver = (_, value, context) => {
    if (typeof value !== 'number' || keeps(value, context.source as string)) return value;
    found = true;
    return Number.NaN;
  };
  const value: unknown = JSON.parse(json, marked as Parameters<typeof JSON.parse>[1]);
  return found ? pathOfNaN(value)?.join('.') : undefined;
}

/** A text, or a number. */
const token = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/** Looks at the numbers alone, which takes a part of the time that it takes to parse everything once more. */
function hasInexact(json: string): boolean {
  for (const [source] of json.matchAll(token))
    if (source[0] !== '"' && !keeps(Number(source), source)) return true;
  return false;
}

/** Up to 15 digits always come out as they went in, unless the number is tiny beyond measure. */
function keeps(value: number, source: string): boolean {
  if (value === 0) return !/^[-.0]*[1-9]/.test(source);
  if (source.length <= 15 && Number.isFinite(value) && Math.abs(value) > 1e-290) return true;
  return decimal(String(value)) === decimal(source);
}

/** One spelling for each value, such as 125e-1 for 12.50. Infinity, and what goes on and on, equals nothing. */
function decimal(source: string): string | number {
  if (source.length > longest) return Number.NaN;
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(source);
  if (!match) return Number.NaN;
  const [, sign, whole, fraction = '', exponent = '0'] = match;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  const shift = Number(exponent) - fraction.length + digits.length - significant.length;
  return `${sign}${significant}e${shift}`;
}

function pathOfNaN(value: unknown): string[] | undefined {
  if (Number.isNaN(value)) return [];
  if (typeof value !== 'object' || value === null) return undefined;
  for (const name in value) {
    const path = pathOfNaN(value[name as keyof typeof value]);
    if (path) return [name, ...path];
  }
  return undefined;
}
