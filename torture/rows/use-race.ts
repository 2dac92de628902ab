import { clientsOf } from '../fleet-clients.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

const racers = 24;
const maxUses = 5;
const container = '/customers/42/';

export const exactUses: Row = {
  name: 'use-race',
  requirement:
    '24 concurrent reads and changes with a delegation of 5 uses over 3 nodes, 1,000 rounds, half on each database, some with a killed node: at most 5 succeed, and exactly 5 without a killed node',
  databases: allDatabases,
  run,
};

/** Kills a node in the middle of the last rounds, which the other nodes then answer. */
async function run(context: Context): Promise<Outcome> {
  const rounds = context.sized(500, 8);
  const kills = [Math.floor(rounds / 2), rounds - 1];
  const { fleet, call, must, application } = clientsOf(context, await context.start());
  const { key } = await fleet.tenant();
  const permissions = ['token:read', 'token:create'];
  const backend = await application(key, { permissions });
  await must(0, 'POST', '/tokens', { key, body: { id: 'card', container, data: 'x' } });
  const alive = fleet.nodes.map(({ number }) => number);
  const counts = new Map<string, number>();
  const failures: string[] = [];

  for (let round = 0; round < rounds; round++) {
    const body = { permissions, max_uses: maxUses };
    const { key: delegation } = await must(alive[0] as number, 'POST', '/delegations', {
      key: backend.key,
      body,
    });
    const created = `${container}${round}/`;
    const ask = (racer: number) => {
      const node = alive[racer % alive.length] as number;
      if (racer % 2 === 0) return call(node, 'GET', '/tokens/card', { key: delegation });
      return call(node, 'POST', '/tokens', { key: delegation, body: { container: created, data: 'x' } });
    };
    const outcomeOf = (racer: number) =>
      ask(racer).then(
        ({ status }) => status,
        () => 'lost' as const,
      );
    const asked = Array.from({ length: racers }, (_, racer) => outcomeOf(racer));
    const killed = kills.includes(round) ? alive.pop() : undefined;
    if (killed !== undefined) {
      await asked[0];
      fleet.at(killed).kill('SIGKILL');
    }
    const outcomes = await Promise.all(asked);
    // Spends the uses that are left after a 503 or a kill.
    for (let more = 0; more <= maxUses; more++) outcomes.push(await outcomeOf(0));
    for (const outcome of outcomes) counts.set(String(outcome), (counts.get(String(outcome)) ?? 0) + 1);
    const successes = outcomes.filter((outcome) => typeof outcome === 'number' && outcome < 300).length;
    const unsure = outcomes.filter((outcome) => outcome === 'lost' || outcome === 503).length;
    const stored = (await must(alive[0] as number, 'GET', `/tokens?container=${created}`, { key }))
      .pagination;
    if (successes > maxUses || successes + unsure < maxUses)
      failures.push(
        `round ${round}: ${successes} requests succeeded, ${unsure} were lost or answered with 503`,
      );
    if (stored.total_items > maxUses)
      failures.push(`round ${round}: ${stored.total_items} tokens were created`);
    if (outcomes.at(-1) !== 401)
      failures.push(`round ${round}: after all uses, the answer was ${outcomes.at(-1)}`);
  }

  const expected = ['200', '201', '401', '503', 'lost'];
  for (const [outcome, count] of counts)
    if (!expected.includes(outcome)) failures.push(`${count} requests returned ${outcome}`);
  return {
    figures: {
      rounds,
      successes: (counts.get('200') ?? 0) + (counts.get('201') ?? 0),
      rejected: counts.get('401') ?? 0,
      'retried (503)': counts.get('503') ?? 0,
      'lost with a killed node': counts.get('lost') ?? 0,
    },
    failures: failures.slice(0, 10),
  };
}
