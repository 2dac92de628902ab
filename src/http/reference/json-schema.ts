/** Converts zod schemas to JSON Schema. */
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

/** Returns the JSON Schema of the values that `schema` accepts. Adds named schemas to `components`. */
export function jsonSchema(schema: z.ZodType, components: Record<string, Schema>): Schema {
  const { $schema, $defs, ...json } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: keepMeta,
  });
  for (const [name, part] of Object.entries($defs ?? {}))
    if (!name.startsWith(unnamed)) components[name] ??= tidy(part as Schema);
  return tidy(json as Schema);
}

/**
 * Metadata with a `type` replaces the generated schema, which would show how query text is parsed. Also restores the
 * examples of transformed schemas, which zod drops.
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
  if (Array.isArray(meta.examples)) jsonSchema.examples = meta.examples;
}

/** Zod's prefix for recursive schemas without an id. The only such schema here is `z.json()`. */
const unnamed = '__schema';

/** Removes `null` from a union. Null means absent, so the reference and the SDK types do not show it. */
export function withoutNull({ anyOf, ...own }: Schema): Schema {
  const options = anyOf?.filter((option) => option.type !== 'null');
  if (!options) return own;
  return options.length === 1 ? { ...options[0], ...own } : { ...own, anyOf: options };
}

/** Removes keywords that a format or type implies. */
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
  for (const [name, field] of Object.entries(schema.properties ?? {}))
    (schema.properties as Record<string, Schema>)[name] = tidy(field);
  if (typeof schema.additionalProperties === 'object')
    schema.additionalProperties = tidy(schema.additionalProperties);
  return schema;
}

/** If a union has only one option besides null, moves the description of that option to the union. */
function hoisted(options: Schema[]): Schema {
  const [only, ...more] = options.filter(({ type }) => type !== 'null');
  if (!only || more.length > 0) return { anyOf: options };
  const { description, ...rest } = only;
  return {
    anyOf: options.map((option) => (option === only ? rest : option)),
    ...(description !== undefined && { description }),
  };
}

/** Detects `z.json()`: only its union has an option that is a list of any values. */
function isListOfAnything({ type, items }: Schema): boolean {
  return type === 'array' && items !== undefined && Object.keys(items).length === 0;
}
