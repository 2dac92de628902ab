/**
 * `bun bench/statements.ts` writes the table of statements and round trips per request into docs/performance.md. On
 * PostgreSQL, it counts messages between the service and the server. Replies of the server are held until the service
 * has sent nothing for a while, so statements that do not wait for each other are one round trip.
 */
import { Database } from 'bun:sqlite';
import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Postgres, startPostgres } from '../test/support/postgres.ts';
import { type ApiResponse, openTestServer, type TestServer } from '../test/support/test-server.ts';
import { replace } from './publish.ts';

interface Counts {
  statements: number;
  roundTrips: number;
}

/** Milliseconds for which replies are held. */
const hold = 60;

/** Counts every statement on SQLite. `pragma data_version` runs at most once per millisecond, whatever is requested. */
function countOnSqlite(counts: Counts): void {
  const prepare = Database.prototype.prepare;
  Database.prototype.prepare = function (this: Database, sql: string) {
    const statement = prepare.call(this, sql);
    if (/^pragma/.test(sql)) return statement;
    for (const name of ['get', 'all', 'run'] as const) {
      const original = statement[name] as (...values: unknown[]) => unknown;
      const counted = (...values: unknown[]) => {
        counts.statements++;
        return original.apply(statement, values);
      };
      Object.assign(statement, { [name]: counted });
    }
    return statement;
  } as typeof prepare;
}

/** Executions of statements in messages to the server. `rest` has the beginning of an incomplete message. */
function executionsIn(chunk: Buffer, state: { rest: Buffer }): number {
  let bytes = Buffer.concat([state.rest, chunk]);
  let count = 0;
  while (bytes.length >= 5) {
    // The first message of a connection has no type, which its length begins with a zero byte.
    const length = bytes[0] === 0 ? bytes.readUInt32BE(0) : 1 + bytes.readUInt32BE(1);
    if (bytes.length < length) break;
    if (bytes[0] === 0x45 || bytes[0] === 0x51) count++; // Execute, Query
    bytes = bytes.subarray(length);
  }
  state.rest = bytes;
  return count;
}

function proxyTo(port: number, counts: Counts): Promise<{ port: number; close(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const database = createConnection(port, '127.0.0.1');
    const state = { rest: Buffer.alloc(0) };
    let held: Buffer[] = [];
    let isAsked = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      if (held.length === 0) return;
      if (isAsked) counts.roundTrips++;
      isAsked = false;
      client.write(Buffer.concat(held));
      held = [];
    };
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(flush, hold);
    };
    client.on('data', (chunk: Buffer) => {
      const executed = executionsIn(chunk, state);
      counts.statements += executed;
      isAsked ||= executed > 0;
      database.write(chunk);
      wait();
    });
    database.on('data', (chunk: Buffer) => {
      held.push(chunk);
      wait();
    });
    for (const [socket, other] of [
      [client, database],
      [database, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => other.destroy());
    }
  });
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => {
      const address = server.address() as { port: number };
      const close = () => {
        for (const socket of sockets) socket.destroy();
        server.close();
      };
      resolve({ port: address.port, close });
    }),
  );
}

type Send = () => Promise<ApiResponse>;

/** Each operation as a function that prepares a request, which is then counted. */
async function operations({
  call,
  tenant,
  application,
}: TestServer): Promise<Record<string, () => Promise<Send>>> {
  const { key } = await tenant();
  const rules = [
    {
      priority: 1,
      container: '/',
      transform: 'reveal',
      permissions: ['token:create', 'token:read', 'invoice:read'],
    },
  ];
  const permissions = [
    'application:read',
    'token:update',
    'token:delete',
    'session:authorize',
    'decision:create',
  ];
  const backend = await application(key, { permissions, rules });
  const masked = await application(key, { permissions: ['token:read'] });
  const page = await application(key, { type: 'public', permissions: ['token:create'] });
  const token = { data: 'secret', mask: '{{ data | reveal_last: 2 }}', metadata: { a: '1' } };
  const newToken = async () =>
    (await call('POST', '/tokens', { key: backend.key, body: token })).body.id as string;
  const newSession = async () => (await call('POST', '/sessions', { key: page.key })).body;
  const authorize = (nonce: string) =>
    call('POST', '/sessions/authorize', {
      key: backend.key,
      body: { nonce, permissions: ['application:read'], expires_at: '2026-11-15T13:00:00Z' },
    });
  const session = await newSession();
  await authorize(session.nonce);
  const [id, change] = [await newToken(), (path: string) => ({ path, key: backend.key })];
  const get = (path: string, as: string) => async () => () => call('GET', path, { key: as });
  return {
    'GET /applications/key': get('/applications/key', backend.key),
    'GET /applications/key with a session': get('/applications/key', session.session_key),
    'POST /decisions about a session': async () => () =>
      call('POST', '/decisions', {
        key: backend.key,
        body: { credential: session.session_key, permission: 'invoice:read' },
      }),
    'GET /tokens/{id}, masked': get(`/tokens/${id}`, masked.key),
    'GET /tokens/{id}, plaintext with an audit entry': get(`/tokens/${id}`, backend.key),
    'POST /tokens': async () => () => call('POST', '/tokens', { key: backend.key, body: token }),
    'POST /tokens with an Idempotency-Key': async () => () =>
      call('POST', '/tokens', {
        key: backend.key,
        body: token,
        headers: { 'Idempotency-Key': crypto.randomUUID() },
      }),
    'PATCH /tokens/{id}': async () => {
      const { path, ...as } = change(`/tokens/${await newToken()}`);
      return () => call('PATCH', path, { ...as, body: { metadata: { a: '2' } } });
    },
    'DELETE /tokens/{id}': async () => {
      const { path, ...as } = change(`/tokens/${await newToken()}`);
      return () => call('DELETE', path, as);
    },
    'POST /sessions': async () => () => call('POST', '/sessions', { key: page.key }),
    'POST /sessions/authorize': async () => {
      const { nonce } = await newSession();
      return () => authorize(nonce);
    },
  };
}

async function countOn(server: TestServer, counts: Counts): Promise<Map<string, Counts>> {
  const counted = new Map<string, Counts>();
  // The first time also prepares the statements.
  for (const [name, prepare] of Object.entries(await operations(server)))
    for (let time = 0; time < 3; time++) {
      const send = await prepare();
      Object.assign(counts, { statements: 0, roundTrips: 0 });
      const { status, body } = await send();
      if (status >= 300) throw new Error(`${name}: ${status} ${JSON.stringify(body)}`);
      await Bun.sleep(3 * hold);
      counted.set(name, { ...counts });
    }
  await server.close();
  return counted;
}

async function onPostgres(postgres: Postgres): Promise<Map<string, Counts>> {
  const counts = { statements: 0, roundTrips: 0 };
  const proxy = await proxyTo(postgres.port, counts);
  const url = postgres.url.replace(`:${postgres.port}`, `:${proxy.port}`);
  const counted = await countOn(await openTestServer(url, { SALLYPORT_DATABASE_TIMEOUT: '60000' }), counts);
  proxy.close();
  return counted;
}

const postgres = await startPostgres();
const there = await onPostgres(postgres);
await postgres.stop();
const counts = { statements: 0, roundTrips: 0 };
const folder = mkdtempSync(join(tmpdir(), 'sallyport-statements-'));
countOnSqlite(counts);
const here = await countOn(await openTestServer(`sqlite:${folder}/test.db`), counts);
rmSync(folder, { recursive: true });
const lines = [...there].map(([name, { statements, roundTrips }]) => [
  name,
  here.get(name)?.statements,
  statements,
  roundTrips,
]);
const head = ['request', 'SQLite: statements', 'PostgreSQL: statements', 'PostgreSQL: round trips'];
const table = [head, head.map(() => '---'), ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n');
console.log(table);
if (process.argv[2] !== '--print') replace('docs/performance.md', 'statements', table);
process.exit(0);
