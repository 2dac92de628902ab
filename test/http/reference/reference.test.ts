import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { hash } from 'node:crypto';
import { z } from 'zod';
import { codes, problem } from '../../../src/domain/error.ts';
import { builtIn, descriptionOf } from '../../../src/domain/permission.ts';
import { keysOf, readEndpoint, route } from '../../../src/http/pipeline/route.ts';
import { example } from '../../../src/http/reference/examples.ts';
import { html } from '../../../src/http/reference/html.ts';
import { openApi } from '../../../src/http/reference/openapi.ts';
import { referencePage } from '../../../src/http/reference/page.ts';
import { routes } from '../../../src/http/routes.ts';
import { type ApiResponse, databases, openTestServer, type TestServer } from '../../support/test-server.ts';

const page = referencePage(openApi(routes, '1.2.3'));
const ids = [...page.matchAll(/ id="([^"]*)"/g)].map((match) => match[1] as string);

/** The text of the command, as it is copied. */
function commandOf(operationId: string): string {
  const [, article = ''] = page.split(`<article class="operation" id="${operationId}"`);
  const [, command = ''] = /<pre><code>(curl .*?)<\/code>/s.exec(article) ?? [];
  const entities: Record<string, string> = { quot: '"', '#39': "'", lt: '<', gt: '>', amp: '&' };
  return command.replace(/<[^>]+>/g, '').replace(/&([^;]+);/g, (_, name) => entities[name] ?? '?');
}

describe('the reference that the service gives out', () => {
  let world: TestServer;
  let docs: ApiResponse;
  beforeAll(async () => {
    world = await openTestServer(databases[0]?.[1] ?? '');
    docs = await world.call('GET', '/docs');
  });
  afterAll(() => world.close());

  test('is a page that needs no key', () => {
    expect(docs.status).toBe(200);
    expect(docs.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(docs.body).toStartWith('<!doctype html>');
  });

  test('is where the root leads', async () => {
    const response = await fetch(world.url, { redirect: 'manual' });
    expect(response.status).toBe(302);
    expect(response.headers.get('location')).toBe('/docs');
  });

  test('is where a problem leads: its type is an address on the page', async () => {
    const { body } = await world.call('GET', '/applications');
    const [path, anchor] = body.type.split('#');
    const { body: there } = await world.call('GET', path);
    expect(there).toContain(` id="${anchor}"`);
  });

  test('allows its own style and script by their hashes, and nothing else', () => {
    const policy = docs.headers.get('content-security-policy') ?? '';
    const allowed = [...policy.matchAll(/'(sha256-[^']+)'/g)].map((match) => match[1]);
    const inside = [...docs.body.matchAll(/<(style|script)>(.*?)<\/\1>/gs)].map(
      (match) => match[2] as string,
    );
    expect(inside).toHaveLength(2);
    expect(allowed).toEqual(inside.map((text) => `sha256-${hash('sha256', text, 'base64')}`));
    expect(policy).toStartWith("default-src 'none'; ");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(docs.body).not.toMatch(/ style=| on[a-z]+=/);
  });

  test('describes every operation of the document that it is made from', async () => {
    const { body: document } = await world.call('GET', '/openapi.json');
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods as object).map(([method, { operationId }]) => ({ path, method, operationId })),
    );
    expect(operations.length).toBe(routes.length - 2);
    for (const { path, method, operationId } of operations) {
      expect(docs.body).toContain(`<article class="operation" id="${operationId}"`);
      const label = `<span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code>`;
      expect(docs.body).toContain(label);
    }
  });
});

describe('the reference page', () => {
  test('explains every error code at its own anchor', () => {
    for (const code of codes) {
      const [, entry = ''] = page.split(`<li id="error-${code}">`);
      const { status, title, detail } = problem(code);
      const text = entry.slice(0, entry.indexOf('</li>'));
      expect(text).toContain(`${html`<span class="status">${status}</span> ${title}`}`);
      expect(text).toContain(`${html`<p>${detail}</p>`}`);
    }
  });

  test('explains every permission at its own anchor', () => {
    for (const name of builtIn) {
      const [, entry = ''] = page.split(`<li id="permission-${name}">`);
      expect(entry.slice(0, entry.indexOf('</li>'))).toContain(`${html`<p>${descriptionOf(name)}</p>`}`);
    }
  });

  test('leads nowhere that is not there', () => {
    const anchors = [...page.matchAll(/href="#([^"]*)"/g)].map((match) => match[1] as string);
    expect(anchors.length).toBeGreaterThan(50);
    expect(anchors.filter((anchor) => !ids.includes(anchor))).toEqual([]);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('loads nothing and links to nothing outside of the service', () => {
    const addresses = [...page.matchAll(/(?:href|src|action)="([^"]*)"/g)].map((match) => match[1] as string);
    expect(addresses.filter((address) => !/^(#|\/(?!\/)|data:)/.test(address))).toEqual([]);
    expect(page).not.toMatch(/@import|url\(|<(img|iframe|object|embed|form|base)\b/i);
  });

  test('shows a command for every operation, with the key that it takes and the body of the example', () => {
    expect(commandOf('createApplication')).toStartWith(
      'curl -X POST http://127.0.0.1:8080/applications \\\n  -H "SVC-API-KEY: $SALLYPORT_KEY" \\\n',
    );
    const [, body = ''] = /-d '(.*)'$/s.exec(commandOf('createApplication')) ?? [];
    expect(JSON.parse(body)).toEqual(example.applicationCreate);
    expect(commandOf('createSession')).toContain('$PUBLIC_KEY');
    expect(commandOf('getApplication')).toContain(`/applications/${example.application.id} `);
    expect(commandOf('live')).toBe('curl http://127.0.0.1:8080/livez');
  });

  test('shows the fields of a body through every reference, with their limits', () => {
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

  test('shows every shape that a reply can have', () => {
    const [, article = ''] = page.split('id="decide"');
    const decide = article.slice(0, article.indexOf('</article>'));
    expect(decide).toContain('<summary>Fields of Decision</summary>');
    expect(decide).toContain('<summary>Fields of Decisions</summary>');
  });

  test('escapes whatever it is given', () => {
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
    expect(broken).toContain('&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;');
    expect(broken.split('<script>').length - 1).toBe(1);
    expect(broken).not.toContain('alert(1)</script>');
  });

  test('ends where a schema holds itself', () => {
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
