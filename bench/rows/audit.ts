/** The cost of the audit log: reads of a 1 KB token with audit entries, compared with reads without entries. */
import { type Candidate, compare, type Effort, seriesOf, underLoad } from '../compare.ts';
import { type Environment, prepareService } from '../environment.ts';
import { type Row, rowOf } from '../report.ts';
import { requestBytes, startService } from '../servers.ts';

const databases = ['SQLite', 'PostgreSQL'] as const;
type Database = (typeof databases)[number];

const reads = {
  reveal: { work: 'read the plaintext of a 1 KB token, with a durable audit entry', min: 0.45 },
  mask: { work: 'read a masked 1 KB token, with aggregated audit entries', min: 0.95 },
} as const;
type Read = keyof typeof reads;

const tokens = 100;

export async function auditRows(environment: Environment, effort: Effort): Promise<Row[]> {
  const rows: Row[] = [];
  for (const database of databases)
    for (const read of ['reveal', 'mask'] as const)
      rows.push(await compareReads(environment, database, read, effort));
  return rows;
}

/** Starts new services each time, because a service seals entries for some time after the reads. */
async function compareReads(
  environment: Environment,
  database: Database,
  read: Read,
  effort: Effort,
): Promise<Row> {
  const recorded = await startReads(environment, database, read, 'all');
  const unrecorded = await startReads(environment, database, read, 'off');
  const series = await compare([recorded.candidate, unrecorded.candidate], effort);
  await recorded.stop();
  await unrecorded.stop();
  const { work, min } = reads[read];
  return rowOf(
    {
      group: 'audit',
      work: `${work}, ${database}`,
      baseline: 'the same without audit entries',
      unit: '/s',
      min,
    },
    seriesOf(series, 'all'),
    seriesOf(series, 'off'),
  );
}

/** A service with tokens that one application reads revealed, and another one masked. */
async function startReads(
  { database: createDatabase, postgres }: Environment,
  database: Database,
  read: Read,
  audited: 'all' | 'off',
): Promise<{ candidate: Candidate; stop(): Promise<void> }> {
  const url = database === 'SQLite' ? {} : { DATABASE_URL: await createDatabase() };
  const service = await prepareService(await startService({ ...url, SALLYPORT_AUDIT_READS: audited }));
  const { backend, call, pid, port, stop } = service;
  const mask = '{{ data.note | reveal_last: 4 }}';
  const token = { container: '/customers/42/', data: { note: 'x'.repeat(1000) }, mask };
  const created = await Promise.all(
    Array.from({ length: tokens }, () => call<{ id: string }>('POST', '/tokens', token, backend.key)),
  );
  const support = { name: 'bench support', type: 'private', permissions: ['token:read'] };
  const { key } = read === 'reveal' ? backend : await call<{ key: string }>('POST', '/applications', support);
  const requests = created.map(({ id }) => requestBytes('GET', `/tokens/${id}`, key));
  const server = database === 'SQLite' ? undefined : postgres.pid;
  return { candidate: underLoad(audited, pid, { port, requests, status: 200 }, server), stop };
}
