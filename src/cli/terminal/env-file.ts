/** Adds variables to the text of an env file. All other lines stay the same. */
import { parseEnv } from 'node:util';
import { UsageError } from '../errors.ts';

export interface EnvVariable {
  readonly name: string;
  readonly value: string;
  /** A comment above a new line. */
  readonly comment?: string;
}

/** The names among `names` that the text defines. */
export function definedIn(text: string, names: readonly string[]): string[] {
  const variables = parseEnv(text);
  return names.filter((name) => Object.hasOwn(variables, name));
}

/**
 * Replaces the values of defined variables in place and appends the others. Throws UsageError, with `path` in its
 * message, if that would change another variable. An example is a name that occurs inside a multi-line value.
 */
export function mergeEnv(text: string, variables: readonly EnvVariable[], path: string): string {
  const lineEnd = text.includes('\r\n') ? '\r\n' : '\n';
  let merged = text;
  const added: string[] = [];
  for (const { name, value, comment } of variables) {
    const line = new RegExp(`^([ \\t]*(?:export[ \\t]+)?${name}[ \\t]*=[ \\t]*)[^\\r\\n]*`, 'gm');
    if (definedIn(merged, [name]).length > 0) merged = merged.replace(line, (_, start) => start + value);
    else added.push(...(comment ? [`# ${comment}`] : []), `${name}=${value}`);
  }
  if (added.length > 0) {
    const separator = merged === '' || /\n$/.test(merged) ? '' : lineEnd;
    merged += separator + added.map((line) => line + lineEnd).join('');
  }
  requireOthersUnchanged(text, merged, variables, path);
  return merged;
}

function requireOthersUnchanged(
  before: string,
  after: string,
  variables: readonly EnvVariable[],
  path: string,
): void {
  const expected = { ...parseEnv(before) };
  for (const { name, value } of variables) expected[name] = value;
  if (Bun.deepEquals({ ...parseEnv(after) }, expected)) return;
  const names = variables.map(({ name }) => name).join(', ');
  throw new UsageError(
    `cannot add ${names} to ${path} without changing its other variables`,
    'choose another file with --env-file, and copy the variables yourself',
  );
}
