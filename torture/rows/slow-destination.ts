/** Destinations that never answer, with more requests than wait for them. All other requests are answered. */
import { json, openReceiver, tokenUseRule } from '../../test/support/destination-receiver.ts';
import { type Body, clientsOf } from '../fleet-clients.ts';
import { NotFinished } from '../not-finished.ts';
import type { Context, Outcome, Row } from '../row.ts';

export const slowDestination: Row = {
  name: 'slow-destination',
  requirement:
    'two destinations hang, with 200 requests each: requests to other destinations, of the same and of another tenant, and all others are answered',
  databases: ['SQLite'],
  run,
};

const hangingRequests = 200;
const hanging = ['slow-1', 'slow-2'];

async function run(context: Context): Promise<Outcome> {
  const others = context.sized(200, 20);
  const env = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_USES_PER_TOKEN: '0' };
  const { fleet, call, must, application } = clientsOf(context, await context.start({ nodes: 1, env }));
  const receiver = await openReceiver();
  context.defer(() => receiver.close());
  const held: (() => void)[] = [];
  receiver.answer((socket, request) => {
    const answer = () => void socket.write(json({ id: 'ch_1' }));
    if (request.startsWith('POST /slow')) held.push(answer);
    else answer();
  });

  /** Creates destinations, a token, and the key of an application that can use it there. */
  async function prepare(names: readonly string[]): Promise<string> {
    const { key } = await fleet.tenant();
    const placeholders = [{ at: '/card' }];
    const requests = ['/slow', '/quick'].map((path) => ({ method: 'POST', path, placeholders }));
    const body = { origin: receiver.addressOrigin, ca: receiver.ca, timeout: 60, requests };
    const created: Body[] = [];
    for (const name of names)
      created.push(await must(0, 'POST', '/destinations', { key, body: { ...body, name } }));
    await must(0, 'POST', '/tokens', { key, body: { id: 'card', data: context.secrets.plaintext('card') } });
    const destinations = created.map(({ id }) => id);
    return (await application(key, { rules: [tokenUseRule('/', destinations)] })).key;
  }
  const use = async (key: string, name: string, path: string) =>
    (await call(0, 'POST', `/proxy/${name}${path}`, { key, body: { card: '{{ token: card }}' } })).status;

  const key = await prepare([...hanging, 'quick']);
  const other = await prepare(['quick']);
  const counts = new Map<number, number>();
  let open = 0;
  const slow = hanging.flatMap((name) =>
    Array.from({ length: hangingRequests }, async () => {
      open++;
      const status = await use(key, name, '/slow');
      open--;
      counts.set(status, (counts.get(status) ?? 0) + 1);
    }),
  );
  /** Whether all requests that can wait do, and the others were refused. */
  const isFull = () => held.length >= 40 && open < slow.length / 2;
  for (let turn = 0; !isFull(); turn++) {
    if (turn === 3000) throw new NotFinished('the slow requests did not arrive');
    await Bun.sleep(10);
  }

  const failures: string[] = [];
  const waiting = open;
  for (let at = 0; at < others; at++) {
    const statuses = [
      await use(key, 'quick', '/quick'),
      await use(other, 'quick', '/quick'),
      (await call(0, 'GET', '/tokens/card', { key })).status,
    ];
    if (statuses.some((status) => status !== 200))
      failures.push(`other requests were answered with ${statuses}`);
  }
  const stillHeld = held.length;
  if (stillHeld === 0) failures.push('no request was at a slow destination');
  const release = setInterval(() => held.splice(0).forEach((answer) => void answer()), 10);
  context.defer(() => clearInterval(release));
  await Promise.all(slow);
  for (const status of counts.keys())
    if (status !== 200 && status !== 503) failures.push(`slow requests were answered with ${status}`);
  return {
    figures: {
      'slow requests': slow.length,
      'at the destinations': stillHeld,
      waiting: waiting - stillHeld,
      'refused (503)': counts.get(503) ?? 0,
      'other requests answered': 3 * others,
    },
    failures: failures.slice(0, 10),
  };
}
