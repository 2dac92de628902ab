/** Finds JSON numbers that cannot be stored exactly as IEEE 754 doubles. Requests with such numbers are rejected. */
import { closingQuote } from './json-limits.ts';
import type { Steps } from './steps.ts';

/** A part of a number that may be inexact. Up to 15 digits without an exponent are always exact. */
const suspect = /[\d.]{16}|\d[eE]/;
/** A double is printed with at most so many digits. */
const maxDigits = 17;
/** Longer numbers count as inexact: to convert a megabyte of digits takes tens of milliseconds. */
const maxLength = 1024;
/** Replaces an inexact number and is parsed as Infinity. */
const marker = '1e999';

/** In a longer text, the numbers are compared together: to search all strings takes longer. */
const shortLength = 4096;
/** After so many strings and numbers, the computation can pause. */
const tokensPerStep = 256;

/**
 * Returns the dotted path of the first number that loses precision, such as 12345678901234567890 or 1e400. Undefined
 * if all are exact. Takes linear time for every text. A regular expression is much slower for strings with many escapes.
 */
export function* findInexactNumber(validJson: string): Steps<string | undefined> {
  if (validJson.length <= shortLength && !suspect.test(validJson)) return undefined;
  const start = /"|-?\d[\d.eE+-]*/g;
  let [marked, copied, tokens] = ['', 0, 0];
  for (let found = start.exec(validJson); found; found = start.exec(validJson)) {
    if (++tokens % tokensPerStep === 0) yield;
    const at = found.index;
    if (found[0] === '"') {
      start.lastIndex = closingQuote(validJson, at + 1) + 1;
      continue;
    }
    if (suspect.test(found[0]) && !isExact(found[0])) {
      marked += validJson.slice(copied, at) + marker;
      copied = start.lastIndex;
    }
  }
  return copied === 0 ? undefined : pathOfInfinity(JSON.parse(marked + validJson.slice(copied)))?.join('.');
}

/**
 * Whether the double has the same digits, printed with as few as it needs. Then it is the same number: one with its
 * decimal point elsewhere would not be rounded to this double.
 */
function isExact(source: string): boolean {
  if (source.length > maxLength) return false;
  const digits = digitsOf(source);
  return digits.length <= maxDigits && digits === digitsOf(String(Number(source)));
}

/** The significant digits of a number: 125 for 12.50 and for -1.25e3. */
function digitsOf(source: string): string {
  const mantissa = source.slice(0, source.search(/e|$/i));
  let [first, end] = [0, mantissa.length];
  while (isPadding(mantissa.charCodeAt(first))) first++;
  while (isPadding(mantissa.charCodeAt(end - 1))) end--;
  return mantissa.slice(first, end).replace('.', '');
}

const [minus, zero, point] = Array.from('-0.', (character) => character.charCodeAt(0));

function isPadding(code: number): boolean {
  return code === minus || code === zero || code === point;
}

function pathOfInfinity(value: unknown): string[] | undefined {
  if (value === Number.POSITIVE_INFINITY) return [];
  if (typeof value !== 'object') return undefined;
  // Null has no fields.
  const fields = value as Record<string, unknown>;
  for (const name in fields) {
    const path = pathOfInfinity(fields[name]);
    if (path) return [name, ...path];
  }
  return undefined;
}
