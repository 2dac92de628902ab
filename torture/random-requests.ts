/** Random requests from the OpenAPI document: some valid, most nearly valid, some invalid. */
import type { Schema } from '../src/http/reference/json-schema.ts';
import type { Document, Operation } from '../src/http/reference/openapi.ts';
import { written } from './client.ts';
import type { Random } from './random.ts';

export interface Made {
  readonly method: string;
  readonly path: string;
  readonly bytes: Buffer;
}

/** Existing ids and keys. Grows during the run. */
export interface Pool {
  readonly keys: string[];
  readonly ids: string[];
  readonly nonces: string[];
}

/** Strings that often cause bugs. */
const nasty = [
  ...['', ' ', '\u0000', '\u0001', '\ud800', '\u202e', '\ufeff', '😀', 'ﬀ', 'İ', 'a\r\nb: c'],
  ...['__proto__', 'constructor', 'toString', 'null', 'undefined', 'NaN', '-0', '1e400', '0x10'],
  ...["' or 1=1 --", '$1', ':now', '?', '%', '%00', '\\', '../..', '{{ data }}', '{% raw %}', '<b>', '#{x}'],
  ...['/', '//', '/a/../b/', '/PCI/', 'a'.repeat(300), 'token:*', '*', 'a:b:c:d', '2030-02-30T00:00:00Z'],
  ...['2030-01-01', '9999-12-31T23:59:59.999Z', '0000-01-01T00:00:00+23:59', 'slp_pvt_x'],
];
const numbers = [0, -1, 1, 1.5, 2 ** 31, 2 ** 53, -(2 ** 63), 1e21, 1e308, 5e-324];

export class Generator {
  readonly #document: Document;
  readonly #random: Random;
  readonly #pool: Pool;
  readonly #operations: { path: string; method: string; operation: Operation }[];

  constructor(document: Document, random: Random, pool: Pool) {
    this.#document = document;
    this.#random = random;
    this.#pool = pool;
    this.#operations = Object.entries(document.paths).flatMap(([path, byMethod]) =>
      Object.entries(byMethod).map(([method, operation]) => ({ path, method, operation })),
    );
  }

  next(): Made {
    const random = this.#random;
    const { path, method: usual, operation } = random.one(this.#operations);
    const method = random.chance(0.03)
      ? random.one(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
      : usual.toUpperCase();
    const target = this.#path(path) + this.#query(operation);
    const type = Object.keys(operation.requestBody?.content ?? {})[0] ?? 'application/json';
    const content = operation.requestBody?.content[type];
    const body =
      content || random.chance(0.05) ? this.#body(content?.schema ?? {}, content?.example) : undefined;
    const headers = this.#headers(type, body);
    const head = written(method, target, { headers });
    return { method, path: target, bytes: body ? Buffer.concat([head, body]) : head };
  }

  #path(path: string): string {
    const filled = path.replace(/\{(\w+)\}/g, () => this.#segment());
    return this.#random.chance(0.02) ? filled + this.#random.one(['/', '//', '/x', '%2f', ';a']) : filled;
  }

  #segment(): string {
    const random = this.#random;
    if (random.chance(0.6)) return random.one(this.#pool.ids);
    if (random.chance(0.4)) return crypto.randomUUID();
    return encoded(random.one(nasty)) || 'x';
  }

  #query({ parameters = [] }: Operation): string {
    const random = this.#random;
    const pairs = parameters
      .filter((parameter) => parameter.in === 'query' && random.chance(0.25))
      .map(({ name, schema }) => `${encoded(name)}=${encoded(this.#asText(this.#value(schema)))}`);
    if (random.chance(0.04)) pairs.push(`${encoded(random.one(nasty))}=${encoded(random.one(nasty))}`);
    if (random.chance(0.01)) pairs.push('%', '&&', '=');
    return pairs.length > 0 ? `?${pairs.join('&')}` : '';
  }

  #asText(value: unknown): string {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  }

  #headers(type: string, body: Buffer | undefined): string[] {
    const random = this.#random;
    const headers: string[] = [];
    if (!random.chance(0.03)) headers.push(`SVC-API-KEY: ${this.#key()}`);
    if (body) headers.push(`Content-Length: ${body.length}`);
    if (body && !random.chance(0.03))
      headers.push(`Content-Type: ${random.chance(0.97) ? type : 'text/plain'}`);
    if (random.chance(0.05)) headers.push(`Idempotency-Key: ${random.one(['a', 'b', 'ü', 'x'.repeat(300)])}`);
    if (random.chance(0.05))
      headers.push(`SVC-REQUEST-ID: ${random.one(['mine-1', 'a b', 'x'.repeat(200)])}`);
    if (random.chance(0.03)) headers.push(`Origin: ${random.one(['https://a.example', 'null', '*', 'x'])}`);
    if (random.chance(0.03)) headers.push(`X-Forwarded-For: ${random.one(['1.2.3.4', '::1', 'x', ','])}`);
    return headers;
  }

  #key(): string {
    const random = this.#random;
    if (random.chance(0.03)) return random.one(['x', '', 'slp_mgt_', 'slp_pvt_'.padEnd(63, '0')]);
    return random.chance(0.5) ? (this.#pool.keys[0] as string) : random.one(this.#pool.keys);
  }

  #body(schema: Schema, example: unknown): Buffer {
    const random = this.#random;
    let value = example !== undefined && random.chance(0.5) ? structuredClone(example) : this.#value(schema);
    for (let times = random.below(3); times > 0; times--) value = this.#mutated(value);
    const text = JSON.stringify(value) ?? '';
    if (!random.chance(0.04)) return Buffer.from(text);
    return random.one([
      () => Buffer.from(text.slice(0, random.below(text.length + 1))),
      () => Buffer.from(text.replace('{', '{"name":"twice",')),
      () => Buffer.from(text.replaceAll('"', "'")),
      () => Buffer.from(text, 'utf16le'),
      () => Buffer.concat([Buffer.from(text), Buffer.from([0xff, 0xc0])]),
      () => Buffer.from('['.repeat(40) + ']'.repeat(40)),
      () => Buffer.from(`${text}${' '.repeat(70_000)}`),
      () => Buffer.alloc(0),
    ])();
  }

  /** Replaces, removes or duplicates a random part. */
  #mutated(value: unknown): unknown {
    const random = this.#random;
    if (typeof value !== 'object' || value === null || random.chance(0.2)) return this.#anything(2);
    if (Array.isArray(value)) {
      const all = [...value];
      if (random.chance(0.3)) all.push(this.#anything(1));
      else if (all.length > 0) all[random.below(all.length)] = this.#mutated(random.one(all));
      return all;
    }
    const entries = Object.entries(value);
    if (entries.length === 0 || random.chance(0.15))
      return { ...value, [random.one(nasty)]: this.#anything(1) };
    const [name, inner] = random.one(entries);
    if (random.chance(0.2)) return Object.fromEntries(entries.filter(([other]) => other !== name));
    return { ...value, [name]: this.#mutated(inner) };
  }

  #anything(depth: number): unknown {
    const random = this.#random;
    const simple = () =>
      random.one([null, true, false, random.one(numbers), random.one(nasty), random.one(this.#pool.ids)]);
    if (depth === 0 || random.chance(0.7)) return simple();
    if (random.chance(0.5)) return Array.from({ length: random.below(4) }, () => this.#anything(depth - 1));
    return { [random.one(nasty)]: this.#anything(depth - 1), a: simple() };
  }

  /** A value that matches the schema. */
  #value(schema: Schema): unknown {
    const random = this.#random;
    const { $ref, type, properties, required = [], items, anyOf, examples } = schema as Described;
    if ($ref)
      return this.#value(this.#document.components.schemas[$ref.split('/').at(-1) as string] as Schema);
    if (schema.const !== undefined) return schema.const;
    if (anyOf) return this.#value(random.one(anyOf));
    if (schema.enum) return random.one(schema.enum as unknown[]);
    if (examples && random.chance(0.5)) return random.one(examples);
    const one = Array.isArray(type) ? random.one(type) : type;
    if (properties) {
      const chosen = Object.entries(properties).filter(
        ([name]) => required.includes(name) || random.chance(0.5),
      );
      return Object.fromEntries(chosen.map(([name, inner]) => [name, this.#named(name, inner)]));
    }
    if (one === 'array') return Array.from({ length: random.below(4) }, () => this.#value(items ?? {}));
    if (one === 'integer' || one === 'number')
      return random.chance(0.7) ? random.below(50) : random.one(numbers);
    if (one === 'boolean') return random.chance(0.5);
    if (one === 'string') return this.#text(schema);
    return one === 'null' ? null : this.#anything(2);
  }

  #named(name: string, schema: Schema): unknown {
    if (name === 'nonce') return this.#random.one(this.#pool.nonces);
    if (name === 'credential') return this.#random.one(this.#pool.keys);
    return this.#value(schema);
  }

  #text({ format }: Schema): string {
    const random = this.#random;
    if (random.chance(0.2)) return random.one(nasty);
    if (format === 'uuid') return random.one(this.#pool.ids);
    if (format === 'date-time') return new Date(Date.now() + random.below(1e10) - 1e9).toISOString();
    return random.one([
      'token:read',
      'mine:x',
      'application:read',
      '/pci/',
      '/pci/high/',
      'a name',
      'card-1',
    ]);
  }
}

interface Described {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Record<string, Schema>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly examples?: readonly unknown[];
}

/** Encodes a value for a URL. Lone surrogates become U+FFFD. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}
