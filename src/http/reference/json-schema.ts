/** Zod schemas as JSON Schema, as far as requests and replies need it. */
import { z } from 'zod';

export interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  examples?: unknown[];
  readOnly?: boolean;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  minProperties?: number;
  maxProperties?: number;
  additionalProperties?: boolean | Schema;
  propertyNames?: Schema;
  anyOf?: Schema[];
}

/** What is sent in the shape of this schema; its named parts are put into `components`. */
export function jsonSchema(schema: z.ZodType, components: Record<string, Schema>): Schema {
  const { $schema, $defs, ...json } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: keepMeta,
  });
  for (const [name, part] of Object.entries($defs ?? {})) {
    if (!name.startsWith(unnamed)) components[name] ??= tidy(part as Schema);
  }
  return tidy(json as Schema);
}

/**
 * A schema whose meta names a `type` has said all there is to say: how the text of a query is read does not
 * belong to the document. Zod also leaves out the default and the examples of whatever it transforms.
 */
function keepMeta({
  zodSchema,
  jsonSchema,
}: {
  zodSchema: z.core.$ZodType;
  jsonSchema: z.core.JSONSchema.BaseSchema;
}): void {
  const { id, ...meta } = z.globalRegistry.get(zodSchema) ?? {};
  if (meta.type !== undefined) {
    for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
    Object.assign(jsonSchema, meta);
  }
  if (meta.default !== undefined) jsonSchema.default = meta.default as typeof jsonSchema.default;
  if (Array.isArray(meta.examples)) jsonSchema.examples = meta.examples;
}

/** What zod calls a schema that holds itself and has no name: there is one such, and it is JSON itself. */
const unnamed = '__schema';

/** Null means absent wherever it is taken: for people and for types, what is left is enough. */
export function withoutNull({ anyOf, ...own }: Schema): Schema {
  const options = anyOf?.filter((option) => option.type !== 'null');
  if (!options) return own;
  return options.length === 1 ? { ...options[0], ...own } : { ...own, anyOf: options };
}

/** What a format or a type implies is not spoken of. */
function tidy({ anyOf, ...own }: Schema): Schema {
  if (own.$ref?.startsWith(`#/$defs/${unnamed}`)) delete own.$ref;
  const options = anyOf?.map(tidy);
  if (options?.some(isListOfAnything)) return own;
  const schema: Schema = options?.length === 1 ? { ...options[0], ...own } : own;
  if (options && options.length > 1) Object.assign(schema, hoisted(options), own);
  if (schema.$ref) schema.$ref = schema.$ref.replace('#/$defs/', '#/components/schemas/');
  if (schema.format) delete schema.pattern;
  if (schema.minLength === 0) delete schema.minLength;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  if (schema.propertyNames?.type === 'string') delete schema.propertyNames;
  if (schema.items) schema.items = tidy(schema.items);
  if (schema.properties) schema.properties = mapValues(schema.properties, tidy);
  if (typeof schema.additionalProperties === 'object') {
    schema.additionalProperties = tidy(schema.additionalProperties);
  }
  return schema;
}

/** What the only option beside null says of itself belongs to the whole. */
function hoisted(options: Schema[]): Schema {
  const [only, ...more] = options.filter(({ type }) => type !== 'null');
  if (!only || more.length > 0) return { anyOf: options };
  const { description, ...rest } = only;
  return {
    anyOf: options.map((option) => (option === only ? rest : option)),
    ...(description !== undefined && { description }),
  };
}

/** Only in the union that JSON itself is. */
function isListOfAnything({ items }: Schema): boolean {
  return items !== undefined && Object.keys(items).length === 0;
}

function mapValues<A, B>(record: Record<string, A>, change: (value: A) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}
