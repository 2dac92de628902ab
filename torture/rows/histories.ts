import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type App, openApp } from '../../src/app.ts';
import { readConfig } from '../../src/config/settings.ts';
import { newTenant } from '../../src/operations/bootstrap.ts';
import { makeLog } from '../../src/telemetry/log.ts';
import { Clock, testMasterKey } from '../../test/support/test-server.ts';
import { Client } from '../client.ts';
import { unlimited } from '../fleet.ts';
import { Random } from '../random.ts';
import { History } from '../random-history.ts';
import { retryUnavailable } from '../retry.ts';
import { allDatabases, type Context, type Outcome, type Row } from '../row.ts';

export const histories: Row = {
  name: 'histories',
  requirement:
    '5,000 random histories of 30 commands, with the clock moved in between: every response as a simple model predicts, the same on both databases',
  databases: allDatabases,
  run,
};

const steps = 30;
/** Each step waits for the slowest of these, so that the clock moves between commands only. */
const atOnce = 100;
const sessionTtl = 3000;
/** Milliseconds between two steps, chosen so that expiries often coincide with a step. */
const moves = [0, 0, 1000, 1000, 1000, 2000, 1, 999];

async function run(context: Context): Promise<Outcome> {
  const count = context.sized(5000, 25);
  const clock = new Clock();
  const app = await open(context, clock);
  const client = new Client(app.url);
  context.defer(() => client.close());
  const differences: string[] = [];
  const chance = new Random(context.seed, 'clock');
  const fingerprint = new Bun.CryptoHasher('sha256');
  let brokenOff = 0;

  for (let first = 0; first < count; first += atOnce) {
    const batch = await Promise.all(
      Array.from({ length: Math.min(atOnce, count - first) }, (_, index) =>
        begin(context, app, client, clock, first + index),
      ),
    );
    for (let step = 0; step < steps; step++) {
      await Promise.all(batch.map((history) => history.step()));
      clock.advance(chance.one(moves));
      if (chance.chance(0.1)) await retryUnavailable(() => app.maintenance.sweep(1000));
    }
    for (const history of batch) {
      fingerprint.update(history.trace);
      if (history.brokenOff) brokenOff++;
      else if (history.difference !== undefined) differences.push(history.difference);
    }
  }
  return {
    figures: {
      histories: count,
      commands: count * steps,
      'aborted by a 503': brokenOff,
      'that differ from the model': differences.length,
      'is the fingerprint of all responses': fingerprint.digest('hex').slice(0, 12),
    },
    failures: differences.slice(0, 3),
  };
}

async function open(context: Context, clock: Clock): Promise<App> {
  const logged: string[] = [];
  const config = readConfig({
    env: {
      ...unlimited,
      PORT: '0',
      DATABASE_URL: await context.freshDatabase(),
      SALLYPORT_DATA_DIR: join(context.folder, 'data'),
      SALLYPORT_MASTER_KEY: testMasterKey,
      SALLYPORT_SESSION_TTL: String(sessionTtl / 1000),
      SALLYPORT_DRAIN: '0',
    },
  });
  const log = makeLog({
    level: 'info',
    asText: false,
    now: clock.now,
    write: (line) => logged.push(line),
  });
  const app = await openApp(config, { now: clock.now, log });
  context.defer(async () => {
    await app.close();
    writeFileSync(join(context.folder, 'said.log'), logged.join('\n'));
  });
  return app;
}

/** Each history has a separate tenant and random sequence, the same on both databases. */
async function begin(context: Context, { maintenance }: App, client: Client, clock: Clock, index: number) {
  const tenant = await retryUnavailable(async () => {
    const made = newTenant('history', clock.now());
    await maintenance.tenants.create(made);
    return made;
  });
  return new History({
    client,
    tenantId: tenant.id,
    owner: context.secrets.add(tenant.secret.reveal()),
    now: clock.now,
    sessionTtl,
    random: new Random(context.seed, `history ${index}`),
    secrets: context.secrets,
    switchTenant: (on) =>
      retryUnavailable(() =>
        on ? maintenance.tenants.enable(tenant.id) : maintenance.tenants.disable(tenant.id),
      ),
  });
}
