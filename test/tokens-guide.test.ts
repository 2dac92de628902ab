/** Sends what docs/tokens.md sends, and expects what it shows. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { renderMask } from '../src/domain/mask.ts';
import { openTestServer, sqlite, type TestServer } from './support/test-server.ts';

const guide = readFileSync(join(import.meta.dirname, '../docs/tokens.md'), 'utf8');

interface Example {
  readonly line: string;
  readonly method: string;
  readonly path: string;
  /** The name of the Application that sends it, if not the management key. */
  readonly as: string | undefined;
  readonly body: string | undefined;
  readonly shown: unknown;
}

const examples = [...guide.matchAll(/```http\n(.*?)```(?:(?:(?!```).)*?```json\n(.*?)```)?/gs)].map(
  ([, request, shown]): Example => {
    const [head, ...body] = (request as string).split('\n\n');
    const [line, header] = (head as string).trim().split('\n') as [string, string?];
    const [method, path] = line.split(' ') as [string, string];
    return {
      line,
      method,
      path,
      as: header?.replace('SVC-API-KEY: ', ''),
      body: body.length > 0 ? body.join('\n\n') : undefined,
      shown: shown === undefined ? undefined : JSON.parse(shown),
    };
  },
);

/** As shown, with `…` for any text, and for any other fields. */
function expectShown(actual: unknown, shown: unknown): void {
  if (typeof shown !== 'object' || shown === null) {
    expect(actual).toEqual(shown === '…' ? expect.any(String) : shown);
    return;
  }
  const wanted = Object.keys(shown).filter((name) => name !== '…');
  const names = Object.keys(actual as object);
  if (wanted.length === Object.keys(shown).length) expect(names.sort()).toEqual([...wanted].sort());
  for (const name of wanted)
    expectShown((actual as Record<string, unknown>)[name], (shown as Record<string, unknown>)[name]);
}

describe('the guide to Tokens', () => {
  let world: TestServer;
  const keys = new Map<string | undefined, string>();
  beforeAll(async () => {
    world = await openTestServer(sqlite);
    keys.set(undefined, (await world.tenant()).key);
  });
  afterAll(() => world.close());

  test('has examples', () => {
    expect(examples.length).toBeGreaterThan(6);
  });

  test.each(examples.map((example) => [example.line, example] as const))('%s', async (_, example) => {
    const body = example.body?.replace(/\((\w+)\)/g, (_, name: string) => keys.get(name) as string);
    const key = keys.get(example.as);
    expect(key).toBeString();
    const answer = await world.call(example.method, example.path, { key, ...(body && { body }) });
    if (answer.body.key) keys.set(answer.body.name, answer.body.key);
    if (example.shown === undefined) expect(answer.status).toBeLessThan(300);
    else expectShown(answer.body, example.shown);
  });

  const masks = [...guide.matchAll(/^\| `(.*\{\{.*)` +\| `(.*)` +\| `(.*)` +\|$/gm)].map(
    ([, mask, data, gives]) => [mask?.replaceAll('\\|', '|'), data, gives] as [string, string, string],
  );
  test('has a table of masks', () => {
    expect(masks.length).toBeGreaterThan(5);
  });
  test.each(masks)('the mask %s of %s gives %s', (mask, data, gives) => {
    expect(renderMask(mask, JSON.parse(data))).toEqual(JSON.parse(gives));
  });
});
