import type { ClientResponse } from '../client.ts';
import { clientsOf, forEachConcurrently } from '../fleet-clients.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

const racers = 20;

export const noLostUpdate: Row = {
  name: 'if-match-race',
  requirement:
    '20 concurrent changes of one application or token with the same If-Match over 3 nodes, 2,000 rounds, half on each database: exactly one success each, which the next read shows',
  databases: allDatabases,
  run,
};

async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(1000, 12);
  const { fleet, call, must, application } = clientsOf(context, await context.fleet());
  const { key } = await fleet.tenant();
  const counts = new Map<number, number>();
  const failures: string[] = [];
  let odd = 0;

  async function raceForToken(round: number): Promise<void> {
    const { id } = await must(round, 'POST', '/tokens', { key, body: { data: 'x' } });
    await race(round, `/tokens/${id}`, 'PATCH', (racer) => ({ type: `t${racer}` }), 'type');
  }

  async function raceForApplication(round: number): Promise<void> {
    const { id } = await application(key);
    const body = (racer: number) => ({ name: `t${racer}`, permissions: ['mine:x'] });
    await race(round, `/applications/${id}`, 'PUT', body, 'name');
  }

  /** Each racer writes its own value into `field`. */
  async function race(
    round: number,
    path: string,
    method: string,
    body: (racer: number) => object,
    field: string,
  ): Promise<void> {
    const headers = [`If-Match: ${etagIn(await call(round, 'GET', path, { key }))}`];
    const answers = await Promise.all(
      Array.from({ length: racers }, (_, racer) =>
        call(racer, method, path, { key, body: body(racer), headers }),
      ),
    );
    for (const { status } of answers) counts.set(status, (counts.get(status) ?? 0) + 1);
    const winners = answers.flatMap(({ status }, racer) => (status === 200 ? [`t${racer}`] : []));
    const stored = (await must(round + 1, 'GET', path, { key }))[field];
    if (winners.length === 1 && stored === winners[0]) return;
    odd++;
    failures.push(`round ${round}: ${winners.length} ${method} succeeded, then the ${field} was ${stored}`);
  }

  await forEachConcurrently(rounds, 2, (round) =>
    round % 2 === 0 ? raceForToken(round) : raceForApplication(round),
  );
  for (const [status, count] of counts)
    if (![200, 412, 503].includes(status)) failures.push(`${count} changes returned ${status}`);
  return {
    figures: {
      rounds,
      successes: counts.get(200) ?? 0,
      'rejected as changed': counts.get(412) ?? 0,
      'retried (503)': counts.get(503) ?? 0,
      'rounds without exactly one success': odd,
    },
    failures: failures.slice(0, 10),
  };
}

function etagIn({ head }: ClientResponse): string {
  return /^etag: (.*)$/im.exec(head)?.[1]?.trim() ?? '';
}
