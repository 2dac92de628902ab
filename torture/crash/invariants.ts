/** Invariants of the database rows after a crash: no change is half applied. */
import { auditEntries } from '../../test/support/database.ts';
import { runSql } from '../../test/support/test-store.ts';

interface Rows {
  readonly applications: readonly {
    id: string;
    name: string;
    created_by: string | null;
    modified_at: unknown;
  }[];
  readonly keys: readonly { application_id: string }[];
  readonly sessions: readonly { id: string; authorized_at: unknown }[];
  readonly tokens: readonly {
    id: string;
    seq: string;
    content_version: number | string;
    created_by: string;
    size: number | string;
    /** Null if `token_contents` has no row for the token, or a row of another size. */
    contents: string | null;
  }[];
  readonly storage: readonly { application_id: string; tokens: number | string; bytes: number | string }[];
  readonly records: readonly { application_id: string; bytes: number | string }[];
  readonly containers: readonly { seq: string }[];
  readonly audit: readonly { operation: string; entity_id: string }[];
}

/** A deleted application has `expires_at` 0 until it is swept. */
const notDeleted = 'expires_at is null or expires_at > 0';

const selects: Record<Exclude<keyof Rows, 'audit'>, string> = {
  applications: `select id, name, created_by, modified_at from applications where ${notDeleted}`,
  keys: `select application_id from application_keys
    where application_id in (select id from applications where ${notDeleted})`,
  sessions: 'select id, authorized_at from sessions',
  tokens: `select t.id, t.seq, t.content_version, t.created_by, c.seq as contents,
      t.bytes as size
    from tokens t left join token_contents c on c.tenant_id = t.tenant_id and c.seq = t.seq
      and octet_length(c.data) = t.data_bytes and coalesce(octet_length(c.masked), 0) = t.masked_bytes`,
  storage: `select application_id, sum(tokens) as tokens, sum(bytes) as bytes from application_storage
    group by application_id`,
  records: 'select application_id, sum(bytes) as bytes from idempotency group by application_id',
  containers: 'select seq from token_containers where own = 1',
};

/**
 * Broken invariants with their counts. Assumes that application names are unique, that ids of deleted tokens are not
 * reused, that every update of a token changes its data, and that no session has expired.
 */
export async function brokenInvariants(databaseUrl: string): Promise<string[]> {
  const read = Object.entries(selects).map(async ([name, sql]) => [name, await runSql(databaseUrl, sql)]);
  const audit = (await auditEntries(databaseUrl))
    .filter(({ result }) => result === 'success')
    .map(({ operation, entity }) => ({ operation, entity_id: entity?.id ?? '' }));
  const rows: Rows = { ...Object.fromEntries(await Promise.all(read)), audit };
  const entries = countNames(rows.audit.map(({ operation, entity_id }) => `${operation} ${entity_id}`));
  const found = [
    ...applicationErrors(rows, entries),
    ...sessionErrors(rows, entries),
    ...tokenErrors(rows, entries),
    ...storageErrors(rows),
  ];
  return [...countNames(found)].map(([flaw, count]) => `${count} × ${flaw}`);
}

type Counts = ReadonlyMap<string, number>;

function countNames(names: readonly string[]): Counts {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** The first application of a tenant has no audit entry. */
function applicationErrors({ applications, keys, audit }: Rows, entries: Counts): string[] {
  const keyed = countNames(keys.map(({ application_id }) => application_id));
  const existing = new Set(applications.map(({ id }) => id));
  const made = applications.filter(({ created_by }) => created_by !== null);
  const found = made.flatMap(({ id, modified_at }) => {
    const changes =
      (entries.get(`application.update ${id}`) ?? 0) + (entries.get(`application.regenerate ${id}`) ?? 0);
    return [
      keyed.get(id) !== 1 && 'an application without exactly one key',
      entries.get(`application.create ${id}`) !== 1 && 'an application without its creation entry',
      (modified_at !== null) !== changes > 0 && 'an application that contradicts its audit entries',
      entries.has(`application.delete ${id}`) && 'a deleted application that still exists',
    ];
  });
  const lost = entitiesOf(audit, 'application.create').map(
    (id) =>
      !existing.has(id) &&
      !entries.has(`application.delete ${id}`) &&
      'an audit entry of a missing application',
  );
  const names = [...countNames(made.map(({ name }) => name)).values()];
  const twice = names.map((count) => count > 1 && 'an application created twice');
  return [...found, ...lost, ...twice].filter((flaw) => flaw !== false);
}

function sessionErrors({ sessions }: Rows, entries: Counts): string[] {
  return sessions
    .flatMap(({ id, authorized_at }) => [
      entries.get(`session.create ${id}`) !== 1 && 'a session without its creation entry',
      (entries.get(`session.authorize ${id}`) ?? 0) !== (authorized_at === null ? 0 : 1) &&
        'a session that contradicts its audit entries',
    ])
    .filter((flaw) => flaw !== false);
}

function tokenErrors({ tokens, containers, audit }: Rows, entries: Counts): string[] {
  const contained = countNames(containers.map(({ seq }) => seq));
  const existing = new Set(tokens.map(({ id }) => id));
  const found = tokens.flatMap(({ id, seq, content_version, contents }) => [
    entries.get(`token.create ${id}`) !== 1 && 'a token without its creation entry',
    Number(content_version) !== 1 + (entries.get(`token.update ${id}`) ?? 0) &&
      'a token whose content version differs from its entries',
    contents === null && 'a token whose data is missing or has another size',
    contained.get(seq) !== 1 && 'a token without its container row',
    entries.has(`token.delete ${id}`) && 'a deleted token that still exists',
  ]);
  const lost = entitiesOf(audit, 'token.create').map(
    (id) => !existing.has(id) && !entries.has(`token.delete ${id}`) && 'an audit entry of a missing token',
  );
  return [...found, ...lost].filter((flaw) => flaw !== false);
}

/** The stored token and byte counts of each application match its tokens and idempotency records. */
function storageErrors({ applications, tokens, records, storage }: Rows): string[] {
  const counted = new Map(storage.map((row) => [row.application_id, row]));
  const recorded = new Map(records.map((row) => [row.application_id, Number(row.bytes)]));
  const stored = Map.groupBy(tokens, ({ created_by }) => created_by);
  return applications.flatMap(({ id }) => {
    const own = stored.get(id) ?? [];
    const bytes = own.reduce((sum, { size }) => sum + Number(size), recorded.get(id) ?? 0);
    const row = counted.get(id);
    const right = Number(row?.tokens ?? 0) === own.length && Number(row?.bytes ?? 0) === bytes;
    return right ? [] : ['an application with wrong storage counts'];
  });
}

function entitiesOf(audit: Rows['audit'], operation: string): string[] {
  return audit.filter((entry) => entry.operation === operation).map(({ entity_id }) => entity_id);
}
