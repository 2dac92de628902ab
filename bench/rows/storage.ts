/** Bytes in the database per application, session, token and audit entry, indexes included. */
import { Database } from 'bun:sqlite';
import { SQL } from 'bun';
import { connections, type Effort, type Requests, send } from '../compare.ts';
import { type Environment, type PreparedService, prepareService } from '../environment.ts';
import { maxRow, type Row } from '../report.ts';
import { requestBytes, startService } from '../servers.ts';
import { ours, tokenRequests } from './handmade.ts';
import { pairRequests } from './latency.ts';

const kinds = {
  application: { work: 'an application with a key', tables: ['applications', 'application_keys'] },
  session: { work: 'an authorized session with a rule', tables: ['sessions'] },
  token: { work: 'a token of 1 KB', tables: ['tokens', 'token_contents', 'token_containers'] },
  audit: { work: 'a sealed audit entry', tables: ['audit_segments', 'audit_index'], max: 500 },
} as const;
type Kind = keyof typeof kinds;

const databases = ['SQLite', 'PostgreSQL'] as const;

export async function storageRows(environment: Environment, effort: Effort): Promise<Row[]> {
  const rows: Row[] = [];
  for (const database of databases) {
    const url = database === 'SQLite' ? {} : { DATABASE_URL: await environment.database() };
    const service = await prepareService(await startService(url));
    rows.push(...(await rowsOf(service, database, effort)));
    await service.stop();
  }
  return rows;
}

async function rowsOf(service: PreparedService, database: string, effort: Effort): Promise<Row[]> {
  const { databaseUrl } = service;
  const before = await sizes(databaseUrl);
  await fill(service, effort);
  await untilSealed(databaseUrl);
  const after = await sizes(databaseUrl);
  const rows: Row[] = [];
  for (const kind of Object.keys(kinds) as Kind[]) {
    const spec = kinds[kind];
    const bytes = (after[kind].bytes - before[kind].bytes) / (after[kind].rows - before[kind].rows);
    const json = await jsonBytes(service, kind);
    rows.push(
      maxRow(
        {
          group: 'storage',
          work: `${spec.work}, ${database}`,
          baseline: 'its JSON in the API',
          unit: 'bytes',
          ...('max' in spec && { max: spec.max }),
        },
        { median: bytes, low: bytes, high: bytes },
        { median: json, low: json, high: json },
      ),
    );
  }
  return rows;
}

/** Creates all kinds through the API, then reads the plaintext of many tokens. */
async function fill(service: PreparedService, effort: Effort): Promise<void> {
  const { port, key, backend } = service;
  const seconds = effort.quick ? 0.4 : 4;
  const load = async (plan: Requests) => {
    const { failed, wrong } = await send({ connections, ...plan, seconds });
    if (failed > 0) throw new Error(`unexpected responses: ${JSON.stringify(wrong)}`);
  };
  const application = { name: 'stored', type: 'private', permissions: ['application:read'] };
  await load({ port, requests: [requestBytes('POST', '/applications', key, application)], status: 201 });
  await load(await tokenRequests(await ours('ours', service), 'create'));
  await load(pairRequests(service));
  const ids = await query<{ id: string }>(service.databaseUrl, 'select id from tokens limit 5000');
  const requests = ids.map(({ id }) => requestBytes('GET', `/tokens/${id}`, backend.key));
  await load({ port, requests, status: 200 });
}

/** Bytes of the newest entity in the JSON of the API. Tokens are read with their plaintext. */
async function jsonBytes({ call, key, backend }: PreparedService, kind: Kind): Promise<number> {
  const path = { application: '/applications', session: '/sessions', token: '/tokens', audit: '/logs' }[kind];
  const as = kind === 'token' ? backend.key : key;
  const { data } = await call<{ data: unknown[] }>('GET', `${path}?size=1`, undefined, as);
  return JSON.stringify(data[0]).length;
}

async function untilSealed(databaseUrl: string): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt++) {
    const [row] = await query<{ pending: number | string }>(
      databaseUrl,
      'select count(*) as pending from audit_pending',
    );
    if (Number(row?.pending) === 0) return;
    await Bun.sleep(200);
  }
  throw new Error('the audit entries were not sealed within a minute');
}

type Sizes = Record<Kind, { readonly bytes: number; readonly rows: number }>;

async function sizes(databaseUrl: string): Promise<Sizes> {
  const found: [Kind, Sizes[Kind]][] = [];
  for (const kind of Object.keys(kinds) as Kind[]) {
    let bytes = 0;
    for (const table of kinds[kind].tables) bytes += await tableBytes(databaseUrl, table);
    const rows = kind === 'audit' ? 'sum(last_seq - first_seq + 1)' : 'count(*)';
    found.push([
      kind,
      { bytes, rows: await numberOf(databaseUrl, `select ${rows} as value from ${kinds[kind].tables[0]}`) },
    ]);
  }
  return Object.fromEntries(found) as Sizes;
}

/** Bytes of a table with its indexes. */
export function tableBytes(databaseUrl: string, table: string): Promise<number> {
  return numberOf(
    databaseUrl,
    databaseUrl.startsWith('sqlite:')
      ? `select sum(pgsize) as value from dbstat where name in (select name from sqlite_schema where tbl_name = '${table}')`
      : `select pg_total_relation_size('${table}') as value`,
  );
}

async function numberOf(databaseUrl: string, text: string): Promise<number> {
  return Number((await query<{ value: number | string }>(databaseUrl, text))[0]?.value);
}

export async function query<T>(databaseUrl: string, text: string): Promise<T[]> {
  if (databaseUrl.startsWith('sqlite:')) {
    const db = new Database(databaseUrl.slice('sqlite:'.length), { readonly: true });
    const rows = db.query(text).all() as T[];
    db.close();
    return rows;
  }
  const sql = new SQL(databaseUrl, { max: 1 });
  const rows = (await sql.unsafe(text)) as T[];
  await sql.close();
  return rows;
}
