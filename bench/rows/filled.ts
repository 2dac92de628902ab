/** Start time and memory of a service whose database has a million of each entity, beside one that is empty. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connections, type Effort, figure, send } from '../compare.ts';
import { type Environment, prepareService } from '../environment.ts';
import { fill } from '../fill.ts';
import { maxRow, type Row } from '../report.ts';
import { requestBytes, resident, startService } from '../servers.ts';

export async function filledRows(environment: Environment, { quick, seconds }: Effort): Promise<Row[]> {
  const count = quick ? 10_000 : 1_000_000;
  const rows: Row[] = [];
  for (const database of ['SQLite', 'PostgreSQL']) {
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-filled-'));
    const url = database === 'SQLite' ? `sqlite:${folder}/sallyport.db` : await environment.database();
    const env = { DATABASE_URL: url, SALLYPORT_MANAGEMENT_KEY_FILE: join(folder, 'management.key') };
    /** Milliseconds until it is ready, and MiB after requests with the keys. */
    const measure = async (keys: readonly string[]) => {
      const began = performance.now();
      const { port, pid, stop } = await startService(env);
      const ready = performance.now() - began;
      const requests = keys.map((key) => requestBytes('GET', '/applications/key', key));
      const report = await send({ port, connections, requests, status: 200, seconds });
      if (report.failed > 0) throw new Error(JSON.stringify(report.wrong));
      const memory = resident(pid);
      await stop();
      return { ready, memory };
    };
    const service = await prepareService(await startService(env));
    const { tenant_id: tenant } = await service.call<{ tenant_id: string }>('GET', '/applications/key');
    await service.stop();
    const empty = await measure([service.backend.key]);
    const { sessions } = await fill(url, { tenant, page: service.page.id }, count, 1000);
    const filled = await measure(sessions);
    rmSync(folder, { recursive: true });
    const of = `with ${count.toLocaleString('en-US')} tokens, sessions and applications, ${database}`;
    const spec = { group: 'start', baseline: 'the same with an empty database' };
    rows.push(
      maxRow(
        { ...spec, work: `start ${of}`, unit: 'ms', max: 500 },
        figure([filled.ready]),
        figure([empty.ready]),
      ),
      maxRow(
        { ...spec, work: `memory ${of}`, unit: 'MiB', max: 160 },
        figure([filled.memory]),
        figure([empty.memory]),
      ),
    );
  }
  return rows;
}
