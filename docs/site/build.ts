/**
 * Renders the documentation as web pages in memory. The service does this at the first request for a page. The build of
 * the single executable does it ahead of time.
 */
import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type BuildOptions, pack, type StaticFile } from '../../src/http/pipeline/static-file.ts';
import type { Section } from './search.js';

const mount = '/docs';
const folder = join(import.meta.dirname, '..');

interface Page {
  readonly path: string;
  readonly title: string;
  /** The content of `main`. */
  readonly html: string;
  readonly headings: readonly Heading[];
  readonly sections: readonly Section[];
}

interface Heading {
  readonly level: number;
  readonly id: string;
  readonly html: string;
}

const types: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.md': 'text/html; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
};

export async function buildDocs(options?: BuildOptions): Promise<StaticFile[]> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const pages: Page[] = [];
  for (const name of names.filter((each) => each.endsWith('.md'))) {
    pages.push(pageOf(name));
    // Other requests need not wait until all pages are rendered.
    await nextTurn();
  }
  const palette = readFileSync(join(folder, '../console/src/frame/palette.css'), 'utf8');
  const style = hashed('site.css', palette + read('site/site.css'));
  const sections = hashed('sections.json', JSON.stringify(pages.flatMap(({ sections }) => sections)));
  const scripts = read('site/search.js').replace('export ', '') + read('site/site.js');
  const script = hashed('site.js', scripts.replace('SECTIONS', sections.path));
  const menu = menuOf(read('README.md'));
  const linked = new Set(
    pages.flatMap(({ html }) => Array.from(html.matchAll(/ (?:src|href)="([^"#]+)"/g), ([, path]) => path)),
  );
  const others = names
    .filter((name) => extname(name) in types && linked.has(`${mount}/${name}`))
    .map((name) => ({
      path: `${mount}/${name}`,
      immutable: false,
      content: new Uint8Array(readFileSync(join(folder, name))),
    }));
  const rendered = pages.map((page) => ({
    path: page.path,
    immutable: false,
    content: documentOf(page, menu, style.path, script.path),
  }));
  return Promise.all(
    [...rendered, ...others, style, sections, script].map(({ content, ...file }) =>
      pack({ ...file, type: types[extname(file.path) || '.md'] as string }, content, options),
    ),
  );
}

const read = (name: string) => readFileSync(join(folder, name), 'utf8');

function hashed(name: string, content: string) {
  const digest = hash('sha256', content, 'base64url').slice(0, 12);
  return { path: `${mount}/${name.replace('.', `-${digest}.`)}`, immutable: true, content };
}

/** The address of a file below docs/. Undefined for other files, which the service does not have. */
function addressOf(file: string): string | undefined {
  const path = join(file);
  if (path.startsWith('..')) return undefined;
  const name = basename(path) === 'README.md' ? dirname(path) : path.replace(/\.md$/, '');
  return name === '.' ? mount : `${mount}/${name}`;
}

function pageOf(file: string): Page {
  const headings: Heading[] = [];
  const html = Bun.markdown
    .html(read(file))
    .replace(/<h(\d)>(.*?)<\/h\1>/g, (_, level: string, text: string) => {
      const same = headings.filter(({ html }) => slug(html) === slug(text)).length;
      const id = slug(text) + (same > 0 ? `-${same}` : '');
      headings.push({ level: Number(level), id, html: text });
      return `<h${level} id="${id}">${/<a /.test(text) ? text : `<a href="#${id}">${text}</a>`}</h${level}>`;
    })
    .replace(
      /<a href="(?![a-z]+:|#)([^"#]*)(#[^"]*)?">(.*?)<\/a>/gs,
      (_, target: string, anchor: string, text: string) => {
        const address = addressOf(join(dirname(file), target));
        return address === undefined ? text : `<a href="${address}${anchor ?? ''}">${text}</a>`;
      },
    )
    .replace(
      / src="(?![a-z]+:)([^"]+)"/g,
      (_, target: string) => ` src="${addressOf(join(dirname(file), target))}"`,
    )
    .replaceAll('<table>', '<div class="table" tabindex="0"><table>')
    .replaceAll('</table>', '</table></div>');
  const title = plain(headings[0]?.html ?? file);
  const path = addressOf(file) as string;
  return { path, title, html, headings, sections: sectionsOf(path, title, html) };
}

/** The anchor of a heading, as GitHub generates it. */
function slug(html: string): string {
  return plain(html)
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

const entities: Record<string, string> = { quot: '"', lt: '<', gt: '>', amp: '&', '#39': "'" };

/** The text of HTML. */
function plain(html: string): string {
  return html.replace(/<[^>]*>/g, '').replace(/&([^;\s]+);/g, (all, name: string) => entities[name] ?? all);
}

function sectionsOf(path: string, title: string, html: string): Section[] {
  return html
    .split(/(?=<h[1-4] id=")/)
    .filter((part) => part.startsWith('<h'))
    .map((part) => {
      const [, id, heading = '', text = ''] = /^<h\d id="([^"]*)">(.*?)<\/h\d>(.*)$/s.exec(part) ?? [];
      return {
        path: `${path}#${id}`,
        page: title,
        heading: plain(heading),
        // Cells do not run together.
        text: plain(text.replaceAll('<', ' <')).replace(/\s+/g, ' '),
      };
    });
}

/** The links of the first page, below their headings. */
function menuOf(index: string): string {
  const parts = index.split(/^## /m).slice(1);
  return parts
    .map((part) => {
      const links = Array.from(part.matchAll(/\[([^\]]+)\]\(([^):]+\.md)\)/g), ([, text = '', file = '']) => {
        const address = addressOf(file);
        return address === undefined ? '' : `<li><a href="${address}">${Bun.escapeHTML(text)}</a></li>`;
      });
      return `<h2>${Bun.escapeHTML(part.split('\n')[0] ?? '')}</h2>\n<ul>${links.join('')}</ul>`;
    })
    .join('\n');
}

const arches = 'M3.5 21V11a8.5 8.5 0 0 1 17 0v10M8.5 21v-9a3.5 3.5 0 0 1 7 0v9';
const gate = `<svg class="gate" viewBox="0 0 24 24" aria-hidden="true"><path d="${arches}"/></svg>`;
const drawing = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path d="${arches}" fill="none" stroke="#0f7681" stroke-width="2.4" stroke-linecap="round"/></svg>`;

function documentOf(
  { path, title, html, headings }: Page,
  menu: string,
  style: string,
  script: string,
): string {
  const contents = headings
    .filter(({ level }) => level === 2)
    .map(({ id, html }) => `<li><a href="#${id}">${html.replace(/<\/?a[^>]*>/g, '')}</a></li>`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${Bun.escapeHTML(title)} – Sallyport</title>
<link rel="icon" href="data:image/svg+xml,${encodeURIComponent(drawing)}">
<link rel="stylesheet" href="${style}">
<script src="${script}" defer></script>
</head>
<body>
<a class="skip" href="#site-content">Skip to the content</a>
<header class="bar"><a class="brand" href="${mount}">${gate} Sallyport</a><button type="button" popovertarget="site-menu">Menu</button></header>
<nav id="site-menu" popover aria-label="Pages">
<a class="brand" href="${mount}">${gate} Sallyport</a>
<search hidden>
<input type="search" id="site-search" placeholder="Search" aria-label="Search the documentation" aria-describedby="site-status" autocomplete="off" spellcheck="false">
<p id="site-status" role="status"></p>
<ul id="site-results"></ul>
</search>
<div id="site-contents">
${menu.replace(`href="${path}"`, `href="${path}" aria-current="page"`)}
</div>
</nav>
<main id="site-content" tabindex="-1">
${contents.length > 2 ? html.replace('</h1>', `</h1>\n<details class="contents"><summary>On this page</summary><ul>${contents.join('')}</ul></details>`) : html}
</main>
</body>
</html>
`;
}
