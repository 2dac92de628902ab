/**
 * A connection that sends more before it has received a response: further requests, or a body without an end. Bun handles them
 * in one turn of the event loop, so others would wait. It closes the connection if a request waits for its response.
 */
import { describe, expect, test } from 'bun:test';
import { routes } from '../../../src/http/routes.ts';
import { sendRaw } from '../../support/raw-http.ts';
import { databases, openTestServer } from '../../support/test-server.ts';

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

describe.each(databases)('pipelined requests on %s', async (_, database) => {
  const server = await openTestServer(database);
  const { key } = await server.tenant();

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

describe.each(databases)('a connection on %s', async (_, database) => {
  const server = await openTestServer(database);
  const keys: string[] = [''];
  const { key } = await server.tenant();
  const web = await server.application(key, { type: 'public' });
  for (const each of [key, web.key]) keys.push(`SVC-API-KEY: ${each}\r\n`);

  const lines = [
    ...routes.map(({ method, path }) => `${method} ${path.replaceAll(/:\w+|\*/g, 'x')}`),
    ...['GET /none', 'POST /none', 'PUT /tokens', 'OPTIONS /tokens', 'HEAD /tokens'],
    ...['GET /console/api/applications', 'GET /console/none'],
  ];
  const requests = () => lines.flatMap((line) => keys.map((key) => `${line} HTTP/1.1\r\nHost: x\r\n${key}`));

  test('that sends many requests together gets answers to the first ones only, at every route', async () => {
    for (const head of requests()) {
      const received = await sendRaw(server.url, `${head}Content-Length: 0\r\n\r\n`.repeat(200));
      const answers = received.split('HTTP/1.1 ').length - 1;
      expect([head, answers < 20]).toEqual([head, true]);
    }
  });

  test('that sends a body in chunks without end is closed, at every route', async () => {
    for (const head of requests()) {
      const framing = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
      const received = await sendRaw(server.url, `${head}${framing}${chunk(' ').repeat(3000)}`);
      const isClosed = /^HTTP\/1\.1 [\s\S]*\nconnection: close/i.test(received);
      expect([head, isClosed]).toEqual([head, true]);
    }
  });
});
