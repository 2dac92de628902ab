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
 * if there is none. Takes linear time, whatever the text is: a regular expression for strings with many escapes does not.
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
  const given = decimal(source);
  if (value === 0) return given.digits === '';
  if (given.digits.length <= 15 && Math.abs(value) > 1e-290) return true;
  if (given.digits.length > 17) return false;
  const shortest = decimal(String(value));
  return shortest.digits === given.digits && shortest.exponent === given.exponent;
}

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
