/**
 * Masks: Liquid outputs in a string, object or array, such as `{{ data.number | reveal_last: 4 }}`. A mask is rendered
 * when the token is written. Tags, operators and the standard filters are disabled; size, depth and memory are limited.
 */
import { Context, Liquid, type Template } from 'liquidjs';
import { z } from 'zod';
import { hasLength, isWellFormed } from './common-fields.ts';
import { bytesOf, includesText } from './text-search.ts';

const surrogate = /[\ud800-\udfff]/;

/** To copy the characters into a list would take 80 ms for 1 MiB. */
function lengthOf(text: string): number {
  if (!surrogate.test(text)) return text.length;
  let length = 0;
  for (let at = 0; at < text.length; at++) if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00) length++;
  return length;
}

/** Like `slice` of strings, with non-negative positions. */
function cut(text: string, from: number, to: number): string {
  return surrogate.test(text) ? text.slice(indexOf(text, from), indexOf(text, to)) : text.slice(from, to);
}

/** The index in UTF-16 of a character, or the end of the text. */
function indexOf(text: string, character: number): number {
  let at = 0;
  for (let left = character; left > 0 && at < text.length; left--)
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}

/**
 * A value and the text that the filters of an output have made of it so far. Positions count Unicode code points. Text
 * without surrogates is cut by its UTF-16 index, which takes a tenth of the time.
 */
export class Excerpt {
  /** The value before all filters. */
  readonly value: string;
  readonly text: string;
  readonly length: number;
  /**
   * The part of `text` that is unchanged: for `from <= i < to`, character `i` is character `i + offset` of `value`.
   * All other characters are replacements.
   */
  readonly from: number;
  readonly to: number;
  readonly offset: number;

  private constructor(value: string, text: string, from: number, to: number, offset: number) {
    this.value = value;
    this.text = text;
    this.length = lengthOf(text);
    this.from = from;
    this.to = Math.max(from, to);
    this.offset = offset;
  }

  static of(value: string): Excerpt {
    return new Excerpt(value, value, 0, lengthOf(value), 0);
  }

  /** Replaces all characters outside `from` to `to` (exclusive). */
  hideExcept(from: number, to: number, replacement: string): Excerpt {
    const start = Math.max(from, 0);
    const end = Math.max(Math.min(to, this.length), start);
    const shown = cut(this.text, start, end);
    const text = replacement.repeat(start) + shown + replacement.repeat(this.length - end);
    return new Excerpt(this.value, text, Math.max(this.from, from), Math.min(this.to, to), this.offset);
  }

  /** Removes all characters outside `from` to `to` (exclusive). */
  slice(from: number, to: number): Excerpt {
    const [start, end] = [Math.max(this.from, from) - from, Math.min(this.to, to) - from];
    return new Excerpt(this.value, cut(this.text, from, to), start, end, this.offset + from);
  }

  toString(): string {
    return this.text;
  }
}

/** Which characters of each value are shown by at least one output. */
export class ShownParts {
  readonly #parts = new Map<string, { readonly from: number; readonly to: number }[]>();

  add({ value, from, to, offset }: Excerpt): void {
    const parts = this.#parts.get(value) ?? [];
    parts.push({ from: from + offset, to: to + offset });
    this.#parts.set(value, parts);
  }

  /** Whether the outputs, taken together, show every character of the value. */
  includeAllOf(value: string): boolean {
    const parts = this.#parts.get(value)?.toSorted((a, b) => a.from - b.from);
    if (!parts) return false;
    let end = 0;
    for (const { from, to } of parts) {
      if (from > end) return false;
      end = Math.max(end, to);
    }
    return end >= lengthOf(value);
  }
}

const maxMaskLength = 4096;
const maxDepth = 8;
/** Total number of characters that the filters of a mask may process. */
const maxFilteredCharacters = 100_000;
const maxResultLength = 65_536;
const maxOutputs = 100;
/** Bytes that the searches of `revealsAll` may read. */
const maxSearched = 4_194_304;
/** The time of a search besides reading, as a number of bytes. */
const searchOverhead = 500;

/** The value comes from the JSON parser, so its structure is not checked again. */
export const Mask = z
  .unknown()
  .refine((mask): boolean => typeof mask === 'string' || (typeof mask === 'object' && mask !== null), {
    error: 'must be a string, an object or a list',
    abort: true,
  })
  .refine((mask) => hasLength(JSON.stringify(mask), 0, maxMaskLength), {
    error: `must have at most ${maxMaskLength} characters as JSON`,
    abort: true,
  })
  .refine(
    (mask) => JSON.stringify(mask).split('{{').length - 1 <= maxOutputs,
    `must have at most ${maxOutputs} outputs`,
  )
  .refine((mask) => depth(mask) <= maxDepth, `must not be nested deeper than ${maxDepth} levels`)
  .refine(isWellFormed, 'must be well-formed Unicode throughout')
  .meta({
    type: ['string', 'object', 'array'],
    items: {},
    additionalProperties: true,
    description:
      'Template of the masked value: Liquid outputs in a string, object or list, such as `{{ data.number | reveal_last: 4 }}`. Callers with the transform `mask` get the rendered value instead of the data.',
  });
export type Mask = z.infer<typeof Mask>;

function depth(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depth));
}

/** The mask cannot be used with this data. The message does not contain any of the data. */
export class MaskError extends Error {}

const engine = new Liquid({
  ownPropertyOnly: true,
  strictFilters: true,
  strictVariables: true,
  operators: {},
  outputEscape: output,
  // Otherwise Liquid asks Intl, which takes 15 ms at startup.
  locale: 'en',
});
Object.assign(engine, { tags: Object.create(null), filters: Object.create(null) });

type FilterThis = { context: Context };

/** The parts of the data that each rendering has shown so far. */
const shownBy = new WeakMap<Context, ShownParts>();

function output(this: FilterThis, value: unknown): string {
  const excerpt = value instanceof Excerpt ? value : Excerpt.of(scalarText(value));
  shownBy.get(this.context)?.add(excerpt);
  return excerpt.toString();
}

/** Rejects lists and objects, which have no useful text form. */
function scalarText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value ?? '');
  throw new MaskError('it outputs a whole list or object: output one of its fields');
}

function excerptOf({ context }: FilterThis, value: unknown): Excerpt {
  const excerpt = value instanceof Excerpt ? value : Excerpt.of(scalarText(value));
  context.memoryLimit.use(excerpt.length);
  return excerpt;
}

function oneCharacter(replacement: unknown): string {
  const [one, ...more] = String(replacement);
  if (one === undefined || more.length > 0) throw new MaskError('the replacement must be one character');
  return one;
}

function wholeNumber(count: unknown): number {
  if (Number.isSafeInteger(count) && (count as number) >= 0) return count as number;
  throw new MaskError('the number of characters must be a whole number');
}

const filters = {
  reveal_last(this: FilterThis, value: unknown, count: unknown = 0, replacement: unknown = 'X') {
    const excerpt = excerptOf(this, value);
    const { length } = excerpt;
    return excerpt.hideExcept(length - wholeNumber(count), length, oneCharacter(replacement));
  },
  reveal_first(this: FilterThis, value: unknown, count: unknown = 0, replacement: unknown = 'X') {
    return excerptOf(this, value).hideExcept(0, wholeNumber(count), oneCharacter(replacement));
  },
  hide(this: FilterThis, value: unknown, replacement: unknown = 'X') {
    return excerptOf(this, value).hideExcept(0, 0, oneCharacter(replacement));
  },
  last(this: FilterThis, value: unknown, count: unknown = 1) {
    const excerpt = excerptOf(this, value);
    const { length } = excerpt;
    return excerpt.slice(Math.max(0, length - wholeNumber(count)), length);
  },
  first(this: FilterThis, value: unknown, count: unknown = 1) {
    return excerptOf(this, value).slice(0, wholeNumber(count));
  },
};
for (const [name, filter] of Object.entries(filters)) engine.registerFilter(name, filter);

/**
 * The syntax of an output: `value | filter: argument, argument`. Liquid ignores some syntax errors, such as a
 * misplaced comma or a filter without a name, and would output the plain value. This pattern rejects them. Arguments
 * and list indexes must be literals. If they came from the data, a caller who can change one field could reveal
 * another.
 */
const outputSyntax = (() => {
  const name = String.raw`[\p{L}_][\p{L}\p{N}_-]*`;
  const below = String.raw`\.[\p{L}\p{N}_-]+`;
  const literal = String.raw`(?:"[^"\\]*"|'[^'\\]*'|-?\d+(?:\.\d+)?)`;
  const index = String.raw`\[\s*${literal}\s*\]`;
  const path = `${name}(?:${below}|${index})*`;
  const value = `(?:${literal}|${path})`;
  const filter = String.raw`\|\s*\w+\s*(?::\s*${literal}\s*(?:,\s*${literal}\s*)*)?`;
  return new RegExp(String.raw`^\{\{-?\s*${value}\s*(?:${filter})*-?\}\}$`, 'u');
})();

const malformedOutput = 'it is not a valid output: use the form {{ data.name | filter: 4 }}';

/** Cache of parsed templates. It contains no data. A parsed template takes up to 130 times the memory of its text. */
const parsed = new Map<string, Template[]>();
/** Characters of all cached templates. */
const maxParsed = 65_536;
let parsedLength = 0;

function parse(template: string): Template[] {
  const cached = parsed.get(template);
  if (cached) return cached;
  const templates = engine.parse(template);
  const texts = templates.map(({ token }) => token.getText());
  if (texts.some((text) => text.startsWith('{{') && !outputSyntax.test(text)))
    throw new MaskError(malformedOutput);
  if (parsedLength + template.length > maxParsed) {
    parsed.clear();
    parsedLength = 0;
  }
  parsed.set(template, templates);
  parsedLength += template.length;
  return templates;
}

/**
 * Returns the masked value. Throws a MaskError if the mask does not render, exceeds a limit or would reveal all of the
 * data. The error depends on the data: return it only to a caller that may see all of the data or has sent it.
 */
export function renderMask(mask: Mask, data: unknown): unknown {
  const { renderText, shown } = rendererOf(data, maxResultLength);

  function render(part: unknown): unknown {
    if (typeof part === 'string') return renderText(part);
    if (Array.isArray(part)) return part.map(render);
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, render(inner)]));
  }

  const masked = render(mask);
  if (revealsAll(masked, shown, data))
    throw new MaskError(
      'must not reveal all of the data: at least one character must stay hidden in all outputs',
    );
  return masked;
}

/** The name of the variable of an output, without a hyphen that belongs to the end of the output. */
const variable = /^\{\{-?\s*([\p{L}_](?:[\p{L}\p{N}_-]*[\p{L}\p{N}_])?)/u;

/** The first error in a mask or search template that does not depend on the data. Undefined without errors. */
export function templateProblem(template: unknown): string | undefined {
  if (typeof template === 'object' && template !== null)
    return Object.values(template).map(templateProblem).find(Boolean);
  if (typeof template !== 'string') return undefined;
  try {
    const parts = orMaskError(() => parse(template));
    const names = parts.map(({ token }) => variable.exec(token.getText())?.[1]);
    const unknown = names.find((name) => name !== undefined && name !== 'data');
    if (unknown !== undefined) return `cannot be rendered: \`${unknown}\` does not exist`;
    // Without data, so that only the arguments of filters can be wrong.
    const context = new Context({}, { ...engine.options, strictVariables: false });
    orMaskError(() => engine.renderSync(parts, context));
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Whether the template is only one output of a variable. Also true if it cannot be parsed. */
export function isOneOutput(template: string): boolean {
  try {
    const [first, ...others] = parse(template).map(({ token }) => token.getText());
    return others.length === 0 && variable.test(first ?? '');
  } catch {
    return true;
  }
}

/** Renders the outputs of texts. Throws a MaskError if they render to more than `maxLength` characters together. */
export function rendererOf(data: unknown, maxLength: number) {
  const context = new Context({ data }, engine.options, { memoryLimit: maxFilteredCharacters });
  const shown = new ShownParts();
  shownBy.set(context, shown);
  let length = 0;
  const renderText = (template: string): string => {
    let text = '';
    for (const part of orMaskError(() => parse(template))) {
      const rendered = orMaskError(() => engine.renderSync([part], context) as string);
      length += lengthOf(rendered);
      if (length > maxLength) throw new MaskError(`must not render to more than ${maxLength} characters`);
      text += rendered;
    }
    return text;
  };
  return { renderText, shown };
}

function orMaskError<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new MaskError(`cannot be rendered: ${cause(error as Error)}`);
  }
}

/** Does not repeat messages of Liquid, because they may quote data. */
function cause(error: Error & { originalError?: Error & { variableName?: string } }): string {
  const original: NonNullable<typeof error.originalError> = error.originalError ?? error;
  if (original instanceof MaskError) return original.message;
  // The name is part of the mask: `outputSyntax` allows only literals in paths.
  if (error.name === 'UndefinedVariableError') return `\`${original.variableName}\` does not exist`;
  if (original.message === 'memory alloc limit exceeded')
    return `its filters process more than ${maxFilteredCharacters} characters`;
  if (original.message.startsWith('tag "'))
    return 'tags are not supported: use outputs such as {{ data | hide }}';
  if (original.message.startsWith('undefined filter: '))
    return `unknown filter: use one of ${Object.keys(filters).join(', ')}`;
  return malformedOutput;
}

/**
 * Whether every string, number and boolean of the data occurs in the masked value or its field names, or is shown by
 * several outputs together. False for empty data.
 */
function revealsAll(masked: unknown, shown: ShownParts, data: unknown): boolean {
  const pieces = new Set(fieldNames(masked));
  everyLeaf(masked, (leaf) => pieces.add(leaf) !== undefined);
  const output = bytesOf(pieces);
  let leaves = 0;
  let searched = 0;
  const isRevealed = (leaf: string) => {
    leaves++;
    if (pieces.has(leaf)) return true;
    if (!shown.includeAllOf(leaf)) {
      searched += output.length + searchOverhead;
      if (searched > maxSearched) throw new MaskError('reveals too many parts of the data');
      if (!includesText(output, leaf)) return false;
    }
    pieces.add(leaf);
    return true;
  };
  return everyLeaf(data, isRevealed) && leaves > 0;
}

/** Whether the test passes for every string, number and boolean in the value. Skips empty strings and null. */
function everyLeaf(value: unknown, test: (leaf: string) => boolean): boolean {
  if (typeof value !== 'object') return value === '' || test(String(value));
  if (value === null) return true;
  const parts = Array.isArray(value) ? value : Object.values(value);
  return parts.every((part) => everyLeaf(part, test));
}

function fieldNames(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(fieldNames);
  return Object.entries(value).flatMap(([name, part]) => [name, ...fieldNames(part)]);
}
