/** The index tables of tokens, by container and by metadata. Rows are deleted with their token. */
import { type Awaitable, then } from '../domain/awaitable.ts';
import { canonicalContainer } from '../domain/rule.ts';
import type { Metadata } from '../domain/token.ts';
import type { Queries, Value } from './engine/db.ts';
import { Params } from './engine/sql-params.ts';

interface Indexed {
  readonly tenant_id: string;
  readonly seq: string;
  readonly container: string;
  readonly metadata: string | null;
}

export function indexToken(tx: Queries, token: Indexed): Awaitable<void> {
  return then(indexContainers(tx, token), () => indexMetadata(tx, token));
}

/** Writes only what has changed. */
export async function updateIndex(tx: Queries, old: Indexed, row: Indexed): Promise<void> {
  if (canonicalContainer(old.container) !== canonicalContainer(row.container)) {
    const params = new Params();
    await tx.run(
      `delete from token_containers where tenant_id = ${params.add(old.tenant_id)} and own in (0, 1)
         and seq = ${params.add(old.seq)} and container in ${params.list(containersOf(old))}`,
      params.values,
    );
    await indexContainers(tx, row);
  }
  if (old.metadata !== row.metadata) {
    await tx.run('delete from token_metadata where tenant_id = $1 and seq = $2', [old.tenant_id, old.seq]);
    await indexMetadata(tx, row);
  }
}

function indexContainers(tx: Queries, row: Indexed): Awaitable<void> {
  const { tenant_id, seq } = row;
  const rows = containersOf(row).map((container, above) => [tenant_id, container, above ? 0 : 1, seq]);
  return insertAll(tx, 'token_containers (tenant_id, container, own, seq)', rows);
}

function indexMetadata(tx: Queries, { tenant_id, seq, metadata }: Indexed): Awaitable<void> {
  if (metadata === null) return;
  const entries = Object.entries(JSON.parse(metadata) as Metadata);
  const rows = entries.map(([name, value]) => [tenant_id, name, value, seq]);
  return insertAll(tx, 'token_metadata (tenant_id, name, value, seq)', rows);
}

/** Its container first, then those above it. The root is left out, since it contains every token. */
function containersOf({ container }: Indexed): string[] {
  const own = canonicalContainer(container);
  const containers = [own];
  for (let end = own.lastIndexOf('/', own.length - 2); end > 0; end = own.lastIndexOf('/', end - 1))
    containers.push(own.slice(0, end + 1));
  return containers;
}

/** Inserts 8, 4, 2 or 1 rows at a time, to limit the number of prepared statements. */
function insertAll(tx: Queries, into: string, rows: readonly Value[][]): Awaitable<void> {
  if (rows.length === 0) return;
  const some = rows.slice(
    0,
    atOnce.find((count) => count <= rows.length),
  );
  const inserted = tx.run(insertionOf(into, some), some.flat());
  return then(inserted, () => insertAll(tx, into, rows.slice(some.length)));
}

const atOnce = [8, 4, 2, 1];
const insertions = new Map<string, string>();

/** Cached: there are two tables and four row counts. */
function insertionOf(into: string, rows: readonly Value[][]): string {
  const name = `${rows.length} ${into}`;
  const cached = insertions.get(name);
  if (cached !== undefined) return cached;
  const params = new Params();
  const values = rows.map((row) => `(${row.map((value) => params.add(value)).join(', ')})`);
  const sql = `insert into ${into} values ${values.join(', ')}`;
  insertions.set(name, sql);
  return sql;
}
