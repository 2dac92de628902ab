/**
 * Masks: Liquid outputs in a string, object or array, such as `{{ data.number | reveal_last: 4 }}`. They are
 * rendered once, when a Token is written. No tags, no operators, no filters but ours, and limits on everything.
 */
import { Context, Liquid, type Template } from 'liquidjs';
import { z } from 'zod';
import { isWellFormed, isWithin } from './common-fields.ts';

const largestMask = 4096;
const deepest = 8;
/** Characters that all filters of a mask may go through. */
const mostMemory = 200_000;
const largestResult = 65_536;
/** How often what a mask shows is searched for a part of the data. A mask has room for fewer outputs than this. */
const mostSearches = 512;

/** Like data, it comes out of a parser: that it is JSON need not be looked at. */
export const Mask = z
  .unknown()
  .refine(isTextOrObject, { error: 'must be a string, an object or a list', abort: true })
  .refine((mask) => isWithin(JSON.stringify(mask), 0, largestMask), {
    error: `must have at most ${largestMask} characters as JSON`,
    abort: true,
  })
  .refine((mask) => depth(mask) <= deepest, `must not be nested deeper than ${deepest} levels`)
  .refine(isWellFormed, 'must be well-formed Unicode throughout')
  .meta({
    type: ['string', 'object', 'array'],
    description: 'What others see of the data: Liquid outputs in a string, object or list.',
  });
export type Mask = z.infer<typeof Mask>;

function isTextOrObject(mask: unknown): boolean {
  return typeof mask === 'string' || (typeof mask === 'object' && mask !== null);
}

function depth(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depth));
}

/** The mask cannot be used with this data; the message says why, without a word of the data. */
export class MaskError extends Error {}

const engine = new Liquid({
  ownPropertyOnly: true,
  strictFilters: true,
  strictVariables: true,
  operators: {},
  outputEscape: single,
});
Object.assign(engine, { tags: Object.create(null), filters: Object.create(null) });

type FilterThis = { context: { memoryLimit: { use(count: number): void } } };

/** Lists and objects have no characters of their own, and could be long to put into words. */
function single(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value ?? '');
  throw new MaskError('it shows a list or an object as a whole: name a part of it');
}

function charactersOf({ context }: FilterThis, value: unknown): string[] {
  const text = single(value);
  context.memoryLimit.use(text.length);
  return [...text];
}

/** Replaces every character but those shown by one other. */
function hidden(characters: string[], hider: unknown, from: number, to: number): string {
  const [one, ...more] = String(hider);
  if (one === undefined || more.length > 0)
    throw new MaskError('what hides a character must be one character');
  return characters.map((each, index) => (index >= from && index < to ? each : one)).join('');
}

function whole(count: unknown): number {
  if (Number.isSafeInteger(count) && (count as number) >= 0) return count as number;
  throw new MaskError('how many characters to show must be a whole number');
}

const filters = {
  reveal_last(this: FilterThis, value: unknown, count: unknown = 0, hider: unknown = 'X') {
    const characters = charactersOf(this, value);
    return hidden(characters, hider, characters.length - whole(count), characters.length);
  },
  reveal_first(this: FilterThis, value: unknown, count: unknown = 0, hider: unknown = 'X') {
    return hidden(charactersOf(this, value), hider, 0, whole(count));
  },
  hide(this: FilterThis, value: unknown, hider: unknown = 'X') {
    return hidden(charactersOf(this, value), hider, 0, 0);
  },
  last(this: FilterThis, value: unknown, count: unknown = 1) {
    const characters = charactersOf(this, value);
    return characters.slice(Math.max(0, characters.length - whole(count))).join('');
  },
  first(this: FilterThis, value: unknown, count: unknown = 1) {
    return charactersOf(this, value).slice(0, whole(count)).join('');
  },
};
for (const [name, filter] of Object.entries(filters)) engine.registerFilter(name, filter);

/**
 * `value | filter: argument, argument`, and nothing that Liquid would overlook: a comma in the wrong place or a
 * filter without a name would show the value as it is. Arguments and places in a list are written out: if they
 * came from the data, whoever may change a part of it could make the mask show another.
 */
const form = (() => {
  const name = String.raw`[\p{L}_][\p{L}\p{N}_-]*`;
  const below = String.raw`\.[\p{L}\p{N}_-]+`;
  const literal = String.raw`(?:"[^"\\]*"|'[^'\\]*'|-?\d+(?:\.\d+)?)`;
  const index = String.raw`\[\s*${literal}\s*\]`;
  const path = `${name}(?:${below}|${index})*`;
  const value = `(?:${literal}|${path})`;
  const filter = String.raw`\|\s*\w+\s*(?::\s*${literal}\s*(?:,\s*${literal}\s*)*)?`;
  return new RegExp(String.raw`^\{\{-?\s*${value}\s*(?:${filter})*-?\}\}$`, 'u');
})();

const malformedOutput = 'it is not a valid output, which has the form {{ data.name | filter: 4 }}';

/** Parsed templates; what they are rendered with is never kept. */
const parsed = new Map<string, Template[]>();
const mostParsed = 1000;

function parse(template: string): Template[] {
  const known = parsed.get(template);
  if (known) return known;
  if (parsed.size === mostParsed) parsed.clear();
  const made = engine.parse(template);
  const texts = made.map(({ token }) => token.getText());
  if (texts.some((text) => text.startsWith('{{') && !form.test(text))) throw new MaskError(malformedOutput);
  parsed.set(template, made);
  return made;
}

/**
 * The masked value of the data. Throws a MaskError if it does not render, takes too much or would show all of the
 * data. The error depends on the data, so only a caller that sees or sends all of the data may get it.
 */
export function renderMask(mask: Mask, data: unknown): unknown {
  const context = new Context({ data }, engine.options, { memoryLimit: mostMemory });
  let length = 0;

  function render(part: unknown): unknown {
    if (typeof part === 'string') return renderText(part);
    if (Array.isArray(part)) return part.map(render);
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, render(inner)]));
  }

  function renderText(template: string): string {
    let text = '';
    for (const piece of outcome(() => parse(template))) {
      const made = outcome(() => engine.renderSync([piece], context) as string);
      length += made.length;
      if (length > largestResult) throw new MaskError(`would give more than ${largestResult} characters`);
      text += made;
    }
    return text;
  }

  const masked = render(mask);
  if (showsAll(masked, data)) throw new MaskError('would show all of the data');
  return masked;
}

function outcome<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new MaskError(`does not render: ${cause(error as Error)}`);
  }
}

/** In our own words, since the library's may quote a value. */
function cause(error: Error & { originalError?: Error }): string {
  const original = error.originalError ?? error;
  if (original instanceof MaskError) return original.message;
  if (error.name === 'UndefinedVariableError') return 'it names something that the data does not have';
  if (original.message === 'memory alloc limit exceeded')
    return `its filters go through more than ${mostMemory} characters`;
  if (original.message.startsWith('tag "'))
    return 'only outputs are taken, such as {{ data | hide }}, and no tags';
  if (original.message.startsWith('undefined filter: '))
    return `the filters are ${Object.keys(filters).join(', ')}`;
  return malformedOutput;
}

/** No text has half a character in it, so none goes across this. */
const border = '\ud800';

/** Whether every part of the data stands whole somewhere in the masked value, be it in a name. Of nothing, none does. */
function showsAll(masked: unknown, data: unknown): boolean {
  const pieces = new Set(names(masked));
  everyLeaf(masked, (leaf) => pieces.add(leaf) !== undefined);
  const shown = [...pieces].join(border);
  let parts = 0;
  let searches = 0;
  const isShown = (leaf: string) => {
    parts++;
    if (pieces.has(leaf)) return true;
    if (!shown.includes(leaf)) return false;
    if (++searches > mostSearches)
      throw new MaskError('shows too many parts of the data to tell whether it shows all of it');
    pieces.add(leaf);
    return true;
  };
  return everyLeaf(data, isShown) && parts > 0;
}

/** Whether the test holds for every text, number and so on of which the value is made, but for empty ones. */
function everyLeaf(value: unknown, test: (leaf: string) => boolean): boolean {
  if (typeof value !== 'object') return value === '' || test(String(value));
  if (value === null) return true;
  const parts = Array.isArray(value) ? value : Object.values(value);
  return parts.every((part) => everyLeaf(part, test));
}

/** The names of all fields, however deep. */
function names(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(names);
  return Object.entries(value).flatMap(([name, part]) => [name, ...names(part)]);
}
