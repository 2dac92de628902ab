/**
 * A token service as a team might write it: Fastify, AES-256-GCM from node:crypto, and keys looked up by digest. It
 * writes an audit row in the transaction of a change, and before it sends plaintext. Uses node:sqlite or pg. Prints a
 * key that may create tokens and read plaintext, and a second one that reads masked values.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes, randomUUID } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import fastify from 'fastify';
import pg from 'pg';

const tables = (bytes) => `
  create table applications (digest ${bytes} primary key, id text not null, reveal integer not null);
  create table tokens (id text primary key, container text not null, data ${bytes} not null, masked text not null,
    created_at bigint not null);
  create table audit (id text primary key, at bigint not null, actor text not null, operation text not null,
    token text not null);
  create index audit_by_token on audit (token);`;

const sql = {
  find: 'select id, reveal from applications where digest = $1',
  token: 'select data, masked, container, created_at from tokens where id = $1',
  masked: 'select masked, container, created_at from tokens where id = $1',
  create: 'insert into tokens (id, container, data, masked, created_at) values ($1, $2, $3, $4, $5)',
  audit: 'insert into audit (id, at, actor, operation, token) values ($1, $2, $3, $4, $5)',
  application: 'insert into applications (digest, id, reveal) values ($1, $2, $3)',
};

async function openSqlite(path) {
  const database = new DatabaseSync(path);
  database.exec('pragma journal_mode = wal');
  database.exec('pragma synchronous = full');
  database.exec(tables('blob'));
  const prepared = Object.fromEntries(
    Object.entries(sql).map(([name, text]) => [name, database.prepare(text.replaceAll('$', '?'))]),
  );
  const begin = database.prepare('begin immediate');
  const commit = database.prepare('commit');
  return {
    get: async (name, values) => prepared[name].get(...values),
    run: async (changes) => {
      begin.run();
      for (const [name, values] of changes) prepared[name].run(...values);
      commit.run();
    },
  };
}

async function openPostgres(connectionString) {
  const pool = new pg.Pool({ connectionString, max: 10 });
  await pool.query(tables('bytea'));
  const query = (on, name, values) => on.query({ name, text: sql[name], values });
  return {
    get: async (name, values) => (await query(pool, name, values)).rows[0],
    run: async (changes) => {
      if (changes.length === 1) return query(pool, ...changes[0]);
      const client = await pool.connect();
      try {
        await client.query('begin');
        for (const change of changes) await query(client, ...change);
        await client.query('commit');
      } finally {
        client.release();
      }
    },
  };
}

const url = process.env.DATABASE;
const db = await (url.startsWith('sqlite:') ? openSqlite(url.slice('sqlite:'.length)) : openPostgres(url));
const secret = randomBytes(32);
const digestOf = (key) => createHash('sha256').update(key).digest();

function encrypt(text, id) {
  const iv = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', secret, iv);
  cipher.setAAD(Buffer.from(id));
  return Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(bytes, id) {
  const data = Buffer.from(bytes);
  const decipher = createDecipheriv('aes-256-gcm', secret, data.subarray(0, 12));
  decipher.setAAD(Buffer.from(id));
  decipher.setAuthTag(data.subarray(-16));
  return decipher.update(data.subarray(12, -16), undefined, 'utf8') + decipher.final('utf8');
}

async function createApplication(reveal) {
  const key = randomBytes(32).toString('base64url');
  await db.run([['application', [digestOf(key), randomUUID(), reveal ? 1 : 0]]]);
  return key;
}

const app = fastify();
app.decorateRequest('application', null);
app.addHook('onRequest', async (request, reply) => {
  const key = request.headers['svc-api-key'];
  request.application = key && (await db.get('find', [digestOf(key)]));
  if (!request.application) return reply.code(401).send({ code: 'unauthorized' });
});

const auditOf = (request, operation, id) => [
  'audit',
  [randomUUID(), Date.now(), request.application.id, operation, id],
];

const created = {
  type: 'object',
  required: ['container', 'data'],
  properties: { container: { type: 'string', maxLength: 250 }, data: {}, mask: { type: 'string' } },
};
app.post('/tokens', { schema: { body: created } }, async (request, reply) => {
  const { container, data } = request.body;
  const id = randomUUID();
  const text = JSON.stringify(data);
  const createdAt = Date.now();
  await db.run([
    ['create', [id, container, encrypt(text, id), `${'*'.repeat(12)}${data.last4}`, createdAt]],
    auditOf(request, 'token.create', id),
  ]);
  return reply.code(201).send({ id, container, data, created_at: new Date(createdAt).toISOString() });
});

app.get('/tokens/:id', async (request, reply) => {
  const { id } = request.params;
  const { reveal } = request.application;
  const token = await db.get(reveal ? 'token' : 'masked', [id]);
  if (!token) return reply.code(404).send({ code: 'not_found' });
  const data = reveal ? JSON.parse(decrypt(token.data, id)) : token.masked;
  if (reveal) await db.run([auditOf(request, 'token.read', id)]);
  const created_at = new Date(Number(token.created_at)).toISOString();
  return { id, container: token.container, data, created_at };
});

const [key, masked] = [await createApplication(true), await createApplication(false)];
const address = await app.listen({ port: 0, host: '127.0.0.1' });
console.log(`key ${key}\nmasked ${masked}`);
console.log(`listening on ${address}`);
