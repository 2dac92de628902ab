/** Starts the service on data of its own, fills it, and starts a backend with a page that shows both doors. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openApp } from '../src/app.ts';
import { untilSignal } from '../src/cli/terminal/signals.ts';
import { readConfig } from '../src/config.ts';
import { type BackendSettings, startBackend } from './backend.ts';
import { seed } from './seed.ts';

const usualPort = 8090;

const told = untilSignal();
const folder = mkdtempSync(join(tmpdir(), 'sallyport-demo-'));
const ready = Promise.withResolvers<BackendSettings>();
const backend = listen();
const app = await openApp(
  readConfig({
    env: {
      PORT: '0',
      SALLYPORT_DATA_DIR: folder,
      SALLYPORT_SESSION_TTL: '60',
      SALLYPORT_DRAIN: '0',
      SALLYPORT_LOG_LEVEL: 'warn',
    },
  }),
);
const managementKey = app.bootstrapped.secret?.reveal() ?? '';
const seeded = await seed({ url: app.url, key: managementKey, origins: [backend.url.origin] });
ready.resolve({
  vault: app.url,
  publicKey: seeded.key('shop page'),
  privateKey: seeded.key('shop backend'),
  auditorKey: seeded.key('auditor'),
});

console.log(`The demo is on ${backend.url.origin}

  service         ${app.url}, with its console under /console and its reference under /docs
  management key  ${join(folder, 'management.key')}

Ctrl-C ends it, and removes all that it has kept.`);

await told;
await backend.stop(true);
await app.close();
rmSync(folder, { recursive: true, force: true });
process.exit();

/** On the port that was asked for; if none was, the usual one, or any if that is taken. */
function listen() {
  const asked = process.env.PORT;
  const start = (port: number) => startBackend({ port, settings: ready.promise });
  if (asked !== undefined) return start(Number(asked));
  try {
    return start(usualPort);
  } catch {
    return start(0);
  }
}
