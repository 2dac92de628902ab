/** Commands and bodies to look at and to copy. */

import { type Html, html, type Part } from './html.ts';
import { type Operation, pathExample } from './openapi.ts';

/** Replaced in the browser by the address that the page came from. */
const origin = html`<span class="origin">http://127.0.0.1:8080</span>`;

export function figure(caption: Part, code: Html): Html {
  return html`<figure class="sample"><figcaption>${caption}</figcaption><pre><code>${code}</code></pre></figure>`;
}

export function curl(method: string, path: string, operation: Operation): Html {
  const verb = method === 'get' ? '' : `-X ${method.toUpperCase()} `;
  const body = operation.requestBody?.content['application/json']?.example;
  const options: Html[] = [];
  if (operation.security?.length !== 0) {
    options.push(html`-H "SVC-API-KEY: $${keyVariable(operation['x-callers'])}"`);
  }
  if (body !== undefined) {
    options.push(html`-H "Content-Type: application/json"`);
    options.push(html`-d '${highlighted(shellQuoted(pretty(body, '  ')))}'`);
  }
  return html`curl ${verb}${origin}${pathExample(path, operation.parameters)}${options.map(
    (option) => html` \\\n  ${option}`,
  )}`;
}

/** The management key will do wherever it is taken. */
function keyVariable(callers: readonly string[] = ['management']): string {
  return callers.includes('management') ? 'SALLYPORT_KEY' : `${callers[0]?.toUpperCase()}_KEY`;
}

export const firstSteps = html`export SALLYPORT_KEY="$(cat data/management.key)"
curl ${origin}/applications/key \\
  -H "SVC-API-KEY: $SALLYPORT_KEY"`;

function shellQuoted(text: string): string {
  return text.replaceAll("'", "'\\''");
}

const lineWidth = 60;

/** JSON with a short list of plain values on one line. */
export function pretty(value: unknown, indent = ''): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const inner = `${indent}  `;
  if (!Array.isArray(value)) {
    const entries = Object.entries(value).map(
      ([key, item]) => `${JSON.stringify(key)}: ${pretty(item, inner)}`,
    );
    return block('{', entries, '}', indent);
  }
  const items = value.map((item) => pretty(item, inner));
  const line = `[${items.join(', ')}]`;
  const plain = value.every((item) => typeof item !== 'object');
  return plain && indent.length + line.length <= lineWidth ? line : block('[', items, ']', indent);
}

function block(open: string, lines: string[], close: string, indent: string): string {
  if (lines.length === 0) return open + close;
  return `${open}\n${lines.map((line) => `${indent}  ${line}`).join(',\n')}\n${indent}${close}`;
}

const token = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export function json(value: unknown): Html {
  return highlighted(pretty(value));
}

/** JSON with its keys, strings and other values told apart. */
function highlighted(text: string): Html {
  const parts: Part[] = [];
  let at = 0;
  for (const match of text.matchAll(token)) {
    const [whole, string, colon] = match;
    parts.push(text.slice(at, match.index));
    if (string === undefined) parts.push(html`<b>${whole}</b>`);
    else parts.push(colon === undefined ? html`<i>${string}</i>` : html`${string}${colon}`);
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return html`${parts}`;
}
