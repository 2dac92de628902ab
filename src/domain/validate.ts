/** Validates input against a zod schema and returns error messages by path. */
import { z } from 'zod';
import { type Errors, fail, maxErrors } from './error.ts';

type Issue = Parameters<NonNullable<z.core.ParseContext<z.core.$ZodIssue>['error']>>[0];

export interface Fault {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Returns the parsed value, or the errors up to the number that a response may contain. */
export function check<S extends z.ZodType>(
  schema: S,
  value: unknown,
  part: 'field' | 'parameter' = 'field',
): { readonly data: z.output<S> } | { readonly faults: readonly Fault[] } {
  const result = schema.safeParse(value, { error: part === 'field' ? fieldMessage : parameterMessage });
  if (result.success) return { data: result.data };
  const message = `is not a known ${part}`;
  const faults = result.error.issues
    .slice(0, maxErrors)
    .flatMap((issue): Fault[] =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.slice(0, maxErrors).map((key) => ({ path: [...issue.path, key], message }))
        : [{ path: issue.path, message: issue.message }],
    );
  return { faults };
}

const compiledSchemas = new WeakMap<z.ZodType, z.ZodType>();

/** Compiles a schema on first use. This takes some milliseconds and halves the time of each validation. */
function compiled<S extends z.ZodType>(schema: S): S {
  const cached = compiledSchemas.get(schema);
  if (cached) return cached as S;
  const result = z.compile(schema);
  compiledSchemas.set(schema, result);
  return result;
}

/**
 * Returns the parsed value. Throws `validation_failed` if the value is invalid. `part` is the path of an error about
 * the whole value: `body`, `query` or `path`.
 */
export function validate<S extends z.ZodType>(schema: S, value: unknown, part: string): z.output<S> {
  const checked = check(compiled(schema), value, part === 'query' ? 'parameter' : 'field');
  if ('data' in checked) return checked.data;
  const errors: Errors = Object.create(null);
  for (const { path, message } of checked.faults) {
    const name = path.length === 0 ? part : path.map(String).join('.');
    errors[name] = [...(errors[name] ?? []), message];
  }
  throw fail('validation_failed', { errors });
}

const nouns: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  int: 'an integer',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  boolean: 'true or false',
};

/** A repeated query parameter arrives as a list. */
function parameterMessage(issue: Issue): string {
  const single = issue.code === 'invalid_type' || issue.code === 'invalid_value';
  return single && Array.isArray(issue.input) ? 'must not be repeated' : fieldMessage(issue);
}

/** Messages for issues whose schema defines none. */
function fieldMessage(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is required';
      return `must be ${nouns[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return issue.input === undefined ? 'is required' : `must be one of ${issue.values.join(', ')}`;
    case 'too_big':
      return issue.origin === 'number' || issue.origin === 'int'
        ? `must be at most ${issue.maximum}`
        : `must have at most ${counted(issue.maximum, issue.origin)}`;
    case 'too_small':
      return issue.origin === 'number' || issue.origin === 'int'
        ? `must be at least ${issue.minimum}`
        : `must have at least ${counted(issue.minimum, issue.origin)}`;
    case 'invalid_key':
      return `has an invalid name: it ${issue.issues[0]?.message ?? 'is not valid'}`;
    default:
      return 'is not valid';
  }
}

function counted(count: number | bigint, origin: string): string {
  const [one, many] = origin === 'array' ? ['entry', 'entries'] : ['character', 'characters'];
  return `${count} ${count === 1 ? one : many}`;
}
