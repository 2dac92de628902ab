/** Code blocks, and JSON with syntax highlighting. */

import { type Html, html, type Part } from './html.ts';

/** The script of the page replaces it by the address of the service. */
export const origin = html`<span class="origin">http://127.0.0.1:8080</span>`;

export function figure(caption: Part, code: Html): Html {
  return html`<figure class="sample"><figcaption>${caption}</figcaption><pre><code>${code}</code></pre></figure>`;
}

export const firstRequest = html`export SALLYPORT_KEY="$(cat data/management.key)"
curl ${origin}/applications/key \\
  -H "SVC-API-KEY: $SALLYPORT_KEY"`;

/** How a language writes the values of JSON. */
export interface Syntax {
  readonly indent: string;
  /** Whether names of fields are quoted if they are identifiers. */
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

/** Formats a value. A short list of scalars is on one line. */
export function format(value: unknown, indent = '', syntax = jsonSyntax): string {
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

/** Marks strings and other values. Names of fields are not marked. */
export function highlighted(text: string): Html {
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
