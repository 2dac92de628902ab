/** `npm run demo`: starts the service with sample data, and a backend with a page that shows how sessions work. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openApp } from '../src/app.ts';
import { untilSignal } from '../src/cli/terminal/signals.ts';
import { readConfig } from '../src/config/settings.ts';
import { type BackendSettings, startBackend } from './backend.ts';
import { startPayments } from './payments.ts';
import { seed } from './seed.ts';

const defaultPort = 8090;

const stopped = untilSignal();
const folder = mkdtempSync(join(tmpdir(), 'sallyport-demo-'));
const ready = Promise.withResolvers<BackendSettings>();
const { backend, report } = listen();
const payments = startPayments(folder, report);
const port = freePort();
const framesUrl = `http://localhost:${port}`;
const app = await openApp(
  readConfig({
    env: {
      PORT: String(port),
      SALLYPORT_FRAMES_URL: framesUrl,
      SALLYPORT_DESTINATION_NETWORKS: '127.0.0.0/8,::1/128',
      SALLYPORT_DATA_DIR: folder,
      SALLYPORT_SESSION_TTL: '60',
      SALLYPORT_DRAIN: '0',
      SALLYPORT_LOG_LEVEL: 'warn',
    },
  }),
);
const managementKey = app.bootstrapped.secret?.reveal() ?? '';
const seeded = await seed({
  url: app.url,
  key: managementKey,
  origins: [backend.url.origin],
  payments: payments?.destination,
});
ready.resolve({
  serviceUrl: app.url,
  framesUrl,
  publicKey: seeded.key('shop page'),
  privateKey: seeded.key('shop backend'),
  auditorKey: seeded.key('auditor'),
  chargeKey: payments && seeded.key('checkout'),
});

console.log(`Demo: ${backend.url.origin}
A card in frames: ${backend.url.origin}/card

  service         ${app.url} (console: /console, API reference: /docs)
  management key  ${join(folder, 'management.key')}

Press Ctrl-C to stop. All demo data is deleted.`);

await stopped;
await backend.stop(true);
await payments?.stop();
await app.close();
rmSync(folder, { recursive: true, force: true });
process.exit();

/** The origin of the frames has the port, so it must be known before the service starts. */
function freePort(): number {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() });
  const { port } = server;
  void server.stop(true);
  return port as number;
}

/** Uses PORT if set; otherwise the default port, or any free port if that is taken. */
function listen() {
  const requested = process.env.PORT;
  const start = (port: number) => startBackend({ port, settings: ready.promise });
  if (requested !== undefined) return start(Number(requested));
  try {
    return start(defaultPort);
  } catch {
    return start(0);
  }
}
