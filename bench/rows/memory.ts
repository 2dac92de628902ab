/** Resident memory while the service answers many mixed requests. It must not grow in the second half of the run. */
import { connections, figure, type Requests, send } from '../compare.ts';
import { prepareService } from '../environment.ts';
import { isReached, type Row } from '../report.ts';
import { requestBytes, resident, startService } from '../servers.ts';
import { ours, tokenRequests } from './handmade.ts';
import { pairRequests } from './latency.ts';

const readings = 40;

export function memoryRows(): Promise<Row[]> {
  return measure(1_000_000, 0.5);
}

export function longMemoryRows(): Promise<Row[]> {
  return measure(10_000_000, 2);
}

/** Sends reads and decisions, and for a tenth of the time creates and authorizes sessions. */
async function measure(total: number, seconds: number): Promise<Row[]> {
  const service = await prepareService(await startService());
  const { port, pid, backend, session } = service;
  const body = { credential: session, permission: 'invoice:read', resource: { container: '/customers/42/' } };
  const contestant = await ours('ours', service);
  const requests = [
    requestBytes('GET', '/applications/key', backend.key),
    requestBytes('POST', '/decisions', backend.key, body),
    ...(await tokenRequests(contestant, 'masked')).requests.slice(0, 4),
    ...(await tokenRequests(contestant, 'plaintext')).requests.slice(0, 1),
  ];
  const memory: number[] = [];
  let done = 0;
  const load = async (plan: Requests, requestsEach: number, duration: number) => {
    const report = await send({ connections, ...plan, seconds: duration });
    if (report.failed > 0) throw new Error(`unexpected responses: ${JSON.stringify(report.wrong)}`);
    done += report.completed * requestsEach;
  };
  while (memory.length < readings) {
    await load({ port, requests, status: 200 }, 1, seconds * 0.9);
    await load(pairRequests(service), 2, seconds * 0.1);
    while (memory.length < readings && done >= (total * (memory.length + 1)) / readings)
      memory.push(resident(pid));
  }
  await service.stop();
  const [before, after] = [memory.slice(readings / 2, (readings * 3) / 4), memory.slice((readings * 3) / 4)];
  const [earlier, later] = [figure(before), figure(after)];
  const row = {
    group: 'start',
    work: `memory in the last quarter of ${total.toLocaleString('en-US')} mixed requests`,
    baseline: 'the quarter before',
    unit: 'MiB',
    ours: later,
    theirs: earlier,
    ratio: {
      median: later.median / earlier.median,
      low: later.low / earlier.high,
      high: later.high / earlier.low,
    },
    maxRatio: 1.05,
  };
  return [{ ...row, reached: isReached(row) }];
}
