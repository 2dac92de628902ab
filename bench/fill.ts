/**
 * Fills a database with applications, sessions and tokens. Most rows are inserted with SQL, with random digests and
 * data of realistic length. The samples are created through the store, so that their keys are valid and their data
 * can be decrypted. Creation times are spread over the last month, so that samples are all over the tables.
 */
import { Database } from 'bun:sqlite';
import { randomBytes } from 'node:crypto';
import { parseMasterKeys } from '../src/db/keys/cipher.ts';
import { JsonText } from '../src/domain/json-text.ts';
import { mint, newId } from '../src/domain/key.ts';
import { type OpenedStore, openStore } from '../src/store/open.ts';
import type { Store } from '../src/store/store.ts';
import type { Owner } from './environment.ts';
import { insertPostgresRows } from './fill-postgres.ts';
import { masterKey } from './servers.ts';

export interface Samples {
  readonly applications: { readonly id: string; readonly key: string }[];
  readonly sessions: string[];
  readonly tokens: string[];
}

/** The number of samples that are created concurrently. */
const concurrency = 25;
const month = 30 * 86_400_000;
const day = 86_400_000;

export async function openFilledStore(databaseUrl: string): Promise<OpenedStore> {
  const [key] = parseMasterKeys(masterKey);
  if (!key) throw new Error('no master key');
  const masters = { current: () => key, find: () => key, ids: () => [key.id] };
  return openStore(databaseUrl, { masters, timeout: 60_000 });
}

/** Creates `count` applications, sessions and tokens, and returns `samples` of each. */
export async function fill(
  databaseUrl: string,
  owner: Owner,
  count: number,
  samples: number,
): Promise<Samples> {
  const { store, close } = await openFilledStore(databaseUrl);
  await store.tokens.get(owner.tenant, 'none');
  const sampled = await createSamples(store, owner, samples);
  await close();
  if (databaseUrl.startsWith('sqlite:'))
    insertRows(databaseUrl.slice('sqlite:'.length), owner, count - samples);
  else await insertPostgresRows(databaseUrl, owner, count - samples);
  return sampled;
}

async function createSamples(store: Store, { tenant, page }: Owner, samples: number): Promise<Samples> {
  const tag = (await store.tenants.get(tenant))?.tag as string;
  const start = Date.now() - month;
  const times = Array.from({ length: samples }, (_, at) => start + Math.floor((at * month) / samples));
  const grants = { permissions: ['application:read', 'token:read'], rules: [] };
  const applications = await inBatches(times, async (createdAt, at) => {
    const [id, key] = [newId(createdAt), mint('pvt', tag)];
    const created = { id, name: `sample ${at}`, type: 'private' as const, ...grants, createdAt };
    const open = { createdBy: undefined, expiresAt: undefined };
    await store.applications.create(tenant, { ...created, ...open }, key);
    return { id, key: key.secret.reveal() };
  });
  const sessions = await inBatches(times, async (createdAt) => {
    const [key, nonce] = [mint('ses', tag), mint('non', tag)];
    const digests = { key: key.digest, nonce: nonce.digest };
    const lives = { createdAt, expiresAt: Date.now() + day };
    await store.sessions.create(tenant, { id: newId(createdAt), applicationId: page, ...digests, ...lives });
    await store.sessions.authorize(tenant, nonce.digest, {
      ...grants,
      by: page,
      ceiling: undefined,
      expiresAt: undefined,
      maxLifetime: month * 2,
    });
    return key.secret.reveal();
  });
  const tokens = await inBatches(times, async (at) => {
    const id = newId(at);
    const data = JsonText.of({ note: 'x'.repeat(100) });
    const content = {
      type: 'token',
      container: '/customers/42/',
      data,
      search: { id },
      searchValues: { id },
    };
    const none = { mask: undefined, masked: undefined, metadata: undefined, expiresAt: undefined };
    await store.tokens.create(tenant, id, { ...content, ...none }, { by: page, at });
    return id;
  });
  return { applications, sessions, tokens };
}

async function inBatches<T, R>(
  items: readonly T[],
  create: (item: T, at: number) => Promise<R>,
): Promise<R[]> {
  const created: R[] = [];
  while (created.length < items.length) {
    const batch = items.slice(created.length, created.length + concurrency);
    created.push(...(await Promise.all(batch.map((item, at) => create(item, created.length + at)))));
  }
  return created;
}

function prepareSessionInsert(db: Database) {
  return db.prepare(
    `insert into sessions (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules, created_at,
       expires_at, authorized_at) values (?1, ?2, ?3, randomblob(32), randomblob(32), '["application:read","token:read"]', '[]', ?4, ?5, ?4)`,
  );
}

function insertRows(path: string, { tenant, page }: Owner, count: number): void {
  const db = new Database(path, { strict: true });
  for (const pragma of ['synchronous = off', 'cache_size = -400000', 'busy_timeout = 5000'])
    db.run(`pragma ${pragma}`);
  const application = db.prepare(
    `insert into applications (tenant_id, id, name, name_folded, type, permissions, rules, created_at)
     values (?1, ?2, ?3, ?3, 'private', '["application:read","token:read"]', '[]', ?4)`,
  );
  const key = db.prepare(
    `insert into application_keys (tenant_id, application_id, id, digest, ending, created_at)
     values (?1, ?2, ?3, randomblob(32), 'abcd', ?4)`,
  );
  const session = prepareSessionInsert(db);
  const token = db.prepare(
    `insert into tokens (tenant_id, seq, id, type, container, container_folded, content_version, data_bytes,
       masked_bytes, created_by, created_at)
     values (?1, ?2, ?2, 'token', ?3, ?3, 1, 140, 0, ?4, ?5)`,
  );
  const contents = db.prepare(
    'insert into token_contents (tenant_id, seq, data) values (?1, ?2, randomblob(140))',
  );
  const container = db.prepare(
    'insert into token_containers (tenant_id, container, own, seq) values (?1, ?2, ?3, ?4)',
  );
  const search = db.prepare(
    'insert into token_search (tenant_id, digest, container, seq) values (?1, ?2, ?3, ?4)',
  );
  const start = Date.now() - month;
  db.transaction(() => {
    for (let at = 0; at < count; at++) {
      const createdAt = start + Math.floor((at * month) / count);
      const id = newId(createdAt);
      application.run(tenant, id, `filled ${at}`, createdAt);
      key.run(tenant, id, newId(createdAt), createdAt);
      session.run(tenant, page, newId(createdAt), createdAt, Date.now() + day + at);
      const own = `/customers/${(at % 50) * 20}/`;
      token.run(tenant, id, own, page, createdAt);
      contents.run(tenant, id);
      container.run(tenant, '/customers/', 0, id);
      container.run(tenant, own, 1, id);
      const digest = randomBytes(32).toString('base64url');
      search.run(tenant, digest, own, id);
    }
  })();
  db.run('pragma wal_checkpoint(truncate)');
  db.close();
}
