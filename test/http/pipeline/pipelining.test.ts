/** Requests that are sent before the response to the last one. Bun then closes the connection, unless it was sent. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sendRaw } from '../../support/raw-http.ts';
import { databases, openTestServer, type TestServer } from '../../support/test-server.ts';

const fields = JSON.stringify({ name: 'x', type: 'private', permissions: ['token:read'] });
const half = fields.length >> 1;
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const json = 'Content-Type: application/json';

interface Kind {
  readonly line: string;
  readonly headers: readonly string[];
  readonly body: string;
}

const kinds: Record<string, Kind> = {
  GET: { line: 'GET /applications/key', headers: [], body: '' },
  POST: { line: 'POST /applications', headers: [json, `Content-Length: ${fields.length}`], body: fields },
  chunked: {
    line: 'POST /applications',
    headers: [json, 'Transfer-Encoding: chunked'],
    body: `${chunk(fields.slice(0, half))}${chunk(fields.slice(half))}${chunk('')}`,
  },
  empty: { line: 'POST /applications/ID/regenerate', headers: ['Content-Length: 0'], body: '' },
  DELETE: { line: 'DELETE /applications/ID', headers: [], body: '' },
};
const names = Object.keys(kinds);
const pairs = names.flatMap((first) => names.map((second) => [first, second]));
const sequences = [...pairs, ...pairs.flatMap((pair) => names.map((third) => [...pair, third]))];

describe.each(databases)('pipelined requests on %s', (_, database) => {
  let server: TestServer;
  let key: string;
  beforeAll(async () => {
    server = await openTestServer(database);
    ({ key } = await server.tenant());
  });
  afterAll(() => server.close());

  /** Sends all requests in one write. Returns the ids of those that were answered. */
  async function send(sequence: readonly string[], position: number): Promise<string[]> {
    const requests: string[] = [];
    for (const [index, name] of sequence.entries()) {
      const { line, headers, body } = kinds[name] as Kind;
      const path = line.includes('/ID') ? line.replace('ID', (await server.application(key)).id) : line;
      const last = index === sequence.length - 1 ? ['Connection: close'] : [];
      const id = `SVC-REQUEST-ID: r-${position}-${index}`;
      const head = [`${path} HTTP/1.1`, 'Host: x', `SVC-API-KEY: ${key}`, id, ...headers, ...last];
      requests.push(`${head.join('\r\n')}\r\n\r\n${body}`);
    }
    const received = await sendRaw(server.url, requests.join(''));
    return [...received.matchAll(/^SVC-REQUEST-ID: (r-[\d-]+)\r$/gim)].map(([, id]) => id as string);
  }

  test('a change without a response is not made, in every order of reads and changes', async () => {
    const answered: string[] = [];
    for (const [position, sequence] of sequences.entries()) {
      const ids = await send(sequence, position);
      expect([sequence, ids]).toEqual([
        sequence,
        sequence.slice(0, ids.length).map((_, i) => `r-${position}-${i}`),
      ]);
      answered.push(...ids);
    }
    // Changes that are still running commit before these.
    for (let count = 0; count < 3; count++) await server.application(key);
    const made: string[] = [];
    for (let start: string | undefined = ''; start !== undefined; ) {
      const page = await server.call('GET', `/logs?size=100${start && `&start=${start}`}`, { key });
      made.push(...page.body.data.map((entry: { request_id: string }) => entry.request_id));
      start = page.body.pagination.next;
    }
    const unanswered = made.filter((id) => id.startsWith('r-') && !answered.includes(id));
    expect(unanswered.map((id) => sequences[Number(id.split('-')[1])])).toEqual([]);
  });
});
