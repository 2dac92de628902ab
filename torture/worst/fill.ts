/** Inserts rows with SQL, far more than the API could create during a run. */
import { metadataDigest } from '../../src/store/token-index.ts';
import type { Database } from '../../test/support/test-server.ts';
import { runSql } from '../../test/support/test-store.ts';

/** Names of metadata entries. Each token has all but one of them. */
export const metadataNames = Array.from({ length: 10 }, (_, at) => `m${at}`);

/** The number of tokens in each container. */
export const tokensOfEach = 100;

function metadataBut(without: string): string {
  const names = metadataNames.filter((name) => name !== without);
  return JSON.stringify(Object.fromEntries(names.map((name) => [name, 'v'])));
}

interface Words {
  /** Builds an id that ends with a number. */
  id(prefix: string, number: string): string;
  readonly bytes: string;
  digest(seed: string): string;
}

const dialects: Record<Database['name'], Words> = {
  SQLite: {
    id: (prefix, number) => `printf('${prefix}-0000-7000-8000-%012x', ${number})`,
    bytes: "x'00'",
    digest: () => 'randomblob(32)',
  },
  PostgreSQL: {
    id: (prefix, number) => `cast('${prefix}-0000-7000-8000-' || lpad(to_hex(${number}), 12, '0') as uuid)`,
    bytes: "cast('\\x00' as bytea)",
    digest: (seed) => `sha256(cast(${seed} || gen_random_uuid() as bytea))`,
  },
};

export class Filler {
  readonly #url: string;
  readonly #words: Words;
  readonly #isPostgres: boolean;

  constructor(url: string, database: Database['name']) {
    this.#url = url;
    this.#words = dialects[database];
    this.#isPostgres = database === 'PostgreSQL';
  }

  /**
   * Tokens with ids from `filled-1` on, in containers from `/filled/0/` on. Their data cannot be decrypted. Each has
   * nine of the ten metadata entries, so every filter alone passes most of them, and all ten together pass none.
   */
  async tokens(tenant: string, count: number): Promise<void> {
    const seq = this.#words.id('01900000', 'n');
    const container = `'/filled/' || (n / ${tokensOfEach}) || '/'`;
    const metadata = `case n % ${metadataNames.length} ${metadataNames
      .map((without, at) => `when ${at} then '${metadataBut(without)}'`)
      .join(' ')} end`;
    const now = Date.now();
    await this.#insert(
      `tokens (tenant_id, seq, id, type, container, container_folded, content_version, data_bytes, masked_bytes,
        metadata, created_at)`,
      `'${tenant}', ${seq}, 'filled-' || n, 'token', ${container}, ${container}, 1, 1, 0, ${metadata}, ${now} + n`,
      count,
    );
    await this.#insert(
      'token_contents (tenant_id, seq, data)',
      `'${tenant}', ${seq}, ${this.#words.bytes}`,
      count,
    );
    for (const [own, path] of [
      [0, "'/filled/'"],
      [1, container],
    ]) {
      await this.#insert(
        'token_containers (tenant_id, container, own, seq)',
        `'${tenant}', ${path}, ${own}, ${seq}`,
        count,
      );
    }
    for (const [at, name] of metadataNames.entries()) {
      await this.#insert(
        'token_metadata (tenant_id, digest, seq)',
        `'${tenant}', '${metadataDigest([name, 'v'])}', ${seq}`,
        count,
        `n % ${metadataNames.length} <> ${at}`,
      );
    }
    await this.#analyze('tokens', 'token_contents', 'token_containers', 'token_metadata');
  }

  /**
   * Audit entries of 100 actors. The first 50 actors only create applications, the others only update them. The running
   * service seals the entries. They have no valid MAC, so `audit verify` fails afterwards.
   */
  async log(tenant: string, count: number): Promise<void> {
    const actor = `cast(${this.#words.id('01900001', 'n % 100')} as text)`;
    const entity = `cast(${this.#words.id('01900002', 'n')} as text)`;
    const operation = "case when n % 100 < 50 then 'application.create' else 'application.update' end";
    const entry = `'{"actor":{"kind":"application","id":"' || ${actor} || '"},"operation":"' || ${operation} ||
      '","entity":{"kind":"application","id":"' || ${entity} || '"},"result":"success","from":{}}'`;
    await this.#insert(
      'audit_pending (tenant_id, id, at, format, mac, entry)',
      `'${tenant}', ${this.#words.id('01900009', 'n')}, ${Date.now() - count} + n, 1, ${this.#words.digest("'mac' || n")}, ${entry}`,
      count,
    );
    const pending = `select 1 from audit_pending where tenant_id = '${tenant}' limit 1`;
    while ((await runSql(this.#url, pending)).length > 0) await Bun.sleep(200);
    await this.#analyze('audit_segments', 'audit_index');
  }

  /** Id of an actor in the log, 0 to 99. */
  actor(number: number): string {
    return `01900001-0000-7000-8000-${number.toString(16).padStart(12, '0')}`;
  }

  /** Sessions of one application with a lifetime of one day and unknown keys. */
  async sessions(tenant: string, application: string, count: number): Promise<void> {
    const now = Date.now();
    await this.#insert(
      'sessions (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules, created_at, expires_at, authorized_at)',
      `'${tenant}', '${application}', ${this.#words.id('01900003', 'n')}, ${this.#words.digest("'key' || n")},
        ${this.#words.digest("'nonce' || n")}, '["token:read"]', '[]', ${now}, ${now + 86_400_000} + n, ${now}`,
      count,
    );
    await this.#analyze('sessions');
  }

  /** Copies an application without its keys. Returns the ids. */
  async copyApplications(tenant: string, original: string, count: number): Promise<string[]> {
    const columns = 'name, name_folded, type, permissions, rules';
    await runSql(
      this.#url,
      `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})
       insert into applications (tenant_id, id, created_at, ${columns})
       select tenant_id, ${this.#words.id('01900004', 'n')}, ${Date.now()}, ${columns}
       from applications, numbers where tenant_id = '${tenant}' and id = '${original}'`,
    );
    await this.#analyze('applications');
    return Array.from(
      { length: count },
      (_, at) => `01900004-0000-7000-8000-${(at + 1).toString(16).padStart(12, '0')}`,
    );
  }

  /** Copies the authorized session of a tenant. */
  async copySessions(tenant: string, count: number): Promise<void> {
    const columns =
      'application_id, permissions, rules, created_at, expires_at, authorized_at, authorized_by, authorizer_digest, unlimited_by';
    await runSql(
      this.#url,
      `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})
       insert into sessions (tenant_id, id, key_digest, nonce_digest, ${columns})
       select tenant_id, ${this.#words.id('01900005', 'n')}, ${this.#words.digest("'key' || n")},
         ${this.#words.digest("'nonce' || n")}, ${columns}
       from sessions, numbers where tenant_id = '${tenant}' and authorized_at is not null`,
    );
    await this.#analyze('sessions');
  }

  /** Removes the rows on PostgreSQL. Otherwise the search for secrets at the end of the run would read all of them. */
  async clear(): Promise<void> {
    if (this.#isPostgres)
      await runSql(
        this.#url,
        'truncate token_metadata, token_containers, token_contents, tokens, audit_segments, audit_index',
      );
  }

  async #insert(into: string, values: string, count: number, where = '1 = 1'): Promise<void> {
    await runSql(
      this.#url,
      `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})
       insert into ${into} select ${values} from numbers where ${where}`,
    );
  }

  async #analyze(...tables: string[]): Promise<void> {
    if (this.#isPostgres) await runSql(this.#url, `analyze ${tables.join(', ')}`);
  }
}
