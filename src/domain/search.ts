/** Search for tokens by exact value: the templates of a token, and the values that a request compares with them. */
import { z } from 'zod';
import { hasLength, mapOf, text } from './common-fields.ts';
import { isOneOutput, rendererOf } from './mask.ts';
import { normalized } from './text-search.ts';

const maxNames = 5;
const maxTemplateLength = 500;
const maxValueLength = 1000;

export const SearchName = z
  .string()
  .regex(
    /^[a-z][a-z0-9_-]{0,49}$/,
    'must have 1 to 50 lower-case letters, digits, - and _, and start with a letter',
  );

/** A text of the template itself would let a caller store a value that is not in the data. */
const SearchTemplate = text(1, maxTemplateLength).refine(
  isOneOutput,
  'must be one output of the data without other text, such as {{ data.number }}',
);

export const SearchTemplates = mapOf(maxNames, SearchName, SearchTemplate).meta({
  type: 'object',
  additionalProperties: { type: 'string', minLength: 1, maxLength: maxTemplateLength },
  maxProperties: maxNames,
  examples: [{ pan: '{{ data.number }}' }],
  description: `Up to ${maxNames} names, each with a template: one Liquid output of the data without other text, such as \`{{ data.number }}\`. \`POST /tokens/search\` finds the token by the rendered values. Of these, only a keyed hash is stored.`,
});
export type SearchTemplates = z.infer<typeof SearchTemplates>;

/** Rendered or requested values by name, normalized. */
export type SearchValues = Readonly<Record<string, string>>;

/** Compatibility forms, such as full-width digits, and white space around the value do not matter. */
function comparable(value: string): string {
  return normalized(value, 'NFKC').trim();
}

/** Not `text`: the value is not stored, so it may contain a key. */
const SearchValue = z
  .string()
  .refine((value) => value.isWellFormed(), { error: 'must be well-formed Unicode', abort: true })
  .refine((value) => hasLength(value, 0, maxValueLength), {
    error: `must have at most ${maxValueLength} characters`,
    abort: true,
  })
  .transform(comparable)
  .refine((value) => value !== '', 'must not be empty or only white space');

export const SearchEquals = mapOf(maxNames, SearchName, SearchValue)
  .refine((values) => Object.keys(values).length > 0, 'must have at least one entry')
  .meta({
    type: 'object',
    additionalProperties: { type: 'string', minLength: 1, maxLength: maxValueLength },
    minProperties: 1,
    maxProperties: maxNames,
    description:
      'Values by name, as the `search` templates of the tokens render them. A token must have all of them. Unicode is normalized (NFKC), and white space around a value is ignored.',
  });

/**
 * The values of the templates that render to something. `orReject` gets the name of a template and the function that
 * renders it, which throws a MaskError if it cannot be rendered.
 */
export function renderSearch(
  templates: SearchTemplates,
  data: unknown,
  orReject: (name: string, render: () => string) => string = (_, render) => render(),
): SearchValues {
  const rendered = Object.entries(templates).map(([name, template]) => {
    const { renderText } = rendererOf(data, maxValueLength);
    return [name, comparable(orReject(name, () => renderText(template)))];
  });
  return Object.fromEntries(rendered.filter(([, value]) => value !== ''));
}
