/** A payment provider for the demo: an HTTPS server on this machine that accepts every card. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DestinationCreate } from '../sdk/src/sallyport.ts';
import type { RecordedRequest } from './recording-fetch.ts';

export interface Payments {
  readonly destination: DestinationCreate;
  stop(): Promise<void>;
}

/** Calls `report` with every charge, without the data of the card. Returns undefined if `openssl` is not installed. */
export function startPayments(
  folder: string,
  report: (request: RecordedRequest) => void,
): Payments | undefined {
  const certificate = createCertificate(folder);
  if (!certificate) return undefined;
  const key = crypto.randomUUID();
  let charges = 0;
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: certificate,
    routes: {
      '/v1/charges': {
        POST: async (request) => {
          const { amount, card } = (await request.json()) as { amount: number; card: Record<string, string> };
          const isKnown = request.headers.get('authorization') === `Bearer ${key}`;
          const body = { id: `ch_${++charges}`, status: isKnown ? 'paid' : 'refused', amount };
          const [status, at] = [isKnown ? 201 : 401, Date.now()];
          const received = Object.entries(card).map(([name, text]) => [name, `${text.length} digits`]);
          report({
            ...{
              id: crypto.randomUUID(),
              from: 'sallyport',
              to: 'payments',
              at,
              method: 'POST',
              path: '/v1/charges',
            },
            body: { amount, card: Object.fromEntries(received) },
            response: { status, body, took: 0 },
          });
          return Response.json(body, { status });
        },
      },
    },
  });
  return {
    destination: {
      name: 'payments',
      origin: `https://localhost:${server.port}`,
      ca: certificate.cert,
      headers: { authorization: `Bearer ${key}` },
      requests: [
        {
          method: 'POST',
          path: '/v1/charges',
          placeholders: [
            { at: '/card/number', from: '/number' },
            { at: '/card/exp_month', from: '/exp_month' },
            { at: '/card/exp_year', from: '/exp_year' },
            { at: '/card/code' },
          ],
          reply: ['/id', '/status', '/amount'],
        },
      ],
    },
    stop: () => server.stop(true),
  };
}

/** A self-signed certificate for `localhost`. */
function createCertificate(folder: string): { key: string; cert: string } | undefined {
  const [keyFile, file] = [join(folder, 'payments.key'), join(folder, 'payments.crt')];
  const { status } = spawnSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30'],
    ...[
      '-subj',
      '/CN=localhost',
      '-addext',
      'subjectAltName=DNS:localhost',
      '-keyout',
      keyFile,
      '-out',
      file,
    ],
  ]);
  if (status !== 0) return undefined;
  return { key: readFileSync(keyFile, 'utf8'), cert: readFileSync(file, 'utf8') };
}
