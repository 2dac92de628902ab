/** Sends the requests of the reference pages and compares the responses with those on the page. */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { renderMask } from '../src/domain/mask.ts';
import { openTestServer, sqlite } from './support/test-server.ts';

const read = (page: string) => readFileSync(join(import.meta.dirname, '../docs/reference', page), 'utf8');

interface Example {
  readonly line: string;
  readonly method: string;
  readonly path: string;
  /** Name of the application whose key is sent; the management key if absent. */
  readonly application: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly expected: unknown;
}

/** Requests are `http` blocks; a `json` block before the next request is the response. */
function examplesOn(page: string): Example[] {
  const blocks = read(page).matchAll(/```http\n(.*?)```(?:(?:(?!```).)*?```json\n(.*?)```)?/gs);
  return Array.from(blocks, ([, request, response]) => {
    const [head, ...body] = (request as string).split('\n\n');
    const [line, ...fields] = (head as string).trim().split('\n') as [string, ...string[]];
    const [method, path] = line.split(' ') as [string, string];
    const { 'SVC-API-KEY': application, ...headers } = Object.fromEntries(
      fields.map((field) => field.split(': ') as [string, string]),
    );
    return {
      line,
      method,
      path,
      application,
      headers,
      body: body.length > 0 ? body.join('\n\n') : undefined,
      expected: response === undefined ? undefined : JSON.parse(response),
    };
  });
}

/** In the expected JSON, "…" stands for any string, and the member "…" for any further members. */
function expectMatch(actual: unknown, expected: unknown): void {
  if (typeof expected !== 'object' || expected === null) {
    expect(actual).toEqual(expected === '…' ? expect.any(String) : expected);
    return;
  }
  const names = Object.keys(expected).filter((name) => name !== '…');
  if (!Object.hasOwn(expected, '…')) expect(Object.keys(actual as object).sort()).toEqual([...names].sort());
  for (const name of names)
    expectMatch((actual as Record<string, unknown>)[name], (expected as Record<string, unknown>)[name]);
}

describe.each(['api.md', 'authzen.md', 'destinations.md', 'tokens.md'])('docs/reference/%s', async (page) => {
  const server = await openTestServer(sqlite);
  const keys = new Map<string | undefined, string>();
  const examples = examplesOn(page);
  keys.set(undefined, (await server.tenant()).key);

  test('has examples', () => {
    expect(examples.length).toBeGreaterThan(4);
  });

  test.each(examples.map((example) => [example.line, example] as const))('%s', async (_, example) => {
    const body = example.body?.replace(/\((\w+)\)/g, (_, name: string) => keys.get(name) as string);
    const key = keys.get(example.application);
    expect(key).toBeString();
    const { method, path, headers } = example;
    const response = await server.call(method, path, { key, headers, ...(body && { body }) });
    // In later examples, `(NAME)` is the key of an application or the id of a destination.
    if (response.body.key) keys.set(response.body.name, response.body.key);
    else if (path === '/destinations') keys.set(response.body.name, response.body.id);
    if (example.expected === undefined) expect(response.status).toBeLessThan(300);
    else expectMatch(response.body, example.expected);
  });
});

describe('the table of masks', () => {
  const rows = [...read('tokens.md').matchAll(/^\| `(.*\{\{.*)` +\| `(.*)` +\| `(.*)` +\|$/gm)].map(
    ([, mask, data, result]) => [mask?.replaceAll('\\|', '|'), data, result] as [string, string, string],
  );

  test('has rows', () => {
    expect(rows.length).toBeGreaterThan(5);
  });

  test.each(rows)('%s of %s gives %s', (mask, data, result) => {
    expect(renderMask(mask, JSON.parse(data))).toEqual(JSON.parse(result));
  });
});
