/** kill -9 during streams: the audit log tells what is known, and nothing is sent or served twice. */
import { openReceiver, tokenUseRule } from '../../test/support/destination-receiver.ts';
import { Client } from '../client.ts';
import { firstKey, startNode } from '../crash/node.ts';
import { retry503 } from '../fleet-clients.ts';
import { NotFinished } from '../not-finished.ts';
import { bothDatabases, type Context, type Outcome, type Row } from '../row.ts';
import { mortalDatabase } from './kill.ts';

export const streamKill: Row = {
  name: 'stream-kill',
  requirement:
    'kill -9 during streams: the log has the use, and an outcome only of streams that had ended, no request arrives twice, and the use of the token stays spent',
  databases: bothDatabases,
  run,
};

const streams = 8;
const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';
const event = (name: string) => `${name.length.toString(16)}\r\n${name}\r\n`;

async function run(context: Context): Promise<Outcome> {
  const kills = context.sized(30, 2);
  const command = [await context.executable()];
  const { url: databaseUrl } = await mortalDatabase(context);
  const receiver = await openReceiver();
  context.defer(() => receiver.close());
  // Every second stream ends after its first event.
  receiver.answer((socket, request) => {
    const isEnding = /^GET \/\d*[02468] /.test(request);
    socket.write(head + event('data: 1\n\n') + (isEnding ? '0\r\n\r\n' : ''));
  });
  const env = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_USES_PER_TOKEN: '0' };
  const start = () => startNode(context, { databaseUrl, command, env });
  let node = await start();
  const management = firstKey(context);
  const post = async (path: string, body: object) => {
    const client = new Client(node.url);
    const { status, text } = await retry503(() => client.call('POST', path, { key: management, body }));
    client.close();
    if (status !== 201) throw new Error(`POST ${path} returned ${status}: ${text}`);
    return JSON.parse(text);
  };
  const requests = [
    { method: 'GET', path: '/:stream', placeholders: [{ at: 'header:x-card' }], reply: 'stream' },
  ];
  const { addressOrigin: origin, ca } = receiver;
  const { id } = await post('/destinations', { name: 'events', origin, ca, requests });
  const user = { name: 'user', type: 'private', rules: [tokenUseRule('/', [id])] };
  const key = context.secrets.add((await post('/applications', user)).key);

  const failures: string[] = [];
  let [cut, whole] = [0, 0];
  for (let killed = 1; killed <= kills; killed++) {
    const names = Array.from({ length: streams }, (_, at) => `card-${killed}-${at}`);
    for (const name of names)
      await post('/tokens', { id: name, data: context.secrets.plaintext(`4929-${name}`), max_uses: 1 });
    const use = (name: string) =>
      fetch(`${node.url}/proxy/events/${name.split('-')[2]}`, {
        headers: { 'SVC-API-KEY': key, 'X-Card': `{{ token: ${name} }}`, 'SVC-REQUEST-ID': name },
      });
    let refused = 0;
    const reading = names.map(async (name) => {
      try {
        const response = await use(name);
        if (response.status !== 200) refused++;
        await response.text();
        return response.status === 200;
      } catch {
        // Cut by the kill, which comes later, or not sent.
        refused++;
        return false;
      }
    });
    const wanted = context.random.below(streams) + 1;
    for (let turn = 0; receiver.received.length + refused < wanted; turn++) {
      if (turn === 10_000) throw new NotFinished('the streams did not begin');
      await Bun.sleep(1);
    }
    if (context.random.chance(0.5)) await Promise.all(reading.filter((_, at) => at % 2 === 0));
    await node.kill();
    const ends = await Promise.all(reading);
    node = await start();
    const client = new Client(node.url);
    const arrived = receiver.received.splice(0).map((text) => /svc-request-id: (\S+)/.exec(text)?.[1]);
    if (new Set(arrived).size < arrived.length) failures.push('a request arrived twice');
    for (const [at, name] of names.entries()) {
      const path = `/logs?token=${name}&size=100`;
      const { text } = await retry503(() => client.call('GET', path, { key: management }));
      const operations = (JSON.parse(text).data as { operation: string }[]).map(({ operation }) => operation);
      const count = (operation: string) => operations.filter((each) => each === operation).length;
      const [uses, outcomes] = [count('token.use'), count('token.use.outcome')];
      const hasArrived = arrived.includes(name);
      if (uses > 1 || (hasArrived && uses === 0)) failures.push(`${name} has ${uses} entries of its use`);
      if (at % 2 === 1 && outcomes > 0) failures.push(`${name} was cut, and the log has an outcome`);
      if (at % 2 === 1 && ends[at]) failures.push(`${name} was cut, and its caller got an end`);
      if (uses === 0) continue;
      let again = await use(name);
      // The database may be slow after the start.
      for (let attempt = 0; again.status === 503 && attempt < 20; attempt++) {
        await Bun.sleep(100);
        again = await use(name);
      }
      if (again.status !== 404) failures.push(`${name} was used again: ${again.status}`);
      if (ends[at]) whole++;
      else cut++;
    }
    if (receiver.received.splice(0).length > 0) failures.push('a spent token arrived again');
    client.close();
  }
  await node.kill();
  return {
    figures: { kills, 'streams that were cut': cut, 'streams that had ended': whole },
    failures: failures.slice(0, 10),
  };
}
