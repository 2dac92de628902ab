/** Resident memory while the service answers many mixed requests: it must not grow over the last half. */
import { connections, type Effort, figure, send } from '../compare.ts';
import { prepareService } from '../environment.ts';
import type { Row } from '../report.ts';
import { requestBytes, resident, startService } from '../servers.ts';
import { ours, tokenRequests } from './handmade.ts';

/** Requests in all. */
const full = 10_000_000;
const short = 200_000;
const readings = 40;

export async function memoryRows(_: unknown, effort: Effort): Promise<Row[]> {
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
  const total = effort.quick ? short : full;
  const memory: number[] = [];
  let done = 0;
  while (memory.length < readings) {
    const report = await send({ port, requests, status: 200, connections, seconds: effort.quick ? 0.1 : 1 });
    if (report.failed > 0) throw new Error(`unexpected responses: ${JSON.stringify(report.wrong)}`);
    done += report.done;
    while (memory.length < readings && done >= (total * (memory.length + 1)) / readings)
      memory.push(resident(pid));
  }
  await service.stop();
  const [before, after] = [memory.slice(readings / 2, (readings * 3) / 4), memory.slice((readings * 3) / 4)];
  const [earlier, later] = [figure(before), figure(after)];
  const grown = later.median / earlier.median;
  const maxRatio = 1.05;
  return [
    {
      group: 'start',
      work: `memory in the last quarter of ${total.toLocaleString('en-US')} mixed requests`,
      baseline: 'the quarter before',
      unit: 'MiB',
      ours: later,
      theirs: earlier,
      ratio: { median: grown, low: later.low / earlier.high, high: later.high / earlier.low },
      maxRatio,
      reached: grown <= maxRatio,
    },
  ];
}
