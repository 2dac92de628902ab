/** Requests to a destination over TLS, with 20 tokens in rotation, compared with a bare proxy to the same destination. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createCertificates } from '../../test/support/certificates.ts';
import { createUser } from '../../test/support/destination-receiver.ts';
import type { TlsOptions } from '../bare-proxy.ts';
import { type Candidate, compare, type Effort, figure, seriesOf, underLoad } from '../compare.ts';
import type { Environment } from '../environment.ts';
import { costRow, maxRow, type Row } from '../report.ts';
import { requestBytes, type Server, type Service, startServer, startService } from '../servers.ts';

const tokens = 20;
const number = '4242424242424242';
const bodyWith = (card: string) => ({ card: { number: card }, amount: 4200, currency: 'eur' });
const path = '/v1/charges';
/** Microseconds: 1,000 requests per second and core. */
const mostMicroseconds = 1000;

export async function useRows(environment: Environment, effort: Effort): Promise<Row[]> {
  const certificates = pems();
  const start = (options: Partial<TlsOptions>): Promise<Server> =>
    startServer(
      [process.execPath, '--no-env-file', join(import.meta.dirname, '../bare-proxy.ts')],
      {},
      JSON.stringify({ ...certificates, ...options }),
    );
  const destination = await start({ role: 'destination' });
  const origin = `https://127.0.0.1:${destination.port}`;
  const proxy = await start({ role: 'proxy', origin });
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-proxy-'));
  const recording = {
    SQLite: await start({ role: 'proxy', origin, database: `sqlite:${folder}/uses.db` }),
    PostgreSQL: await start({ role: 'proxy', origin, database: await environment.database() }),
  };
  const env = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1', SALLYPORT_USES_PER_TOKEN: '100000000' };
  const services = {
    SQLite: await startService(env),
    PostgreSQL: await startService({ ...env, DATABASE_URL: await environment.database() }),
  };
  const plain = [requestBytes('POST', path, 'key', bodyWith(number))];
  const candidates: Candidate[] = [
    underLoad('bare', proxy.pid, { port: proxy.port, requests: plain, status: 200 }),
  ];
  for (const [database, { pid, port }] of Object.entries(recording))
    candidates.push(underLoad(`recording, ${database}`, pid, { port, requests: plain, status: 200 }));
  for (const [database, service] of Object.entries(services))
    candidates.push(await candidate(database, service, origin, certificates.ca));
  // The first thousands of requests also compile the code.
  const warmUp = effort.warmUp * (effort.quick ? 1 : 4);
  const series = await compare(candidates, { ...effort, warmUp });
  for (const server of [...Object.values(services), ...Object.values(recording), proxy, destination])
    await server.stop();
  rmSync(folder, { recursive: true });
  const bare = seriesOf(series, 'bare');
  return Object.keys(services).flatMap((database) => {
    const ours = seriesOf(series, database);
    const spec = { group: 'uses', baseline: 'a bare proxy to the same destination, over TLS' };
    const work = `POST /proxy/NAME/… with one of ${tokens} tokens`;
    const time = ({ processor = 0 }) => processor;
    const cost = (of: typeof ours) => figure(of.samples.map(time));
    return [
      costRow(
        {
          ...spec,
          baseline: 'a proxy that writes one durable row per request to the same database',
          work: `${work}, ${database}`,
          unit: 'µs of CPU time',
          maxRatio: 1.5,
        },
        ours,
        seriesOf(series, `recording, ${database}`),
        time,
      ),
      costRow(
        { ...spec, work: `${work}, ${database}`, unit: 'µs of CPU time', maxRatio: 1.5 },
        ours,
        bare,
        time,
      ),
      maxRow(
        { ...spec, work: `${work}, per core, ${database}`, unit: 'µs of CPU time', max: mostMicroseconds },
        cost(ours),
        cost(bare),
      ),
      costRow({ ...spec, work: `${work}, p50, ${database}`, unit: 'ms' }, ours, bare, ({ p50 = 0 }) => p50),
    ];
  });
}

function pems(): Pick<TlsOptions, 'ca' | 'certificate' | 'key'> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-tls-'));
  const { authority, server } = createCertificates(folder, 'client', ',IP:127.0.0.1');
  const [ca, certificate, key] = [authority, server.certificate, server.key].map((file) =>
    readFileSync(file, 'utf8'),
  ) as [string, string, string];
  rmSync(folder, { recursive: true });
  return { ca, certificate, key };
}

async function candidate(name: string, service: Service, origin: string, ca: string): Promise<Candidate> {
  const key = await createUser((path, body) => service.call('POST', path, body), {
    origin,
    ca,
    headers: { authorization: 'Bearer sk_live_12345678' },
    requests: [
      {
        method: 'POST',
        path,
        placeholders: [{ at: '/card/number', from: '/number' }],
        reply: ['/id', '/status'],
      },
    ],
  });
  const requests: string[] = [];
  for (let at = 0; at < tokens; at++) {
    await service.call('POST', '/tokens', { id: `card-${at}`, data: { number } });
    requests.push(requestBytes('POST', `/proxy/payments${path}`, key, bodyWith(`{{ token: card-${at} }}`)));
  }
  return underLoad(name, service.pid, { port: service.port, requests, status: 200 });
}
