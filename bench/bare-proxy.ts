/**
 * `destination`: an HTTPS server with a fixed reply. `proxy`: a bare `Bun.serve` that reads the key from the request
 * headers, sends the body to the destination with `fetch` and returns its reply. With `database`, it first writes a
 * durable row. Standard input has the options.
 */
import { Database } from 'bun:sqlite';
import { SQL } from 'bun';

export interface TlsOptions {
  readonly role: 'destination' | 'proxy';
  readonly ca: string;
  readonly certificate: string;
  readonly key: string;
  /** Only for the proxy. */
  readonly origin?: string;
  readonly database?: string;
}

/** Writes a durable row for a request. */
async function writerOf(url: string): Promise<(body: string) => unknown> {
  const table = (bytes: string) => `create table uses (id text primary key, at bigint, body ${bytes})`;
  const insert = 'insert into uses (id, at, body) values ($1, $2, $3)';
  const values = (body: string) => [crypto.randomUUID(), Date.now(), Buffer.from(body)] as const;
  if (!url.startsWith('sqlite:')) {
    const sql = new SQL(url, { max: 10 });
    await sql.unsafe(table('bytea'));
    return (body) => sql.unsafe(insert, [...values(body)]);
  }
  const db = new Database(url.slice('sqlite:'.length));
  db.run('pragma journal_mode = wal');
  db.run('pragma synchronous = full');
  db.run(table('blob'));
  const statement = db.prepare(insert);
  return (body) => statement.run(...values(body));
}

if (import.meta.main) {
  const { role, ca, certificate, key, origin, database } = (await Bun.stdin.json()) as TlsOptions;
  const write = database === undefined ? undefined : await writerOf(database);
  const { port } = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    ...(role === 'destination' && { tls: { cert: certificate, key } }),
    fetch: async (request) => {
      const body = await request.text();
      if (role === 'destination') return Response.json({ id: 'ch_1', status: 'paid', secret: 'hidden' });
      if (!request.headers.has('svc-api-key')) return new Response('', { status: 401 });
      await write?.(body);
      const { pathname } = new URL(request.url);
      const headers = { 'content-type': 'application/json', authorization: 'Bearer sk_live_12345678' };
      const reply = await fetch(origin + pathname, { method: 'POST', headers, body, tls: { ca } });
      return new Response(await reply.text(), {
        status: reply.status,
        headers: { 'content-type': 'application/json' },
      });
    },
  });
  console.log(`listening on http://127.0.0.1:${port}`);
}
