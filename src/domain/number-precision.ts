/** Finds JSON numbers that cannot be stored exactly as IEEE 754 doubles. Such requests are rejected. */

/**
 * A cheap first check. Numbers of up to 15 digits without an exponent are always exact. A number is at the start of the
 * JSON or follows one of these characters, which digits inside strings rarely do.
 */
const suspect = /(?:^|[\s[,:])-?(?:[\d.]{16}|[\d.]{1,15}[eE])/;
const maxDigits = 400;

type Reviver = (name: string, value: unknown, context: { source?: string }) => unknown;

/** Returns the dotted path of the first number that loses precision, such as 12345678901234567890 or 1e400. */
export function findInexactNumber(json: string): string | undefined {
  if (!suspect.test(json) || !hasInexact(json)) return undefined;
  let found = false;
  const markInexact: Reviver = (_, value, context) => {
    if (typeof value !== 'number' || isExact(value, context.source as string)) return value;
    found = true;
    return Number.NaN;
  };
  const value: unknown = JSON.parse(json, markInexact as Parameters<typeof JSON.parse>[1]);
  return found ? pathOfNaN(value)?.join('.') : undefined;
}

/** A string or a number. */
const token = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/** Checks only the numbers, which is faster than parsing the JSON again. */
function hasInexact(json: string): boolean {
  for (const [source] of json.matchAll(token))
    if (source[0] !== '"' && !isExact(Number(source), source)) return true;
  return false;
}

/** Up to 15 digits are exact, unless the number underflows. */
function isExact(value: number, source: string): boolean {
  if (value === 0) return !/^[-.0]*[1-9]/.test(source);
  if (source.length <= 15 && Number.isFinite(value) && Math.abs(value) > 1e-290) return true;
  return decimal(String(value)) === decimal(source);
}

/** Canonical form of a number, such as 125e-1 for 12.50. Returns NaN for Infinity and for more than `maxDigits`. */
function decimal(source: string): string | number {
  if (source.length > maxDigits) return Number.NaN;
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
