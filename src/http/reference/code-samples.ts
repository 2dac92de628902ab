/** The request of an operation in curl, JavaScript and Python. */

import { type Html, html } from './html.ts';
import { type Operation, pathExample } from './openapi.ts';
import { format, highlighted, origin, type Syntax } from './samples.ts';

interface SampleRequest {
  readonly method: string;
  readonly path: string;
  /** Name of the environment variable with the key; undefined if no key is needed. */
  readonly keyVariable: string | undefined;
  readonly body: unknown;
  /** Whether the response has a JSON body. */
  readonly returnsJson: boolean;
}

const languages = [
  { id: 'curl', name: 'curl', sample: curl },
  { id: 'javascript', name: 'JavaScript', sample: javascript },
  { id: 'python', name: 'Python', sample: python },
] as const;

/** All three languages. The script of the page shows one of them at a time. */
export function requestSample(method: string, path: string, operation: Operation): Html {
  const request = sampleRequest(method, path, operation);
  const blocks = languages.map(
    ({ id, name, sample }) =>
      html`<pre data-language="${id}" aria-label="${name}"><code>${sample(request)}</code></pre>`,
  );
  return html`<figure class="sample"><figcaption><span>Request</span><span class="languages">${languages.map(
    ({ id, name }) => html`<button type="button" data-choose="${id}">${name}</button>`,
  )}</span></figcaption>${blocks}</figure>`;
}

function sampleRequest(method: string, path: string, operation: Operation): SampleRequest {
  const success = Object.entries(operation.responses).find(([status]) => status.startsWith('2'))?.[1];
  return {
    method: method.toUpperCase(),
    path: pathExample(path, operation.parameters),
    keyVariable: operation.security?.length === 0 ? undefined : keyVariable(operation['x-callers']),
    body: operation.requestBody?.content['application/json']?.example,
    returnsJson:
      success !== undefined && 'content' in success && success.content?.['application/json'] !== undefined,
  };
}

/** The management key, unless the operation does not accept it. */
function keyVariable(callers: readonly string[] = ['management']): string {
  return callers.includes('management') ? 'SALLYPORT_KEY' : `${callers[0]?.toUpperCase()}_KEY`;
}

function curl({ method, path, keyVariable, body }: SampleRequest): Html {
  const options: Html[] = [];
  if (keyVariable !== undefined) options.push(html`-H "SVC-API-KEY: $${keyVariable}"`);
  if (body !== undefined) {
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

function javascript({ method, path, keyVariable, body, returnsJson }: SampleRequest): Html {
  const options: Html[] = [];
  if (method !== 'GET') options.push(html`method: <i>'${method}'</i>`);
  const headers: Html[] = [];
  if (keyVariable !== undefined) headers.push(html`'SVC-API-KEY': process.env.${keyVariable}`);
  if (body !== undefined) {
    headers.push(html`'Content-Type': <i>'application/json'</i>`);
  }
  if (headers.length > 0)
    options.push(html`headers: {${headers.map((header) => html`\n    ${header},`)}\n  }`);
  if (body !== undefined)
    options.push(html`body: JSON.stringify(${highlighted(format(body, '  ', javascriptSyntax))})`);
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
function python({ method, path, keyVariable, body, returnsJson }: SampleRequest): Html {
  const usesJson = body !== undefined || returnsJson;
  const modules = [usesJson && 'json', keyVariable !== undefined && 'os', 'urllib.request'];
  const headers: Html[] = [];
  if (keyVariable !== undefined) headers.push(html`"SVC-API-KEY": os.environ[<i>"${keyVariable}"</i>]`);
  if (body !== undefined) headers.push(html`"Content-Type": <i>"application/json"</i>`);
  const options: Html[] = [html`<i>"${origin}${path}"</i>`];
  if (method !== 'GET') options.push(html`method=<i>"${method}"</i>`);
  if (headers.length > 0)
    options.push(html`headers={${headers.map((header) => html`\n        ${header},`)}\n    }`);
  if (body !== undefined)
    options.push(html`data=json.dumps(${highlighted(format(body, '    ', pythonSyntax))}).encode()`);
  const result = returnsJson ? 'json.load(response)' : 'response.status';
  return html`${modules.filter((name) => name !== false).map((name) => `import ${name}\n`)}
request = urllib.request.Request(${options.map((option) => html`\n    ${option},`)}
)
with urllib.request.urlopen(request) as response:
    print(${result})`;
}
