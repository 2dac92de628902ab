/** Code blocks: JSON with syntax highlighting, and requests in curl, JavaScript and Python. */

import { formType } from '../pipeline/read-input.ts';
import { type Html, html, type Part } from './html.ts';
import { type Operation, requestTarget } from './openapi.ts';

/** The script of the page replaces this address with that of the service. */
const origin = html`<span class="origin">http://127.0.0.1:8080</span>`;

export function figure(caption: Part, code: Html): Html {
  return html`<figure class="sample"><figcaption>${caption}</figcaption><pre><code>${code}</code></pre></figure>`;
}

export const firstRequest = html`export SALLYPORT_KEY="$(cat data/management.key)"
curl ${origin}/applications/key \\
  -H "SVC-API-KEY: $SALLYPORT_KEY"`;

/** How a language writes the values of JSON. */
interface Syntax {
  readonly indent: string;
  /** Whether field names are quoted even if they are valid identifiers. */
  readonly quotesNames: boolean;
  readonly trailingComma: boolean;
  scalar(value: unknown): string;
}

const jsonSyntax: Syntax = {
  indent: '  ',
  quotesNames: true,
  trailingComma: false,
  scalar: (value) => JSON.stringify(value),
};

const lineWidth = 60;

/** Formats a value. Writes a short list of scalars on one line. */
function format(value: unknown, indent = '', syntax = jsonSyntax): string {
  if (typeof value !== 'object' || value === null) return syntax.scalar(value);
  const inner = indent + syntax.indent;
  if (!Array.isArray(value)) {
    const entries = Object.entries(value).map(
      ([name, item]) => `${fieldName(name, syntax)}: ${format(item, inner, syntax)}`,
    );
    return block('{', entries, '}', indent, syntax);
  }
  const items = value.map((item) => format(item, inner, syntax));
  const line = `[${items.join(', ')}]`;
  const isFlat = value.every((item) => typeof item !== 'object');
  return isFlat && indent.length + line.length <= lineWidth ? line : block('[', items, ']', indent, syntax);
}

function fieldName(name: string, syntax: Syntax): string {
  return syntax.quotesNames || !/^[A-Za-z_]\w*$/.test(name) ? syntax.scalar(name) : name;
}

function block(open: string, lines: string[], close: string, indent: string, syntax: Syntax): string {
  if (lines.length === 0) return open + close;
  const body = lines.map((line) => `${indent}${syntax.indent}${line}`).join(',\n');
  return `${open}\n${body}${syntax.trailingComma ? ',' : ''}\n${indent}${close}`;
}

export function json(value: unknown): Html {
  return highlighted(format(value));
}

const token =
  /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(\s*:)?|\b(?:true|false|null|True|False|None)\b|-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b/g;

/** Highlights literal values. Field names are not highlighted. */
function highlighted(text: string): Html {
  const parts: Part[] = [];
  let end = 0;
  for (const match of text.matchAll(token)) {
    const [whole, string, colon] = match;
    parts.push(text.slice(end, match.index));
    if (string === undefined) parts.push(html`<b>${whole}</b>`);
    else parts.push(colon === undefined ? html`<i>${string}</i>` : html`${string}${colon}`);
    end = match.index + whole.length;
  }
  parts.push(text.slice(end));
  return html`${parts}`;
}

interface SampleRequest {
  readonly method: string;
  readonly path: string;
  /** Name of the environment variable with the key; undefined if no key is needed. */
  readonly keyVariable: string | undefined;
  readonly body: unknown;
  readonly isForm: boolean;
  /** Whether the response has a JSON body. */
  readonly returnsJson: boolean;
}

const languages = [
  { id: 'curl', name: 'curl', sample: curl },
  { id: 'javascript', name: 'JavaScript', sample: javascript },
  { id: 'python', name: 'Python', sample: python },
] as const;

/** Renders a request in all languages. The script of the page shows one language at a time. */
export function requestSample(method: string, path: string, operation: Operation): Html {
  const request = sampleRequest(method, path, operation);
  const blocks = languages.map(
    ({ id, name, sample }) =>
      html`<pre data-language="${id}" aria-label="${name}"><code>${sample(request)}</code></pre>`,
  );
  const body = request.body === undefined ? '' : format(request.body);
  return html`<figure class="sample" data-method="${request.method}" data-path="${request.path}" data-body="${body}"><figcaption><span>Request</span><span class="languages">${languages.map(
    ({ id, name }) => html`<button type="button" data-choose="${id}">${name}</button>`,
  )}</span></figcaption>${blocks}</figure>`;
}

function sampleRequest(method: string, path: string, operation: Operation): SampleRequest {
  const success = Object.entries(operation.responses).find(([status]) => status.startsWith('2'))?.[1];
  return {
    method: method.toUpperCase(),
    path: requestTarget(path, operation.parameters),
    keyVariable: operation.security?.length === 0 ? undefined : keyVariable(operation['x-callers']),
    body: operation.requestBody && Object.values(operation.requestBody.content)[0]?.example,
    isForm: operation.requestBody?.content[formType] !== undefined,
    returnsJson:
      success !== undefined && 'content' in success && success.content?.['application/json'] !== undefined,
  };
}

/** Returns the variable of the management key, or of another key if the operation does not accept management keys. */
function keyVariable(callers: readonly string[] = ['management']): string {
  return callers.includes('management') ? 'SALLYPORT_KEY' : `${callers[0]?.toUpperCase()}_KEY`;
}

function curl({ method, path, keyVariable, body, isForm }: SampleRequest): Html {
  const options: Html[] = [];
  if (keyVariable !== undefined) options.push(html`-H "SVC-API-KEY: $${keyVariable}"`);
  if (isForm) {
    for (const [name, value] of Object.entries(body as object))
      options.push(html`--data-urlencode <i>'${name}=${value}'</i>`);
  } else if (body !== undefined) {
    options.push(html`-H "Content-Type: application/json"`);
    options.push(html`-d '${highlighted(format(body, '  ').replaceAll("'", "'\\''"))}'`);
  }
  return html`curl ${method === 'GET' ? '' : `-X ${method} `}${origin}${path}${options.map(
    (option) => html` \\\n  ${option}`,
  )}`;
}

const javascriptSyntax: Syntax = {
  indent: '  ',
  quotesNames: false,
  trailingComma: true,
  scalar: (value) => (typeof value === 'string' ? quoted(value) : JSON.stringify(value)),
};

function quoted(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}

function javascript({ method, path, keyVariable, body, isForm, returnsJson }: SampleRequest): Html {
  const options: Html[] = [];
  if (method !== 'GET') options.push(html`method: <i>'${method}'</i>`);
  const headers: Html[] = [];
  if (keyVariable !== undefined) headers.push(html`'SVC-API-KEY': process.env.${keyVariable}`);
  if (body !== undefined && !isForm) {
    headers.push(html`'Content-Type': <i>'application/json'</i>`);
  }
  if (headers.length > 0)
    options.push(html`headers: {${headers.map((header) => html`\n    ${header},`)}\n  }`);
  if (body !== undefined)
    options.push(
      html`body: ${isForm ? 'new URLSearchParams' : 'JSON.stringify'}(${highlighted(format(body, '  ', javascriptSyntax))})`,
    );
  const init = options.length > 0 && html`, {${options.map((option) => html`\n  ${option},`)}\n}`;
  const result = returnsJson && '\nconst result = await response.json();';
  return html`const response = await fetch(<i>'${origin}${path}'</i>${init});${result}`;
}

const pythonSyntax: Syntax = {
  indent: '    ',
  quotesNames: true,
  trailingComma: true,
  scalar: (value) => pythonWords.get(value) ?? JSON.stringify(value),
};
const pythonWords = new Map<unknown, string>([
  [true, 'True'],
  [false, 'False'],
  [null, 'None'],
]);

/** Uses the standard library only. */
function python({ method, path, keyVariable, body, isForm, returnsJson }: SampleRequest): Html {
  const usesJson = (body !== undefined && !isForm) || returnsJson;
  const modules = [
    usesJson && 'json',
    keyVariable !== undefined && 'os',
    isForm && 'urllib.parse',
    'urllib.request',
  ];
  const headers: Html[] = [];
  if (keyVariable !== undefined) headers.push(html`"SVC-API-KEY": os.environ[<i>"${keyVariable}"</i>]`);
  if (body !== undefined && !isForm) headers.push(html`"Content-Type": <i>"application/json"</i>`);
  const options: Html[] = [html`<i>"${origin}${path}"</i>`];
  if (method !== 'GET') options.push(html`method=<i>"${method}"</i>`);
  if (headers.length > 0)
    options.push(html`headers={${headers.map((header) => html`\n        ${header},`)}\n    }`);
  if (body !== undefined)
    options.push(
      html`data=${isForm ? 'urllib.parse.urlencode' : 'json.dumps'}(${highlighted(format(body, '    ', pythonSyntax))}).encode()`,
    );
  const result = returnsJson ? 'json.load(response)' : 'response.status';
  return html`${modules.filter((name) => name !== false).map((name) => `import ${name}\n`)}
request = urllib.request.Request(${options.map((option) => html`\n    ${option},`)}
)
with urllib.request.urlopen(request) as response:
    print(${result})`;
}
