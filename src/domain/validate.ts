/** Checks input against its schema, and says in plain words what is wrong where. */
import { z } from 'zod';
import { type Errors, fail, maxErrors } from './error.ts';

type Issue = Parameters<NonNullable<z.core.ParseContext<z.core.$ZodIssue>['error']>>[0];

export interface Fault {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** What the schema makes of the value, or what is wrong with it, as far as a response has room for it. */
export function check<S extends z.ZodType>(
  schema: S,
  value: unknown,
  part: 'field' | 'parameter' = 'field',
): { readonly data: z.output<S> } | { readonly faults: readonly Fault[] } {
  const result = schema.safeParse(value, { error: part === 'field' ? sentence : ofParameter });
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

const known = new WeakMap<z.ZodType, z.ZodType>();

/** The same schema made to run often, when it is first used: some milliseconds once, and half the time ever after. */
function compiled<S extends z.ZodType>(schema: S): S {
  const before = known.get(schema);
  if (before) return before as S;
  const made = z.compile(schema);
  known.set(schema, made);
  return made;
}

/** `at` names the place when the value as a whole is wrong. */
export function validate<S extends z.ZodType>(schema: S, value: unknown, at: string): z.output<S> {
  const checked = check(compiled(schema), value, at === 'query' ? 'parameter' : 'field');
  if ('data' in checked) return checked.data;
  const errors: Errors = Object.create(null);
  for (const { path, message } of checked.faults) {
    const name = path.length === 0 ? at : path.map(String).join('.');
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

/** A parameter is a list when it is given more than once. */
function ofParameter(issue: Issue): string {
  const single = issue.code === 'invalid_type' || issue.code === 'invalid_value';
  return single && Array.isArray(issue.input) ? 'must be given once' : sentence(issue);
}

/** For issues whose schema has no sentence of its own. */
function sentence(issue: Issue): string {
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
      return `has a name that ${issue.issues[0]?.message ?? 'is not valid'}`;
    default:
      return 'is not valid';
  }
}

function counted(count: number | bigint, origin: string): string {
  const [one, many] = origin === 'array' ? ['entry', 'entries'] : ['character', 'characters'];
  return `${count} ${count === 1 ? one : many}`;
}
