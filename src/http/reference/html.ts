/** Escapes HTML, and renders the Markdown of descriptions: paragraphs, second-level headings and code. */
import { codes } from '../../domain/error.ts';
import { builtIn } from '../../domain/permission.ts';

/** HTML that is already escaped. The `html` tag escapes all other values. */
export class Html {
  readonly #text: string;
  constructor(text: string) {
    this.#text = text;
  }
  toString(): string {
    return this.#text;
  }
}

export type Part = Html | string | number | false | undefined | readonly Part[];

/** Template tag: `html`<p>${text}</p>``. Attributes must be quoted. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  const pieces = strings.map((text, index) => text + (index < parts.length ? render(parts[index]) : ''));
  return new Html(pieces.join(''));
}

function render(part: Part): string {
  if (part === false || part === undefined) return '';
  if (part instanceof Html) return part.toString();
  if (typeof part === 'object') return part.map(render).join('');
  return Bun.escapeHTML(String(part));
}

export function prose(text: string): Html[] {
  return paragraphs(text).map((paragraph) => html`<p>${inline(paragraph)}</p>`);
}

export function paragraphs(text: string): string[] {
  return text.split(/\n{2,}/).filter((paragraph) => paragraph !== '');
}

/** Renders code spans. Permissions and error codes become links. */
export function inline(text: string): (Html | string)[] {
  return text
    .split(/`([^`]+)`/)
    .map((piece, index) => (index % 2 === 0 ? piece : linked(piece, html`<code>${piece}</code>`)));
}

const anchors = new Map<string, string>([
  ...builtIn.map((name) => [name, `#permission-${name}`] as const),
  ...codes.map((code) => [code, `#error-${code}`] as const),
]);

function linked(name: string, content: Html): Html {
  const anchor = anchors.get(name);
  return anchor === undefined ? content : html`<a href="${anchor}">${content}</a>`;
}

export interface Section {
  readonly heading: string;
  readonly body: string;
}

/** Splits the text at its headings: `lead` is the text before the first heading. */
export function sections(markdown: string): { lead: string; rest: Section[] } {
  const [lead = '', ...others] = markdown.split(/^## /m);
  const rest = others.map((other) => {
    const [heading = '', ...lines] = other.split('\n');
    return { heading: heading.trim(), body: lines.join('\n').trim() };
  });
  return { lead: lead.trim(), rest };
}
