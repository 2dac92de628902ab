/** Renders parameters and the fields of bodies as nested lists. */

import { type Html, html, inline } from './html.ts';
import { type Schema, withoutNull } from './json-schema.ts';

export type Schemas = Record<string, Schema>;
/** Requests mark required fields, responses mark optional ones. */
type Direction = 'request' | 'response';

interface Field {
  readonly name: string;
  readonly schema: Schema;
  readonly description?: string | undefined;
  readonly required: boolean;
}

export function fieldTree(
  schema: Schema,
  schemas: Schemas,
  direction: Direction,
  above: string[] = [],
): Html {
  const { properties = {}, required = [] } = resolve(schema, schemas);
  const fields = Object.entries(properties).map(([name, field]) => ({
    name,
    schema: withoutNull(field),
    description: field.description,
    required: required.includes(name),
  }));
  const path = nameOf(schema) === undefined ? above : [...above, nameOf(schema) as string];
  const writable = fields.filter((field) => !field.schema.readOnly);
  const readOnly = fields.filter((field) => field.schema.readOnly);
  return html`${tree(writable, schemas, direction, path)}${readOnly.length > 0 && readOnlyFields(readOnly, schemas, direction, path)}`;
}

function readOnlyFields(fields: Field[], schemas: Schemas, direction: Direction, above: string[]): Html {
  const names = fields.map(({ name }) => name).join(', ');
  return html`<details class="nested"><summary>Read-only: ${names}</summary>${tree(fields, schemas, direction, above)}</details>`;
}

/** Renders fields, or parameters, which have the same properties. */
export function tree(
  fields: readonly Field[],
  schemas: Schemas,
  direction: Direction,
  above: string[] = [],
): Html {
  return html`<ul class="fields">${fields.map((field) => row(field, schemas, direction, above))}</ul>`;
}

function row(
  { name, schema, description, required }: Field,
  schemas: Schemas,
  direction: Direction,
  above: string[],
): Html {
  const resolved = resolve(schema, schemas);
  const { enum: values } = resolved;
  const limits = limitsOf(resolved);
  const requiredMark = direction === 'request' && required && html` <span class="mark">required</span>`;
  const optionalMark =
    direction === 'response' && !required && html` <span class="mark quiet">optional</span>`;
  return html`<li>
<p class="field"><code>${name}</code> <span class="type">${typeOf(schema)}</span>${requiredMark}${optionalMark}</p>
${description !== undefined && html`<p>${inline(description)}</p>`}
${values && html`<p class="limits">One of ${inline(values.map((value) => `\`${value}\``).join(', '))}</p>`}
${limits.length > 0 && html`<p class="limits">${inline(limits.join(' · '))}</p>`}
${fieldDetails(schema, schemas, direction, above)}
</li>`;
}

/** Renders nested fields as collapsed lists. Skips schemas that a parent already shows, so that recursion ends. */
export function fieldDetails(
  schema: Schema,
  schemas: Schemas,
  direction: Direction,
  above: string[] = [],
): Html[] {
  return shapesOf(schema, schemas)
    .filter((shape) => !above.includes(nameOf(shape) ?? ''))
    .map(
      (shape) => html`<details class="nested"><summary>Fields of ${nameOf(shape) ?? 'the object'}</summary>
${fieldTree(shape, schemas, direction, above)}</details>`,
    );
}

/** The object schemas that a value, or an item of a list, can have. */
function shapesOf(schema: Schema, schemas: Schemas, seen: readonly Schema[] = []): Schema[] {
  const whole = resolve(schema, schemas);
  if (seen.includes(whole)) return [];
  if (Object.keys(whole.properties ?? {}).length > 0) return [schema];
  const parts = whole.anyOf ?? [partOf(whole)].filter((part) => part !== undefined);
  return parts.flatMap((part) => shapesOf(part, schemas, [...seen, whole]));
}

function partOf(schema: Schema): Schema | undefined {
  if (schema.items) return schema.items;
  return typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
}

function resolve(schema: Schema, schemas: Schemas): Schema {
  const name = nameOf(schema);
  return (name !== undefined && schemas[name]) || schema;
}

function nameOf(schema: Schema): string | undefined {
  return schema.$ref?.slice(schema.$ref.lastIndexOf('/') + 1);
}

function typeOf(schema: Schema): string {
  const name = nameOf(schema);
  if (name !== undefined) return name;
  if (schema.anyOf) return schema.anyOf.map((option) => typeOf(option)).join(' or ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const part = partOf(schema);
  if (schema.type === 'array') return part ? `list of ${typeOf(part)}` : 'list';
  if (schema.type === 'object' && part && !schema.properties) return `map of ${typeOf(part)}`;
  return schema.format ?? [schema.type ?? 'any JSON'].flat().join(' or ');
}

function limitsOf(schema: Schema): string[] {
  const limits = [
    range(schema.minLength, schema.maxLength, 'character'),
    range(schema.minimum, schema.maximum),
    range(schema.minItems, schema.maxItems, 'item'),
    schema.pattern !== undefined && `Pattern \`${schema.pattern}\``,
    schema.default !== undefined && `Default \`${JSON.stringify(schema.default)}\``,
  ];
  return limits.filter((limit) => limit !== false);
}

function range(min: number | undefined, max: number | undefined, noun?: string): string | false {
  if (min === undefined && max === undefined) return false;
  const unit = noun === undefined ? '' : ` ${noun}${(max ?? min) === 1 ? '' : 's'}`;
  const [from, to] = [min?.toLocaleString('en'), max?.toLocaleString('en')];
  if (from === undefined) return `At most ${to}${unit}`;
  return to === undefined ? `At least ${from}${unit}` : `${from} to ${to}${unit}`;
}
