/** The cost of the audit log: reads of a 1 KB token with their entries, compared with the same reads without. */
import { compare, type Effort, seriesOf, underLoad } from '../compare.ts';
import { type Environment, type PreparedService, prepareService } from '../environment.ts';
import { type Row, rowOf } from '../report.ts';
import { requestBytes, startService } from '../servers.ts';

const databases = ['SQLite', 'PostgreSQL'] as const;
type Database = (typeof databases)[number];

export async function auditRows({ database, postgres }: Environment, effort: Effort): Promise<Row[]> {
  const rows: Row[] = [];
  for (const name of databases) {
    const start = async (reads: 'all' | 'off') => {
      const url = name === 'SQLite' ? {} : { DATABASE_URL: await database() };
      const service = await startService({ ...url, SALLYPORT_AUDIT_READS: reads });
      return prepareService(service, name === 'SQLite' ? undefined : postgres.pid);
    };
    const [recorded, unrecorded] = [await start('all'), await start('off')];
    rows.push(...(await readsOf(name, recorded, unrecorded, effort)));
    await recorded.stop();
    await unrecorded.stop();
  }
  return rows;
}

async function readsOf(
  name: Database,
  recorded: PreparedService,
  unrecorded: PreparedService,
  effort: Effort,
): Promise<Row[]> {
  const series = await compare(
    [...(await candidates('recorded', recorded)), ...(await candidates('not recorded', unrecorded))],
    effort,
  );
  const baseline = 'the same without audit entries';
  const spec = { group: 'audit', baseline, unit: '/s' };
  const row = (read: 'reveal' | 'mask', work: string, min: number) =>
    rowOf(
      { ...spec, work: `${work}, ${name}`, min },
      seriesOf(series, `${read} recorded`),
      seriesOf(series, `${read} not recorded`),
    );
  return [
    row('reveal', 'read the plaintext of a 1 KB token, with a durable audit entry', 0.4),
    row('mask', 'read a masked 1 KB token, with aggregated audit entries', 0.95),
  ];
}

/** Reads of many tokens, revealed for one application and masked for another. */
async function candidates(name: string, service: PreparedService) {
  const { backend, call, pid, port, database } = service;
  const mask = '{{ data.note | reveal_last: 4 }}';
  const token = { container: '/customers/42/', data: { note: 'x'.repeat(1000) }, mask };
  const created = await Promise.all(
    Array.from({ length: tokens }, () => call<{ id: string }>('POST', '/tokens', token, backend.key)),
  );
  const support = await call<{ key: string }>('POST', '/applications', {
    name: 'bench support',
    type: 'private',
    permissions: ['token:read'],
  });
  const reads = (key: string) => created.map(({ id }) => requestBytes('GET', `/tokens/${id}`, key));
  return [
    underLoad(`reveal ${name}`, pid, { port, requests: reads(backend.key), status: 200 }, database),
    underLoad(`mask ${name}`, pid, { port, requests: reads(support.key), status: 200 }, database),
  ];
}

const tokens = 200;
