/** What must be true of the rows themselves, whatever happened: nothing is half done. */
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
    version: number | string;
    created_by: string;
    size: number | string;
  }[];
  readonly storage: readonly { application_id: string; tokens: number | string; bytes: number | string }[];
  readonly containers: readonly { seq: string }[];
  readonly audit: readonly { operation: string; entity_id: string }[];
}

/** A deleted Application expires at 0, and is swept later. */
const kept = 'expires_at is null or expires_at > 0';

const selects: Record<keyof Rows, string> = {
  applications: `select id, name, created_by, modified_at from applications where ${kept}`,
  keys: `select application_id from application_keys
    where application_id in (select id from applications where ${kept})`,
  sessions: 'select id, authorized_at from sessions',
  tokens: `select id, seq, version, created_by, (octet_length(data) + coalesce(octet_length(masked), 0)
    + coalesce(octet_length(mask), 0) + coalesce(octet_length(metadata), 0) + 4095) / 4096 * 4096 as size from tokens`,
  storage: `select application_id, sum(tokens) as tokens, sum(bytes) as bytes from application_storage
    group by application_id`,
  containers: 'select seq from token_containers where own = 1',
  audit: "select operation, entity_id from audit where result = 'success'",
};

/**
 * What is half done, each with how often. Takes for granted that a name is given to one Application, that the
 * id of a deleted Token is not used again, and that no Session has expired.
 */
export async function halfDone(databaseUrl: string): Promise<string[]> {
  const read = Object.entries(selects).map(async ([name, sql]) => [name, await runSql(databaseUrl, sql)]);
  const rows: Rows = Object.fromEntries(await Promise.all(read));
  const told = counted(rows.audit.map(({ operation, entity_id }) => `${operation} ${entity_id}`));
  const found = [
    ...ofApplications(rows, told),
    ...ofSessions(rows, told),
    ...ofTokens(rows, told),
    ...ofStorage(rows),
  ];
  return [...counted(found)].map(([flaw, count]) => `${count} × ${flaw}`);
}

type Counts = ReadonlyMap<string, number>;

function counted(names: readonly string[]): Counts {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** The first Application of a tenant is nobody's change. */
function ofApplications({ applications, keys, audit }: Rows, told: Counts): string[] {
  const keyed = counted(keys.map(({ application_id }) => application_id));
  const there = new Set(applications.map(({ id }) => id));
  const made = applications.filter(({ created_by }) => created_by !== null);
  const found = made.flatMap(({ id, modified_at }) => {
    const changes =
      (told.get(`application.update ${id}`) ?? 0) + (told.get(`application.regenerate ${id}`) ?? 0);
    return [
      keyed.get(id) !== 1 && 'an Application without exactly one key',
      told.get(`application.create ${id}`) !== 1 && 'an Application without the entry of its creation',
      (modified_at !== null) !== changes > 0 && 'an Application that its entries tell another story of',
      told.has(`application.delete ${id}`) && 'a deleted Application that is still there',
    ];
  });
  const lost = entitiesOf(audit, 'application.create').map(
    (id) =>
      !there.has(id) &&
      !told.has(`application.delete ${id}`) &&
      'an entry of an Application that is not there',
  );
  const names = [...counted(made.map(({ name }) => name)).values()];
  const twice = names.map((count) => count > 1 && 'an Application that was made twice');
  return [...found, ...lost, ...twice].filter((flaw) => flaw !== false);
}

function ofSessions({ sessions }: Rows, told: Counts): string[] {
  return sessions
    .flatMap(({ id, authorized_at }) => [
      told.get(`session.create ${id}`) !== 1 && 'a Session without the entry of its creation',
      (told.get(`session.authorize ${id}`) ?? 0) !== (authorized_at === null ? 0 : 1) &&
        'a Session that its entries tell another story of',
    ])
    .filter((flaw) => flaw !== false);
}

function ofTokens({ tokens, containers, audit }: Rows, told: Counts): string[] {
  const contained = counted(containers.map(({ seq }) => seq));
  const there = new Set(tokens.map(({ id }) => id));
  const found = tokens.flatMap(({ id, seq, version }) => [
    told.get(`token.create ${id}`) !== 1 && 'a Token without the entry of its creation',
    Number(version) !== 1 + (told.get(`token.update ${id}`) ?? 0) &&
      'a Token with another version than entries',
    contained.get(seq) !== 1 && 'a Token without its container',
    told.has(`token.delete ${id}`) && 'a deleted Token that is still there',
  ]);
  const lost = entitiesOf(audit, 'token.create').map(
    (id) => !there.has(id) && !told.has(`token.delete ${id}`) && 'an entry of a Token that is not there',
  );
  return [...found, ...lost].filter((flaw) => flaw !== false);
}

/** Of every Application that is there, as many Tokens and bytes are counted as it has stored. */
function ofStorage({ applications, tokens, storage }: Rows): string[] {
  const counted = new Map(storage.map((row) => [row.application_id, row]));
  const stored = Map.groupBy(tokens, ({ created_by }) => created_by);
  return applications.flatMap(({ id }) => {
    const own = stored.get(id) ?? [];
    const bytes = own.reduce((sum, { size }) => sum + Number(size), 0);
    const row = counted.get(id);
    const right = Number(row?.tokens ?? 0) === own.length && Number(row?.bytes ?? 0) === bytes;
    return right ? [] : ['an Application whose stored Tokens are counted wrongly'];
  });
}

function entitiesOf(audit: Rows['audit'], operation: string): string[] {
  return audit.filter((entry) => entry.operation === operation).map(({ entity_id }) => entity_id);
}
