/**
 * Masks: Liquid outputs in a string, object or array, such as `{{ data.number | reveal_last: 4 }}`. They are
 * rendered once, when a Token is written. No tags, no filters but ours, and limits on everything.
 */
import { Liquid, type Template } from 'liquidjs';
import { z } from 'zod';
import { isWellFormed } from './field.ts';

const largestMask = 4096;
const deepest = 8;
const longestRender = 50;
const mostMemory = 200_000;
const largestResult = 65_536;

export const Mask = z
  .json()
  .refine(
    (mask) => typeof mask === 'string' || typeof mask === 'object',
    'must be a string, an object or a list',
  )
  .refine(isWellFormed, 'must be well-formed Unicode throughout')
  .refine((mask) => JSON.stringify(mask).length <= largestMask, `must have at most ${largestMask} characters`)
  .refine((mask) => depth(mask) <= deepest, `must not be nested deeper than ${deepest} levels`)
  .describe('What others see of the data: Liquid outputs in a string, object or list.');
export type Mask = z.infer<typeof Mask>;

/** The mask cannot be used with this data; the message says why, without a word of the data. */
export class MaskError extends Error {}

const engine = new Liquid({
  ownPropertyOnly: true,
  strictFilters: true,
  strictVariables: true,
  parseLimit: largestMask,
  renderLimit: longestRender,
  memoryLimit: mostMemory,
});
Object.assign(engine, { tags: Object.create(null), filters: Object.create(null) });

type FilterThis = { context: { memoryLimit: { use(count: number): void } } };
type Shown = (index: number, length: number, count: number) => boolean;

/** Replaces every character that is not shown by one other. */
function hiding(shown: Shown) {
  return function (this: FilterThis, value: unknown, count: unknown = 0, hider: unknown = 'X'): string {
    const characters = [...String(value ?? '')];
    this.context.memoryLimit.use(characters.length);
    if ([...String(hider)].length !== 1)
      throw new Error('the character to hide behind must be one character');
    return characters
      .map((one, index) => (shown(index, characters.length, Number(count)) ? one : String(hider)))
      .join('');
  };
}

const filters = {
  reveal_last: hiding((index, length, count) => index >= length - count),
  reveal_first: hiding((index, _, count) => index < count),
  hide: function (this: FilterThis, value: unknown, hider?: unknown): string {
    return hiding(() => false).call(this, value, 0, hider);
  },
  last: (value: unknown, count = 1) => [...String(value ?? '')].slice(-Number(count)).join(''),
  first: (value: unknown, count = 1) => [...String(value ?? '')].slice(0, Number(count)).join(''),
};
for (const [name, filter] of Object.entries(filters)) engine.registerFilter(name, filter);

/** Parsed templates; what they are rendered with is never kept. */
const parsed = new Map<string, Template[]>();
const mostParsed = 1000;

/** The masked value of the data. Refuses what does not render, takes too much, or would show all of the data. */
export function renderMask(mask: Mask, data: unknown): unknown {
  const deadline = performance.now() + longestRender;
  const masked = render(mask, data, deadline);
  if (JSON.stringify(masked).length > largestResult)
    throw new MaskError(`would give more than ${largestResult} characters`);
  if (showsAll(masked, data)) throw new MaskError('would show all of the data');
  return masked;
}

function render(mask: unknown, data: unknown, deadline: number): unknown {
  if (performance.now() > deadline) throw new MaskError('takes too long to render');
  if (typeof mask === 'string') return renderText(mask, data);
  if (Array.isArray(mask)) return mask.map((part) => render(part, data, deadline));
  if (typeof mask !== 'object' || mask === null) return mask;
  return Object.fromEntries(Object.entries(mask).map(([name, part]) => [name, render(part, data, deadline)]));
}

function renderText(template: string, data: unknown): string {
  try {
    return engine.renderSync(parse(template), { data });
  } catch (error) {
    throw new MaskError(`does not render: ${cause(error as Error)}`);
  }
}

function parse(template: string): Template[] {
  const known = parsed.get(template);
  if (known) return known;
  if (parsed.size >= mostParsed) parsed.clear();
  const made = engine.parse(template);
  parsed.set(template, made);
  return made;
}

/** In our own words, since the library's may quote a value. */
function cause({ message }: Error): string {
  if (/limit exceeded/.test(message)) return 'it takes too much time or memory';
  if (/undefined variable/.test(message)) return 'it names something that the data does not have';
  if (/^tag /.test(message)) return 'only outputs are taken, such as {{ data | hide }}, and no tags';
  if (/undefined filter/.test(message)) return `the filters are ${Object.keys(filters).join(', ')}`;
  if (/one character/.test(message)) return 'what hides a character must be one character';
  return 'it is not a valid Liquid output';
}

/** Every piece of the data stands whole somewhere in the masked value. */
function showsAll(masked: unknown, data: unknown): boolean {
  const shown = [...leaves(masked)].map(String);
  const secret = [...leaves(data)].map(String).filter((leaf) => leaf !== '');
  if (secret.length === 0) return JSON.stringify(masked) === JSON.stringify(data);
  return secret.every((leaf) => shown.some((text) => text.includes(leaf)));
}

function* leaves(value: unknown): Generator<unknown> {
  if (typeof value !== 'object' || value === null) yield value ?? '';
  else for (const part of Object.values(value)) yield* leaves(part);
}

function depth(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depth));
}
