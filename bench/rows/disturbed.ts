/** Latency while background work runs, compared with the latency of the same service without it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Candidate, compare, type Effort, type Sample, seriesOf } from '../compare.ts';
import { type Environment, type PreparedService, prepareService } from '../environment.ts';
import { insertExpiredSessions } from '../expired-sessions.ts';
import { costRow, type Row } from '../report.ts';
import { requestBytes, startService } from '../servers.ts';
import { atHalfRate } from './latency.ts';

const databases = ['SQLite', 'PostgreSQL'] as const;
type DatabaseName = (typeof databases)[number];

/** A sweep starts every 30 seconds. */
const sweepInterval = 30;

export async function disturbedRows(environment: Environment, effort: Effort): Promise<Row[]> {
  const rows: Row[] = [];
  const longer = effort.quick ? effort : { ...effort, rounds: 3, seconds: sweepInterval + 5 };
  for (const database of databases) {
    const calm = await start(environment, database);
    // Nothing listens on port 9, so every delivery fails.
    const sink = {
      type: 'webhook',
      url: 'http://127.0.0.1:9/',
      secret: `whsec_${btoa('x'.repeat(32))}`,
      allow_private: true,
    };
    const busy = await start(environment, database, { SALLYPORT_SINK: JSON.stringify(sink) });
    const undisturbed = await readsAtHalfRate('undisturbed', calm, effort);
    const disturbed = whileBusy(await readsAtHalfRate('disturbed', busy, effort), busy, database, effort);
    const series = await compare([undisturbed, disturbed], longer);
    await calm.stop();
    await busy.stop();
    const spec = {
      group: 'latency',
      work: `GET /applications/key while sessions are swept, a backup runs, large tokens are written and a sink is down, ${database}`,
      baseline: 'the same undisturbed',
      unit: 'ms (p99)',
      maxRatio: 1.5,
    };
    rows.push(
      costRow(spec, seriesOf(series, 'disturbed'), seriesOf(series, 'undisturbed'), ({ p99 = 0 }) => p99),
    );
  }
  return rows;
}

async function start(
  { database: createDatabase, postgres }: Environment,
  on: DatabaseName,
  env: Record<string, string> = {},
): Promise<PreparedService> {
  const url = on === 'SQLite' ? {} : { DATABASE_URL: await createDatabase() };
  return prepareService(await startService({ ...url, ...env }), on === 'SQLite' ? undefined : postgres.pid);
}

function readsAtHalfRate(name: string, service: PreparedService, effort: Effort): Promise<Candidate> {
  const requests = [requestBytes('GET', '/applications/key', service.backend.key)];
  const { pid, port } = service;
  return atHalfRate({ name, pid, requests: { port, requests, status: 200 } }, effort);
}

function whileBusy(
  reads: Candidate,
  service: PreparedService,
  database: DatabaseName,
  effort: Effort,
): Candidate {
  return {
    name: reads.name,
    measure: async (seconds): Promise<Sample> => {
      const { tenant_id: tenant } = await service.call<{ tenant_id: string }>('GET', '/applications/key');
      const owner = { tenant, page: service.page.id };
      await insertExpiredSessions(service.databaseUrl, owner, effort.quick ? 10_000 : 100_000);
      const running = { on: true };
      const work = [backUpRepeatedly(service, database, running), writeLargeTokens(service, running)];
      try {
        return await reads.measure(seconds);
      } finally {
        running.on = false;
        await Promise.all(work);
      }
    },
  };
}

async function backUpRepeatedly(
  service: PreparedService,
  database: DatabaseName,
  running: { on: boolean },
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-backup-'));
  for (let number = 0; running.on; number++) {
    const file = join(folder, String(number));
    const own = [
      process.execPath,
      '--no-env-file',
      join(import.meta.dirname, '../../src/main.ts'),
      'backup',
      file,
    ];
    const command =
      database === 'SQLite' ? own : ['pg_dump', '--format=custom', `--file=${file}`, service.databaseUrl];
    const child = Bun.spawn(command, {
      env: { ...process.env, ...service.settings },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const errors = await new Response(child.stderr).text();
    if ((await child.exited) !== 0) throw new Error(`the backup failed: ${errors}`);
    rmSync(file, { force: true });
  }
  rmSync(folder, { recursive: true });
}

async function writeLargeTokens(service: PreparedService, running: { on: boolean }): Promise<void> {
  const token = { container: '/customers/42/', data: 'x'.repeat(1_000_000) };
  while (running.on) {
    const { id } = await service.call<{ id: string }>('POST', '/tokens', token);
    await service.call('DELETE', `/tokens/${id}`);
  }
}
