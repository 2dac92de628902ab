import { beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { noOpenssl } from '../../support/certificates.ts';
import { createUser, json, openReceiver } from '../../support/destination-receiver.ts';
import { ProgramFolder, type RunningProgram } from '../../support/program.ts';
import { until } from '../../support/until.ts';

let program: ProgramFolder;
beforeEach(() => {
  program = new ProgramFolder();
});

const key = () => readFileSync(program.path('data/management.key'), 'utf8').trim();

function request(method: string, path: string, body?: unknown): string {
  const text = body === undefined ? '' : JSON.stringify(body);
  const length =
    body === undefined ? '' : `Content-Length: ${text.length}\r\nContent-Type: application/json\r\n`;
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nSVC-API-KEY: ${key()}\r\n${length}\r\n${text}`;
}

interface Answer {
  readonly status: number;
  /** Whether the server closes the connection after this response. */
  readonly last: boolean;
}

/** A persistent connection with one request at a time. */
class Connection {
  readonly #socket: Socket;
  #received = '';
  #pending: PromiseWithResolvers<Answer> | undefined;
  constructor(url: string) {
    this.#socket = connect(Number(new URL(url).port), '127.0.0.1');
    this.#socket.on('error', () => {});
    this.#socket.on('close', () => this.#pending?.reject(new Error('closed without a response')));
    this.#socket.on('data', (chunk) => {
      this.#received += chunk.toString('latin1');
      const head = /^HTTP\/1\.1 (\d+)[\s\S]*?\r\n\r\n/.exec(this.#received);
      if (!head) return;
      const length = Number(/^content-length: (\d+)/im.exec(head[0])?.[1] ?? 0);
      if (this.#received.length < head[0].length + length) return;
      this.#received = '';
      const last = /^connection: close/im.test(head[0]);
      this.#pending?.resolve({ status: Number(head[1]), last });
      this.#pending = undefined;
    });
  }
  write(text: string): void {
    this.#socket.write(text);
  }
  answer(): Promise<Answer> {
    this.#pending = Promise.withResolvers<Answer>();
    return this.#pending.promise;
  }
  ask(text: string): Promise<Answer> {
    const answer = this.answer();
    this.write(text);
    return answer;
  }
}

const status = async (service: RunningProgram, path: string) => (await fetch(service.url + path)).status;

describe.each(['SIGTERM', 'SIGINT'] as const)('at %s', (signal) => {
  test('/readyz returns 503, requests are served until the drain ends, and the exit code is 0', async () => {
    const service = await program.serve({ SALLYPORT_DRAIN: '1' });
    expect(await status(service, '/readyz')).toBe(200);
    service.kill(signal);
    await until('not ready', async () => (await status(service, '/readyz')) !== 200);
    expect(await status(service, '/readyz')).toBe(503);
    expect(await status(service, '/livez')).toBe(200);
    expect(await new Connection(service.url).ask(request('GET', '/applications/key'))).toEqual({
      status: 200,
      last: true,
    });
    expect(await service.ended).toBe(0);
    expect(service.err()).toContain('"seconds":1');
    expect(service.err()).not.toContain('request failed');
  });
});

test.each([
  ['SIGTERM', '1'],
  ['SIGINT', '2'],
] as const)('at %s no request is lost under load, with %s worker(s)', async (signal, SALLYPORT_WORKERS) => {
  const service = await program.serve({ SALLYPORT_DRAIN: '1', SALLYPORT_WORKERS });
  let created = 0;
  const body = { name: 'under load', type: 'private', permissions: ['token:read'] };
  const client = async (index: number) => {
    const connection = new Connection(service.url);
    for (let count = 0; ; count++) {
      const writes = (index + count) % 4 === 0;
      const { status, last } = await connection.ask(
        writes ? request('POST', '/applications', body) : request('GET', '/applications/key'),
      );
      expect(status).toBe(writes ? 201 : 200);
      if (writes) created++;
      if (index === 0 && count === 20) service.kill(signal);
      if (last) return;
    }
  };
  await Promise.all(Array.from({ length: 12 }, (_, index) => client(index)));
  expect(await service.ended).toBe(0);
  expect(created).toBeGreaterThan(12);
  const again = await program.serve();
  const response = await fetch(`${again.url}/applications`, { headers: { 'SVC-API-KEY': key() } });
  const list = (await response.json()) as { pagination: { total_items: number } };
  expect(list.pagination.total_items).toBe(created + 1);
});

test('a partially received request is completed before the exit', async () => {
  const service = await program.serve();
  const [connection, other] = [new Connection(service.url), new Connection(service.url)];
  await connection.ask(request('GET', '/livez'));
  const text = request('POST', '/applications', { name: 'late', type: 'private', permissions: ['a:b'] });
  const answer = connection.answer();
  connection.write(text.slice(0, -10));
  await other.ask(request('GET', '/livez'));
  service.kill('SIGTERM');
  await until('connections are refused', () =>
    fetch(service.url).then(
      () => false,
      () => true,
    ),
  );
  connection.write(text.slice(-10));
  expect(await answer).toEqual({ status: 201, last: true });
  expect(await service.ended).toBe(0);
});

test.skipIf(noOpenssl)('a request that is at a destination is answered before the exit', async () => {
  const receiver = await openReceiver();
  const service = await program.serve({ SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1' });
  const post = async (path: string, body: object) => {
    const headers = { 'SVC-API-KEY': key(), 'Content-Type': 'application/json' };
    const response = await fetch(service.url + path, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    return response.json();
  };
  const { addressOrigin: origin, ca } = receiver;
  const requests = [{ method: 'POST', path: '/charges', reply: ['/id'] }];
  const user = await createUser(post, { origin, ca, requests });
  const release = Promise.withResolvers<() => void>();
  receiver.answer((socket) => release.resolve(() => socket.write(json({ id: 'ch_1' }))));
  const answer = fetch(`${service.url}/proxy/payments/charges`, {
    method: 'POST',
    headers: { 'SVC-API-KEY': user },
  });
  const respond = await release.promise;
  service.kill('SIGTERM');
  await until('connections are refused', () =>
    fetch(service.url).then(
      () => false,
      () => true,
    ),
  );
  respond();
  expect(await (await answer).json()).toEqual({ id: 'ch_1' });
  expect(await service.ended).toBe(0);
});

test.skipIf(noOpenssl)(
  'a stream that does not end is cut after ten seconds, and its entry tells it',
  async () => {
    const receiver = await openReceiver();
    const env = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1' };
    let service = await program.serve(env);
    const call = async (path: string, body?: object) => {
      const headers = { 'SVC-API-KEY': key(), 'Content-Type': 'application/json' };
      const sent = body && { method: 'POST', body: JSON.stringify(body) };
      return (await fetch(service.url + path, { headers, ...sent })).json();
    };
    const { addressOrigin: origin, ca } = receiver;
    const requests = [{ method: 'GET', path: '/events', reply: 'stream' }];
    const user = await createUser(call, { origin, ca, requests, timeout: 60 });
    receiver.answer((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n###'));
    const response = await fetch(`${service.url}/proxy/payments/events`, {
      headers: { 'SVC-API-KEY': user },
    });
    const reading = response.text().then(
      () => 'ended',
      () => 'cut',
    );
    service.kill('SIGTERM');
    expect([await reading, await service.ended]).toEqual(['cut', 0]);
    service = await program.serve(env);
    const { data } = (await call('/logs?operation=token.use.outcome')) as { data: unknown[] };
    expect(data).toMatchObject([{ reason: 'unavailable', use: { status: 200 } }]);
  },
);
