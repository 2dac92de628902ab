import { describe, expect, test } from 'bun:test';
import { z } from 'zod';
import { codes, problem } from '../../../src/domain/error.ts';
import { builtIn, descriptionOf } from '../../../src/domain/permission.ts';
import { keysOf, readEndpoint, route } from '../../../src/http/pipeline/route.ts';
import { html, inline } from '../../../src/http/reference/html.ts';
import { openApi } from '../../../src/http/reference/openapi.ts';
import { referencePage } from '../../../src/http/reference/page.ts';
import { routes } from '../../../src/http/routes.ts';

const page = referencePage(openApi(routes, '1.2.3'));
const ids = [...page.matchAll(/ id="([^"]*)"/g)].map((match) => match[1] as string);

describe('the reference page', () => {
  test('has an entry with an anchor for every error code', () => {
    for (const code of codes) {
      const [, entry = ''] = page.split(`<li id="error-${code}">`);
      const { status, title, detail } = problem(code);
      const text = entry.slice(0, entry.indexOf('</li>'));
      expect(text).toContain(`${html`<span class="status">${status}</span> ${title}`}`);
      expect(text).toContain(`${html`<p>${inline(detail)}</p>`}`);
    }
  });

  test('has an entry with an anchor for every permission', () => {
    for (const name of builtIn) {
      const [, entry = ''] = page.split(`<li id="permission-${name}">`);
      expect(entry.slice(0, entry.indexOf('</li>'))).toContain(`${html`<p>${descriptionOf(name)}</p>`}`);
    }
  });

  test('has unique ids and no broken links', () => {
    const anchors = [...page.matchAll(/href="#([^"]*)"/g)].map((match) => match[1] as string);
    expect(anchors.length).toBeGreaterThan(50);
    expect(anchors.filter((anchor) => !ids.includes(anchor))).toEqual([]);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('loads and links to no other site', () => {
    const addresses = [...page.matchAll(/(?:href|src|action)="([^"]*)"/g)].map((match) => match[1] as string);
    expect(addresses.filter((address) => !/^(#|\/(?!\/)|data:)/.test(address))).toEqual([]);
    expect(page).not.toMatch(/@import|\burl\(|<(img|iframe|object|embed|form|base)\b/);
  });

  test('lists the fields of a body with types and limits, including nested schemas', () => {
    const [, article = ''] = page.split('id="createApplication"');
    const create = article.slice(0, article.indexOf('</article>'));
    expect(create).toContain(
      '<code>name</code> <span class="type">string</span> <span class="mark">required</span>',
    );
    expect(create).toContain('1 to 200 characters');
    expect(create).toContain('<span class="type">list of AccessRule</span>');
    expect(create).toContain('<summary>Fields of AccessRuleCondition</summary>');
    expect(create).toContain('<code>starts_with</code>');
  });

  test('lists the fields of every schema that a response can have', () => {
    const [, article = ''] = page.split('id="decide"');
    const decide = article.slice(0, article.indexOf('</article>'));
    expect(decide).toContain('<summary>Fields of Decision</summary>');
    expect(decide).toContain('<summary>Fields of Decisions</summary>');
  });

  test('escapes text from the document', () => {
    const evil = `"'><script>alert(1)</script>&amp;`;
    const schema = z.object({ [evil]: z.enum([evil]).describe(evil) }).meta({ id: 'Evil' });
    const document = openApi(
      [
        route(
          'POST',
          '/evil',
          keysOf('private'),
          readEndpoint({
            name: 'evil',
            tag: 'Health',
            summary: evil,
            description: `${evil} \`${evil}\``,
            body: schema,
            bodyExample: { [evil]: evil },
            replies: { 200: { description: evil, schema, example: { [evil]: evil } } },
            handle: async () => ({ status: 200 }),
          }),
        ),
      ],
      evil,
    );
    const broken = referencePage(document);
    expect(broken).toContain('&quot;&#x27;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;');
    expect(broken.split('<script>').length - 1).toBe(1);
    expect(broken).not.toContain('alert(1)</script>');
  });

  test('renders recursive schemas', () => {
    const Node: z.ZodType = z
      .object({
        next: z
          .lazy(() => Node)
          .optional()
          .describe('The next one.'),
      })
      .meta({ id: 'Node' });
    const Tree: z.ZodType = z
      .lazy(() => z.union([z.string(), z.array(Tree), z.record(z.string(), Tree)]))
      .meta({ id: 'Tree' });
    const document = openApi(
      [
        route(
          'GET',
          '/nodes',
          keysOf('private'),
          readEndpoint({
            name: 'nodes',
            tag: 'Health',
            summary: 'Nodes',
            replies: {
              200: { description: 'One.', schema: Node, example: {} },
              202: { description: 'Many.', schema: Tree, example: [] },
            },
            handle: async () => ({ status: 200 }),
          }),
        ),
      ],
      '1',
    );
    expect(referencePage(document)).toContain('<code>next</code> <span class="type">Node</span>');
  });
});
