/** Finds JSON numbers that cannot be stored exactly as IEEE 754 doubles. Requests with such numbers are rejected. */
import { closingQuote } from './json-limits.ts';

/**
 * A cheap first check. Numbers of up to 15 digits without an exponent are always exact. A match must follow the start
 * of the JSON, white space, or one of `[`, `,` and `:`, which avoids most matches inside strings.
 */
const suspect = /(?:^|[\s[,:])-?(?:[\d.]{16}|[\d.]{1,15}[eE])/;
/** A number. */
const number = /-?\d[\d.eE+-]*/y;
/** Replaces an inexact number and is parsed as Infinity. */
const marker = '1e999';

/**
 * Returns the dotted path of the first number that loses precision, such as 12345678901234567890 or 1e400. Undefined
 * if all are exact. Takes linear time for every text. A regular expression is much slower for strings with many escapes.
 */
export function findInexactNumber(validJson: string): string | undefined {
  if (!suspect.test(validJson)) return undefined;
  let [marked, copied] = ['', 0];
  for (let at = 0; at < validJson.length; at++) {
    const code = validJson.charCodeAt(at);
    if (code === quote) at = closingQuote(validJson, at + 1);
    else if (code === minus || (code >= zero && code <= nine)) {
      number.lastIndex = at;
      const source = number.exec(validJson)?.[0] ?? '';
      if (!isExact(source)) {
        marked += validJson.slice(copied, at) + marker;
        copied = at + source.length;
      }
      at += source.length - 1;
    }
  }
  return copied === 0 ? undefined : pathOfInfinity(JSON.parse(marked + validJson.slice(copied)))?.join('.');
}

const [quote, minus, zero, nine, point] = Array.from('"-09.', (character) => character.charCodeAt(0)) as [
  number,
  number,
  number,
  number,
  number,
];

/** Numbers of up to 15 significant digits are exact, unless they overflow or underflow. No double needs more than 17. */
function isExact(source: string): boolean {
  const value = Number(source);
  if (!Number.isFinite(value)) return false;
  const digits = digitsOf(source);
  if (value === 0) return digits === '';
  if (digits.length <= 15 && Math.abs(value) > 1e-290) return true;
  // The same digits are the same number: one with its decimal point elsewhere would not be rounded to this value.
  return digits.length <= 17 && digits === digitsOf(String(value));
}

/** The significant digits of a number: 125 for 12.50 and for 1.25e3. */
function digitsOf(source: string): string {
  const exponentAt = source.search(/e/i);
  const pointAt = source.indexOf('.');
  let start = source.startsWith('-') ? 1 : 0;
  let end = exponentAt < 0 ? source.length : exponentAt;
  while (start < end && isZeroOrPoint(source.charCodeAt(start))) start++;
  while (end > start && isZeroOrPoint(source.charCodeAt(end - 1))) end--;
  return start < pointAt && pointAt < end
    ? source.slice(start, pointAt) + source.slice(pointAt + 1, end)
    : source.slice(start, end);
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
