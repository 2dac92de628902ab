/** The structured fields that the service sends, parsed and written again by a strict implementation of RFC 9651. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { parseDictionary, parseItem, parseList } from '../support/structured-fields.ts';
import { type ApiResponse, openTestServer, sqlite } from '../support/test-server.ts';

const parsers = { list: parseList, dictionary: parseDictionary, item: parseItem };
type Kind = keyof typeof parsers;

describe('the parser', () => {
  test.each<[Kind, string]>([
    ['item', '"a \\"b\\" \\\\"'],
    ['item', '@1801353600'],
    ['item', '-12.5;a;b=?0;c=tok/en*;d=:aGk=:'],
    ['item', '%"f%c3%bc"'],
    ['list', '"key";q=5;w=3, "address";q=10;qu="content-bytes"'],
    ['list', '(1 2);a, ()'],
    ['dictionary', 'u=2, n, *k-_.=(a "b");x'],
    ['list', ''],
  ])('accepts the %s %s', (kind, text) => {
    expect(parsers[kind](text)).toBe(text);
  });

  test.each<[Kind, string]>([
    ['item', ''],
    ['item', '"é"'],
    ['item', '"a'],
    ['item', '"\\a"'],
    ['item', '1234567890123456'],
    ['item', '1.2345'],
    ['item', '1.'],
    ['item', '@1.5'],
    ['item', ':a:'],
    ['item', '%"f%C3"'],
    ['item', '%"%ff"'],
    ['item', '?2'],
    ['item', '1;A=1'],
    ['item', '1 2'],
    ['list', '1,'],
    ['list', '1, , 2'],
    ['list', '(1'],
    ['list', '(1,2)'],
    ['dictionary', 'A=1'],
    ['dictionary', 'a=1 b=2'],
  ])('rejects the %s %j', (kind, text) => {
    expect(parsers[kind](text)).toBeUndefined();
  });
});

/** The fields of the service. Those of another kind are not structured fields. */
const fields: Record<string, Kind> = {
  'RateLimit-Policy': 'list',
  RateLimit: 'list',
  'Cross-Origin-Opener-Policy': 'item',
  'Cross-Origin-Resource-Policy': 'item',
  'Origin-Agent-Cluster': 'item',
  'Permissions-Policy': 'dictionary',
};

const server = await openTestServer(sqlite, {
  SALLYPORT_BURST_PER_KEY: '3',
  SALLYPORT_BURST_PER_ADDRESS: '4',
  SALLYPORT_RATE_PER_KEY: '1',
  SALLYPORT_RATE_PER_ADDRESS: '1',
});

describe('a field', () => {
  const responses: ApiResponse[] = [];
  beforeAll(async () => {
    const { key } = await server.tenant();
    for (const path of [
      '/applications',
      '/applications',
      '/console',
      '/applications',
      '/applications',
      '/docs',
    ])
      responses.push(await server.call('GET', path, { key, headers: { Accept: 'text/html' } }));
  });

  test.each(Object.entries(fields))('%s is canonical wherever it is sent', (name, kind) => {
    const sent = responses.flatMap(({ headers }) => headers.get(name) ?? []);
    for (const value of sent) expect(parsers[kind](value)).toBe(value);
    if (name.startsWith('RateLimit')) expect(sent.length).toBeGreaterThan(1);
  });
});
