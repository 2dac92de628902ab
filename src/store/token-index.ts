/** What lists find a Token by: every container it lies in, and its metadata. Both go when the Token goes. */
import { canonicalContainer } from '../domain/rule.ts';
import type { Metadata } from '../domain/token.ts';
import type { Queries, Value } from './db.ts';
import { Params } from './where.ts';

interface Indexed {
  readonly tenant_id: string;
  readonly seq: string;
  readonly id: string;
  readonly container: string;
  readonly metadata: string | null;
}

export async function indexToken(tx: Queries, token: Indexed): Promise<void> {
  await indexContainers(tx, token);
  await indexMetadata(tx, token);
}

/** No more of it than has changed. */
export async function indexAnew(tx: Queries, old: Indexed, row: Indexed): Promise<void> {
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
    await tx.run('delete from token_metadata where seq = $1', [old.seq]);
    await indexMetadata(tx, row);
  }
}

async function indexContainers(tx: Queries, row: Indexed): Promise<void> {
  const { tenant_id, seq, id } = row;
  const rows = containersOf(row).map((container, above) => [tenant_id, container, above ? 0 : 1, seq, id]);
  await insertAll(tx, 'token_containers (tenant_id, container, own, seq, id)', rows);
}

async function indexMetadata(tx: Queries, { tenant_id, seq, metadata }: Indexed): Promise<void> {
  if (metadata === null) return;
  const entries = Object.entries(JSON.parse(metadata) as Metadata);
  const rows = entries.map(([name, value]) => [tenant_id, name, value, seq]);
  await insertAll(tx, 'token_metadata (tenant_id, name, value, seq)', rows);
}

/** Its own first, then those above, but for the root, in which everything lies. */
function containersOf({ container }: Indexed): string[] {
  const own = canonicalContainer(container);
  const containers = [own];
  for (let end = own.lastIndexOf('/', own.length - 2); end > 0; end = own.lastIndexOf('/', end - 1))
    containers.push(own.slice(0, end + 1));
  return containers;
}

/** 8, 4, 2 or 1 at a time, so that there are few statements to keep prepared. */
async function insertAll(tx: Queries, into: string, rows: readonly Value[][]): Promise<void> {
  for (let at = 0, some = 8; at < rows.length; at += some) {
    while (some > rows.length - at) some /= 2;
    const values = rows.slice(at, at + some);
    await tx.run(insertionOf(into, values), values.flat());
  }
}

const insertions = new Map<string, string>();

/** Of as many rows as these, into one of two tables: always the same few texts. */
function insertionOf(into: string, rows: readonly Value[][]): string {
  const name = `${rows.length} ${into}`;
  const known = insertions.get(name);
  if (known !== undefined) return known;
  const params = new Params();
  const values = rows.map((row) => `(${row.map((value) => params.add(value)).join(', ')})`);
  const sql = `insert into ${into} values ${values.join(', ')}`;
  insertions.set(name, sql);
  return sql;
}
