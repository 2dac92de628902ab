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

/**
 * Returns the dotted path of the first number that loses precision, such as 12345678901234567890 or 1e400. Undefined
 * if there is none. Takes linear time, whatever the numbers are.
 */
export function findInexactNumber(validJson: string): string | undefined {
  if (!suspect.test(validJson)) return undefined;
  const marked = validJson.replace(token, (source) =>
    source[0] === '"' || isExact(source) ? source : marker,
  );
  return marked === validJson ? undefined : pathOfInfinity(JSON.parse(marked))?.join('.');
}

/** Numbers of up to 15 significant digits are exact, unless they overflow or underflow. No double needs more than 17. */
function isExact(source: string): boolean {
  const value = Number(source);
  if (!Number.isFinite(value)) return false;
  const given = decimal(source);
  if (value === 0) return given.digits === '';
  if (given.digits.length <= 15 && Math.abs(value) > 1e-290) return true;
  if (given.digits.length > 17) return false;
  const shortest = decimal(String(value));
  return shortest.digits === given.digits && shortest.exponent === given.exponent;
}

const zero = '0'.charCodeAt(0);
const point = '.'.charCodeAt(0);

/** The significant digits of a number, and where its decimal point is: 12.50 is 125 and 2, for 0.125 * 10 ** 2. */
function decimal(source: string): { digits: string; exponent: number } {
  const exponentAt = source.search(/e/i);
  const mantissaEnd = exponentAt < 0 ? source.length : exponentAt;
  const pointAt = source.indexOf('.');
  const wholeEnd = pointAt < 0 ? mantissaEnd : pointAt;
  let start = source.startsWith('-') ? 1 : 0;
  while (start < mantissaEnd && isZeroOrPoint(source.charCodeAt(start))) start++;
  let end = mantissaEnd;
  while (end > start && isZeroOrPoint(source.charCodeAt(end - 1))) end--;
  const digits =
    start < pointAt && pointAt < end
      ? source.slice(start, pointAt) + source.slice(pointAt + 1, end)
      : source.slice(start, end);
  // The number of digits from the first significant one to the point; 0 or less if the point comes first.
  const wholeDigits = start < wholeEnd ? wholeEnd - start : wholeEnd + 1 - start;
  return {
    digits,
    exponent: exponentAt < 0 ? wholeDigits : wholeDigits + Number(source.slice(exponentAt + 1)),
  };
}

function isZeroOrPoint(code: number): boolean {
  return code === zero || code === point;
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
