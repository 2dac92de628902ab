/** Renders the Markdown that descriptions use: paragraphs, second-level headings and code. */
import { codes } from '../../domain/error.ts';
import { builtIn } from '../../domain/permission.ts';
import { type Html, html } from './html.ts';

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

/** The text before the first heading, and each heading with what follows it. */
export function sections(markdown: string): { lead: string; rest: Section[] } {
  const [lead = '', ...others] = markdown.split(/^## /m);
  const rest = others.map((other) => {
    const [heading = '', ...lines] = other.split('\n');
    return { heading: heading.trim(), body: lines.join('\n').trim() };
  });
  return { lead: lead.trim(), rest };
}
