/** Lines of a file from which tokens are imported. */
import { findInexactNumber } from './number-precision.ts';
import { runSteps } from './steps.ts';

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The body of `POST /tokens` in a line, of which only the id is checked. A line that an earlier import refused has it in `token`. */
export function tokenOfLine<T>(text: string): { token: T } | { code: string; error: string } {
  const value = parse(text);
  if (!isObject(value)) return { code: 'invalid_json', error: 'is not a JSON object in UTF-8' };
  const path = runSteps(findInexactNumber(text));
  if (path !== undefined)
    return { code: 'inexact_number', error: `has a number that cannot be stored exactly, at ${path}` };
  const token = isObject(value.token) && 'error' in value ? value.token : value;
  if (typeof token.id === 'string' || typeof token.unless_exists === 'string') return { token: token as T };
  return { code: 'id_missing', error: 'has no id and no unless_exists, so the import could not be repeated' };
}

/** A line of the file with those that were refused, which can be corrected and imported. */
export function refusedLine(line: number, code: string, error: string, text: string): string {
  return JSON.stringify({ line, code, error, token: parse(text) ?? text });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
