/** Removing an expired session, compared with creating it, by CPU time. */
import { type Candidate, compare, cpuTime, type Effort, NothingAnswered, seriesOf } from '../compare.ts';
import type { PreparedService } from '../environment.ts';
import { insertExpiredSessions } from '../expired-sessions.ts';
import { openFilledStore } from '../fill.ts';
import { costRow, type Row } from '../report.ts';
import { processorTime } from '../servers.ts';

/** As in the background job. */
const batchSize = 100;

interface FilledService {
  /** The number of rows, as text. */
  readonly name: string;
  readonly service: PreparedService;
  readonly tenant: string;
}

/** Sweeps in this process, so that only the sweep is measured. */
function sweepCandidate({ service, tenant }: FilledService, sessions: number): Candidate {
  return {
    name: 'sweep',
    measure: async () => {
      await insertExpiredSessions(service.databaseUrl, { tenant, page: service.page.id }, sessions);
      const { maintenance, close } = await openFilledStore(service.databaseUrl);
      const databaseTime = () => (service.database === undefined ? 0 : processorTime(service.database));
      const [used, before] = [process.cpuUsage(), databaseTime()];
      let removed = 0;
      for (let last = batchSize; last >= batchSize; removed += last)
        last = await maintenance.sweep(batchSize);
      const { user, system } = process.cpuUsage(used);
      const database = databaseTime() - before;
      await close();
      // The service may have swept some of the sessions at the same time.
      if (removed < sessions / 2) throw new NothingAnswered('sweep');
      const processor = user + system;
      return {
        rate: (removed * 1e6) / (processor + database),
        processor: processor / removed,
        ...(service.database !== undefined && { database: database / removed }),
      };
    },
  };
}

/** `create` measures whole requests, because sessions are created by requests. */
export async function sweepRow(
  filled: FilledService,
  create: Candidate,
  database: string,
  effort: Effort,
): Promise<Row> {
  const sweep = sweepCandidate(filled, effort.quick ? 1000 : 5000);
  const series = await compare([sweep, { ...create, name: 'create' }], effort);
  const spec = {
    group: 'growth',
    work: `sweep a session, ${database}, ${filled.name}`,
    baseline: 'creating a session over HTTP',
    unit: 'µs',
    maxRatio: 0.5,
  };
  return costRow(spec, seriesOf(series, 'sweep'), seriesOf(series, 'create'), cpuTime);
}
