import { codes } from '../../src/domain/error.ts';
import type { Document } from '../../src/http/reference/openapi.ts';
import { sendAndClose, sendRaw } from '../../test/support/raw-http.ts';
import { Client, type ClientResponse } from '../client.ts';
import { type Body, clientsOf, forEachConcurrently, oneNode } from '../fleet-clients.ts';
import { rawRequest } from '../malformed-http.ts';
import { Generator, type Pool } from '../random-requests.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const requests: Row = {
  name: 'requests',
  requirement:
    '100,000 requests from the OpenAPI document, half on each database, and 4,000 raw sockets: no 5xx, no crash, every error is a problem document unless the request is not HTTP',
  databases: bothDatabases,
  run,
};

const everything = { permissions: ['application:read', 'token:read', 'token:create', 'decision:create'] };

async function run(context: Context): Promise<Outcome> {
  const fleet = await oneNode(context);
  const { key } = await fleet.tenant();
  const pool = await poolFor(context, fleet, key);
  const { url, pid } = fleet.at(0);
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document;
  const tally = new Tally();
  await generated(context, new Generator(document, context.random, pool), pool, new Client(url), tally);
  await sockets(context, url, key, tally);

  const alive = await fetch(`${url}/applications/key`, { headers: { 'SVC-API-KEY': key } });
  if (alive.status !== 200) tally.complain(`afterwards the service returned ${alive.status}`);
  const crashes = /\bpanic|\bcrash|uncaught/i.exec(fleet.at(0).err()) ? 1 : 0;
  if (crashes > 0) tally.complain(`process ${pid} said: ${fleet.at(0).err().slice(-2000)}`);
  return {
    figures: {
      requests: tally.asked,
      accepted: tally.accepted,
      'rejected with a problem document': tally.problems,
      'not HTTP, rejected by Bun without a body': tally.bare,
      'not HTTP, closed without a response': tally.closed,
      '× 5xx': tally.serverErrors,
      crashes,
    },
    failures: tally.failures,
  };
}

async function poolFor(
  context: Context,
  fleet: Awaited<ReturnType<Context['start']>>,
  key: string,
): Promise<Pool> {
  const { must, application } = clientsOf(context, fleet);
  const [backend, web] = [
    await application(key, everything),
    await application(key, { type: 'public', ...everything }),
  ];
  const session = await must(0, 'POST', '/sessions', { key: web.key });
  await must(0, 'POST', '/sessions/authorize', { key, body: { nonce: session.nonce, ...everything } });
  const data = context.secrets.plaintext('requests');
  const token = await must(0, 'POST', '/tokens', { key, body: { data, mask: 'x' } });
  return {
    keys: [key, backend.key, web.key, session.session_key],
    ids: [backend.id, web.id, token.id],
    nonces: [session.nonce],
  };
}

async function generated(context: Context, generator: Generator, pool: Pool, client: Client, tally: Tally) {
  context.defer(() => client.close());
  await forEachConcurrently(context.sized(50_000, 300), 24, async () => {
    const { method, path, bytes } = generator.next();
    const what = `${method} ${path}`;
    tally.asked++;
    try {
      const answer = await client.send(bytes, method === 'HEAD');
      tally.judge(answer, what, method === 'HEAD');
      if (answer.status === 201 || path.endsWith('/regenerate')) learn(context, pool, answer.text);
    } catch (error) {
      tally.complain(`${what}: ${(error as Error).message}\n${bytes.toString('latin1').slice(0, 2000)}`);
    }
  });
}

const mostKept = 200;

function learn(context: Context, pool: Pool, text: string): void {
  context.secrets.addFrom(text);
  if (!text.startsWith('{')) return;
  const { id, key, session_key, nonce } = JSON.parse(text) as Body;
  const keep = (into: string[], value: unknown) => {
    if (typeof value !== 'string') return;
    if (into.length < mostKept) into.push(value);
    else into[1 + context.random.below(mostKept - 1)] = value;
  };
  keep(pool.ids, id);
  keep(pool.keys, key);
  keep(pool.keys, session_key);
  keep(pool.nonces, nonce);
}

async function sockets(context: Context, url: string, key: string, tally: Tally): Promise<void> {
  await forEachConcurrently(context.sized(2000, 40), 24, async () => {
    const { text, sound, unfinished } = rawRequest(context.random, key);
    tally.asked++;
    if (unfinished) {
      await sendAndClose(url, text);
      tally.closed++;
      return;
    }
    const received = await Promise.race([sendRaw(url, text), late(url)]);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(received)?.[1] ?? 0);
    const end = received.indexOf('\r\n\r\n');
    const body = received.slice(end + 4);
    const problem = /content-type: application\/problem\+json/i.test(received);
    if (received === '' && !sound) tally.closed++;
    else if (refusalsOfBun.includes(status) && !problem && !sound) tally.bare++;
    else
      tally.judge(
        { status, head: received.slice(0, end), text: body },
        JSON.stringify(text.slice(0, 300)),
        false,
      );
  });
}

/** Bun answers requests that are not HTTP before the service sees them. */
const refusalsOfBun = [400, 413, 431, 505];

/** Resolves when the node still answers other requests after a minute, so that it is not only slow. */
async function late(url: string): Promise<string> {
  await Bun.sleep(60_000);
  await fetch(`${url}/livez`);
  return 'no response within 60 s';
}

class Tally {
  asked = 0;
  accepted = 0;
  problems = 0;
  bare = 0;
  closed = 0;
  serverErrors = 0;
  readonly failures: string[] = [];

  complain(sentence: string): void {
    if (this.failures.length < 10) this.failures.push(sentence);
  }

  judge({ status, head, text }: ClientResponse, what: string, headOnly: boolean): void {
    if (status >= 500 || status === 0) {
      this.serverErrors++;
      this.complain(`${what} was answered with ${status}: ${text}`);
    } else if (status < 400) {
      this.accepted++;
    } else if (headOnly || isProblem(status, head, text)) {
      this.problems++;
    } else {
      this.complain(`${what} returned ${status} without a problem document: ${head} ${text}`);
    }
  }
}

function isProblem(status: number, head: string, text: string): boolean {
  // The error format of OAuth, which only the token endpoint uses.
  if (status === 400 && /\r\ncontent-type: application\/json/i.test(head))
    return /^\{"error":"[a-z_]+","error_description":"/.test(text);
  if (!/\r\ncontent-type: application\/problem\+json/i.test(head) || !/\r\nsvc-request-id: /i.test(head)) {
    return false;
  }
  const problem = JSON.parse(text) as Body;
  return problem.status === status && codes.includes(problem.code) && typeof problem.detail === 'string';
}
