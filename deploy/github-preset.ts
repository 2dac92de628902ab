/**
 * `npm run preset:github`: writes src/presets/github.json from GitHub's OpenAPI document, which `@octokit/openapi` has
 * under the MIT licence. The package also has other documents, 28 MB packed, so it is not a dependency. Review the change.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const version = '23.0.2';

/** The operations of the preset by group, as ids. */
const operations = {
  issues: ['list-for-repo', 'get', 'create', 'update', 'list-comments', 'create-comment'].map(
    (each) => `issues/${each}`,
  ),
  pulls: ['list', 'get', 'list-files', 'create', 'update', 'create-review'].map((each) => `pulls/${each}`),
  contents: ['repos/get', 'repos/list-branches', 'repos/list-commits', 'repos/get-content', 'git/get-tree'],
  search: ['search/issues-and-pull-requests', 'search/code'],
  actions: ['list-workflow-runs-for-repo', 'get-workflow-run', 'create-workflow-dispatch'].map(
    (each) => `actions/${each}`,
  ),
};

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly nullable?: boolean;
  readonly enum?: readonly unknown[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
  readonly 'x-multi-segment'?: boolean;
}

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

const document = await download();

const preset = {
  service: 'GitHub',
  source: `Made by npm run preset:github from @octokit/openapi ${version} (MIT).`,
  origin: 'https://api.github.com',
  key: { header: 'authorization', prefix: 'Bearer ' },
  timeout: 25,
  ignored_headers: [],
  common: {
    headers: ['x-github-api-version'],
    reply: ['', 'header:x-github-request-id', 'header:retry-after'],
  },
  requests: Object.fromEntries(Object.entries(operations).map(([group, ids]) => [group, ids.map(requestOf)])),
};
const file = join(import.meta.dirname, '../src/presets/github.json');
writeFileSync(file, `${JSON.stringify(preset, undefined, 2)}\n`);
Bun.spawnSync(['biome', 'format', '--write', file], { stdio: ['ignore', 'inherit', 'inherit'] });

async function download(): Promise<Document> {
  const folder = mkdtempSync(join(tmpdir(), 'github-preset-'));
  try {
    const [packed] = await Bun.$`npm pack @octokit/openapi@${version} --json --silent`.cwd(folder).json();
    await Bun.$`tar xzf ${packed.filename} package/generated/api.github.com.json`.cwd(folder);
    return await Bun.file(join(folder, 'package/generated/api.github.com.json')).json();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function requestOf(id: string) {
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(methods))
      if (operation.operationId === id) return listed(path, method, operation);
  throw new Error(`${id} is not in version ${version}`);
}

function listed(
  path: string,
  method: string,
  { operationId, summary, parameters = [], requestBody }: Operation,
) {
  const all = parameters.map(resolved);
  const query = all.filter((each) => each.in === 'query').map(({ name }) => name);
  const isWide = (name: string) => all.some((each) => each.name === name && each['x-multi-segment']);
  const body = requestBody?.content['application/json']?.schema;
  const schema = body && schemaOf(body);
  return {
    name: operationId.replace(/\W/g, '_'),
    description: `${summary}.`,
    method: method.toUpperCase(),
    path: path.replace(/\{(\w+)\}/g, (_, name: string) => (isWide(name) ? '*' : `:${name}`)),
    ...(query.length > 0 && { query }),
    ...(schema && JSON.stringify(schema).length < 4096 && { schema }),
  };
}

/** The keywords that a destination takes. Where the document allows several types, all are allowed. */
function schemaOf(unresolved: Schema): object {
  const { type, description, nullable, enum: values, items, properties, required } = resolved(unresolved);
  const isObject = type === 'object' && properties;
  return {
    ...(type && { type: nullable ? [type, 'null'] : type }),
    ...(description && { description: description.split(/(?<=\.)\s|\n/)[0]?.slice(0, 120) }),
    ...(values && { enum: nullable ? [...new Set([...values, null])] : values }),
    ...(items && { items: schemaOf(items) }),
    ...(isObject && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, each]) => [name, schemaOf(each)]),
      ),
      ...(required && { required }),
      additionalProperties: false,
    }),
  };
}

function resolved<T extends { readonly $ref?: string }>(value: T): T {
  if (value.$ref === undefined) return value;
  const steps = value.$ref.slice(2).split('/');
  return steps.reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], document) as T;
}
