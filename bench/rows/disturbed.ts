/** Latency while background work runs, compared with the latency of the same service without it. */

import { Database } from 'bun:sqlite';
import { SQL } from 'bun';
import { backUpRepeatedly } from '../backup.ts';
import { type Candidate, compare, type Effort, type Sample, seriesOf } from '../compare.ts';
import { type Environment, type PreparedService, prepareService } from '../environment.ts';
import { insertExpiredSessions } from '../expired-sessions.ts';
import { costRow, type Row } from '../report.ts';
import { requestBytes, startService } from '../servers.ts';
import { atRate, maxRate } from './latency.ts';

const databases = ['SQLite', 'PostgreSQL'] as const;
type DatabaseName = (typeof databases)[number];

const sweptSessions = 100_000;
/** A sweep starts every 30 seconds. */
const windowSeconds = 35;
const calmSeconds = 10;
const warmUpSeconds = 20;
/** The largest data that fits into a request of 1 MiB. */
const largeData = 'x'.repeat(1_048_000);

/** A quick run has no sweep, because it is too short. */
export async function disturbedRows(environment: Environment, effort: Effort): Promise<Row[]> {
  const sweep = !effort.quick;
  const rows: Row[] = [];
  for (const database of databases) {
    const calm = await start(environment, database, settings);
    const busy = await start(environment, database, {
      ...settings,
      SALLYPORT_SINK: JSON.stringify(unreachableSink),
    });
    const rate = (await maxRate(targetOf('undisturbed', calm), effort)) / 4;
    await warmUp(busy, rate, effort);
    const candidates = [
      withSeconds(atRate(targetOf('undisturbed', calm), rate, effort), sweep ? calmSeconds : undefined),
      withSeconds(
        whileBusy(atRate(targetOf('disturbed', busy), rate, effort), busy, sweep),
        sweep ? windowSeconds : undefined,
      ),
    ];
    // One round: while backups run, PostgreSQL does not vacuum removed rows, and a second sweep would read them again.
    const series = await compare(candidates, { ...effort, rounds: 1, warmUp: 0 });
    await calm.stop();
    await busy.stop();
    const background = [
      ...(sweep ? ['100,000 sessions are swept'] : []),
      'a backup runs, 1 MiB tokens are written and a sink is down',
    ].join(', ');
    const spec = {
      group: 'latency',
      work: `GET /applications/key while ${background}, ${database}`,
      baseline: 'the same undisturbed',
      unit: 'ms (p99)',
      maxRatio: 3,
    };
    rows.push(
      costRow(spec, seriesOf(series, 'disturbed'), seriesOf(series, 'undisturbed'), ({ p99 = 0 }) => p99),
    );
  }
  return rows;
}

/**
 * Runs what will be measured, so that its code is compiled before. The large tokens are written by another application,
 * because the limits allow each application a burst.
 */
async function warmUp(service: PreparedService, rate: number, effort: Effort): Promise<void> {
  const target = targetOf('disturbed', service);
  await maxRate(target, effort);
  const other = { name: 'other', type: 'private', permissions: ['token:create'] };
  const { key } = await service.call<{ key: string }>('POST', '/applications', other);
  const running = { on: true };
  const work = writeLargeTokens(service, running, key);
  await atRate(target, rate, effort).measure(effort.quick ? 1 : warmUpSeconds);
  running.on = false;
  await work;
}

/** The default limits, which protect other clients from one that writes large tokens as fast as it can. */
const settings = {
  SALLYPORT_METRICS_PORT: '0',
  SALLYPORT_TOKENS_PER_MINUTE: '',
  SALLYPORT_TOKEN_BYTES_PER_MINUTE: '',
};

/** Nothing listens on port 9, so every delivery fails. */
const unreachableSink = {
  type: 'webhook',
  url: 'http://127.0.0.1:9/',
  secret: `whsec_${btoa('x'.repeat(32))}`,
  allow_private: true,
};

async function start(
  { database: createDatabase, postgres }: Environment,
  on: DatabaseName,
  env: Record<string, string>,
): Promise<PreparedService> {
  const url = on === 'SQLite' ? {} : { DATABASE_URL: await createDatabase() };
  return prepareService(await startService({ ...url, ...env }), on === 'SQLite' ? undefined : postgres.pid);
}

function targetOf(name: string, { pid, port, backend }: PreparedService) {
  const requests = [requestBytes('GET', '/applications/key', backend.key)];
  return { name, pid, requests: { port, requests, status: 200 } };
}

function withSeconds({ name, measure }: Candidate, fixed: number | undefined): Candidate {
  return { name, measure: (seconds) => measure(fixed ?? seconds) };
}

/** Measures until every disturbance has happened, and returns the slowest window. */
function whileBusy(reads: Candidate, service: PreparedService, sweep: boolean): Candidate {
  return {
    name: reads.name,
    measure: async (seconds): Promise<Sample> => {
      if (sweep) {
        const { tenant_id: tenant } = await service.call<{ tenant_id: string }>('GET', '/applications/key');
        await insertExpiredSessions(service.databaseUrl, { tenant, page: service.page.id }, sweptSessions);
      }
      const failuresBefore = await failedDeliveries(service);
      const running = { on: true };
      const work = Promise.all([
        backUpRepeatedly(service, running),
        writeLargeTokens(service, running, service.backend.key),
      ]);
      const samples: Sample[] = [];
      let [remaining, failures] = [0, 0];
      try {
        do {
          samples.push(await reads.measure(seconds));
          remaining = sweep ? await expiredSessions(service.databaseUrl) : 0;
          failures = (await failedDeliveries(service)) - failuresBefore;
        } while (remaining > 0 || (sweep && failures === 0));
      } finally {
        running.on = false;
      }
      const [backups, tokens] = await work;
      const counted = `${backups} backups, ${tokens} tokens, ${failures} failed deliveries`;
      console.log(`disturbed by ${counted}, in ${samples.length} windows`);
      if (backups === 0 || tokens === 0) throw new Error(`not all disturbances happened: ${counted}`);
      return samples.toSorted((one, other) => (other.p99 ?? 0) - (one.p99 ?? 0))[0] as Sample;
    },
  };
}

/** Writes and deletes tokens as fast as the limits of the service permit. */
async function writeLargeTokens(
  service: PreparedService,
  running: { on: boolean },
  key: string,
): Promise<number> {
  const token = { container: '/customers/42/', data: largeData };
  let written = 0;
  while (running.on) {
    const created = await service.response('POST', '/tokens', token, key);
    if (created.status === 429) await Bun.sleep(1000 * Number(created.headers['retry-after']));
    else {
      await service.call('DELETE', `/tokens/${JSON.parse(created.body).id}`);
      written++;
    }
  }
  return written;
}

async function failedDeliveries({ printed }: PreparedService): Promise<number> {
  const url = /^ *metrics +(http:\S+)/m.exec(printed)?.[1];
  const text = await (await fetch(url as string)).text();
  return Number(/^sallyport_sink_failures_total\S* (\d+)/m.exec(text)?.[1] ?? 0);
}

async function expiredSessions(databaseUrl: string): Promise<number> {
  const query = 'select count(*) as count from sessions where created_at = 1';
  if (databaseUrl.startsWith('sqlite:')) {
    const db = new Database(databaseUrl.slice('sqlite:'.length), { readonly: true });
    const { count } = db.query(query).get() as { count: number };
    db.close();
    return count;
  }
  const sql = new SQL(databaseUrl, { max: 1 });
  const [{ count }] = await sql.unsafe(query);
  await sql.close();
  return Number(count);
}
