/** Finds JSON numbers that cannot be stored exactly as IEEE 754 doubles. Requests with such numbers are rejected. */

/**
 * A cheap first check. Numbers of up to 15 digits without an exponent are always exact. A match must follow the start
 * of the JSON, white space, or one of `[`, `,` and `:`, which avoids most matches inside strings.
 */
const suspect = /(?:^|[\s[,:])-?(?:[\d.]{16}|[\d.]{1,15}[eE])/;
/** A string or a number. */
const token = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
/** Replaces an inexact number and is parsed as Infinity. The space makes it differ from `1e999` in the text. */
const marker = ' 1e999';
const maxDigits = 400;

/**
 * Returns the dotted path of the first number that loses precision, such as 12345678901234567890 or 1e400. Undefined
 * if there is none.
 */
export function findInexactNumber(validJson: string): string | undefined {
  if (!suspect.test(validJson)) return undefined;
  const marked = validJson.replace(token, (source) =>
    source[0] === '"' || isExact(source) ? source : marker,
  );
  return marked === validJson ? undefined : pathOfInfinity(JSON.parse(marked))?.join('.');
}

/** Up to 15 digits are exact, unless the number overflows or underflows. */
function isExact(source: string): boolean {
  const value = Number(source);
  if (value === 0) return !/^[-.0]*[1-9]/.test(source);
  if (source.length <= 15 && Number.isFinite(value) && Math.abs(value) > 1e-290) return true;
  return decimal(String(value)) === decimal(source);
}

/**
 * Canonical form of a number other than 0: 0.125e2 for 12.50. Returns NaN, which equals nothing, for Infinity and for
 * numbers of more than `maxDigits` characters.
 */
function decimal(source: string): string | number {
  if (source.length > maxDigits) return Number.NaN;
  const match = /(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?/i.exec(source);
  if (!match) return Number.NaN;
  const [, sign, whole, fraction = '', exponent = 0] = match;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  const shift = Number(exponent) - fraction.length + digits.length;
  return `${sign}0.${significant}e${shift}`;
}

function pathOfInfinity(value: unknown): string[] | undefined {
  if (value === Number.POSITIVE_INFINITY) return [];
  if (typeof value !== 'object' || value === null) return undefined;
  for (const name in value) {
    const path = pathOfInfinity(value[name as keyof typeof value]);
    if (path) return [name, ...path];
  }
  return undefined;
}
