/** Alert rules and metrics as Prometheus reads them. Each alert fires from a real cause. */

import { describe, expect, test } from 'bun:test';
import { readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { SQL } from 'bun';
import { byOperator } from '../src/domain/audit.ts';
import { temporaryFolder } from './support/cleanup.ts';
import { failInserts, hideTable } from './support/database.ts';
import { createUser, json, openReceiver } from './support/destination-receiver.ts';
import { mount, noMount, unmount } from './support/mount.ts';
import { freePort, startPostgres } from './support/postgres.ts';
import { duringTransaction } from './support/postgres-locks.ts';
import { program, type Service, startService } from './support/service.ts';
import { openSignInFixture, setRealTime, TestProvider } from './support/sign-in.ts';
import { openOtlpReceiver } from './support/sink-receivers.ts';
import { isMissing } from './support/skip.ts';
import { type Database, openTestServer, postgres, sqlite, type TestServer } from './support/test-server.ts';
import { runSql } from './support/test-store.ts';
import { until } from './support/until.ts';

const alertsFile = join(import.meta.dirname, '../deploy/prometheus/alerts.yaml');

const noPromtool = isMissing(Bun.which('promtool') !== null, 'tests of the alert rules: no promtool found');
function promtool(args: string[], input = ''): { code: number; output: string } {
  const { exitCode, stdout, stderr } = Bun.spawnSync(['promtool', ...args], { stdin: Buffer.from(input) });
  return { code: exitCode, output: `${stdout}${stderr}` };
}

test.skipIf(noPromtool)('the alert rules are valid, and fire exactly when their tests say', () => {
  expect(promtool(['check', 'rules', alertsFile])).toMatchObject({ code: 0 });
  const tests = alertsFile.replace('.yaml', '.test.yaml');
  expect(promtool(['test', 'rules', tests])).toMatchObject({ code: 0 });
});

test.skipIf(noPromtool)('promtool accepts the metrics', async () => {
  const server = await openTestServer(sqlite, { SALLYPORT_METRICS_PORT: '0' });
  await server.call('GET', '/livez');
  const text = await (await fetch(server.app.metricsUrl as string)).text();
  await server.close();
  expect(promtool(['check', 'metrics'], text)).toEqual({ code: 0, output: '' });
});

type Samples = ReadonlyMap<string, number>;
/** What Prometheus scrapes before the cause and during it. A scrape that fails is undefined. */
type Scrapes = readonly [before: string, during: string | undefined];

function samplesOf(scrape: string): Samples {
  const lines = scrape.matchAll(/^(?!\w+_bucket\{(?!.*le="0\.25"))(\w+)(?:\{(.*)\})? (\S+)$/gm);
  const series = Array.from(lines, ([, name, labels, value]): [string, number] => [
    `${name}{${labels ? `${labels},` : ''}job="s",instance="a"}`,
    Number(value),
  ]);
  return new Map([...series, ['up{job="s",instance="a"}', 1]]);
}

/** Every 30 seconds, for ten minutes before the cause and for 20 during it. Counters grow each time if it `repeats`. */
function inputSeries([first, second]: Scrapes, repeats: boolean): object[] {
  const before = samplesOf(first);
  const during = second === undefined ? new Map([['up{job="s",instance="a"}', 0]]) : samplesOf(second);
  return Array.from(new Set([...before.keys(), ...during.keys()]), (series) => {
    const [was, is] = [before.get(series), during.get(series)];
    const growth = repeats && /_(total|count|bucket)\{/.test(series) ? (is ?? 0) - (was ?? 0) : 0;
    const start = was === undefined ? '_x19' : `${was}x19`;
    return { series, values: `${start} ${is === undefined ? 'stale _x39' : `${is}+${growth}x39`}` };
  });
}

/** Throws unless the alerts fire during the cause, and do not before it. */
function expectAlerts(alerts: readonly string[], scrapes: Scrapes, repeats: boolean): void {
  const folder = temporaryFolder();
  const firing = (alert: string, count: number) => ({
    expr: `count(max_over_time(ALERTS{alertname="${alert}",alertstate="firing"}[${count === 0 ? 10 : 20}m]))`,
    eval_time: count === 0 ? '9m30s' : '29m30s',
    exp_samples: count === 0 ? [] : [{ labels: '{}', value: count }],
  });
  const input = {
    rule_files: [alertsFile],
    evaluation_interval: '30s',
    tests: [
      {
        interval: '30s',
        input_series: inputSeries(scrapes, repeats),
        promql_expr_test: alerts.flatMap((alert) => [firing(alert, 0), firing(alert, 1)]),
      },
    ],
  };
  const file = join(folder, 'test.json');
  writeFileSync(file, JSON.stringify(input));
  const result = promtool(['test', 'rules', file]);
  rmSync(folder, { recursive: true });
  expect(result).toMatchObject({ code: 0 });
}

const tested = new Set<string>();

/** `alerts` are separated by spaces, without their prefix. `repeats`: see `inputSeries`. */
function firesWhen(cause: string, alerts: string, scrape: () => Promise<Scrapes>, repeats = false): void {
  const names = alerts.split(' ').map((alert) => `Sallyport${alert}`);
  for (const name of names) tested.add(name);
  test.skipIf(noPromtool)(`${alerts} when ${cause}`, async () => {
    expectAlerts(names, await scrape(), repeats);
  });
}

/** Scrapes before and after the cause, when the background jobs have run. */
async function around(
  database: Database | string,
  settings: Record<string, string>,
  cause: (server: TestServer) => Promise<unknown>,
  reserved?: number,
): Promise<Scrapes> {
  const env = { SALLYPORT_METRICS_PORT: '0', ...settings };
  const server = await openTestServer(database, env, undefined, reserved ? { reserved } : {});
  const scrape = async () => {
    await server.flush();
    return (await fetch(server.app.metricsUrl as string)).text();
  };
  try {
    const before = await scrape();
    await cause(server);
    return [before, await scrape()];
  } finally {
    await server.close();
  }
}

/** Starts the program as a separate process. */
async function aroundProcess(
  settings: Record<string, string>,
  command: readonly string[],
  cause: (service: Service, scrape: () => Promise<string>) => Promise<string | undefined>,
): Promise<Scrapes> {
  const port = freePort();
  const service = await startService({ SALLYPORT_METRICS_PORT: String(port), ...settings }, command);
  const scrape = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  try {
    return [await scrape(), await cause(service, scrape)];
  } finally {
    await service.close();
  }
}

firesWhen('a node is killed', 'Absent Down NodeDown', () =>
  aroundProcess({}, program, async (service, scrape) => {
    service.process.kill('SIGKILL');
    await service.process.exited;
    return scrape().catch(() => undefined);
  }),
);

firesWhen('PostgreSQL is stopped', 'DatabaseUnreachable Unavailable', async () => {
  const database = await startPostgres({});
  try {
    return await around(database.url, {}, async (server) => {
      const { key } = await server.tenant();
      await database.stop();
      for (let count = 0; count < 10; count++) {
        const { status } = await server.call('GET', '/tokens', { key });
        expect(status).toBe(503);
      }
    });
  } finally {
    await database.stop();
  }
});

firesWhen(
  'requests wait for a lock of PostgreSQL',
  'Slow',
  async () => {
    const database = await startPostgres({});
    try {
      return await around(database.url, {}, async (server) => {
        const { key } = await server.tenant();
        await duringTransaction(database.url, 'lock table tokens in access exclusive mode', async () => {
          for (let count = 0; count < 5; count++) await server.call('GET', '/tokens', { key });
        });
      });
    } finally {
      await database.stop();
    }
  },
  true,
);

describe.skipIf(noMount)('on a small file system', () => {
  firesWhen('the disk of SQLite is full', 'DiskFull', async () => {
    const folder = temporaryFolder();
    expect(mount('-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', folder)).toBe(true);
    const fill = async (server: TestServer) => {
      const { key } = await server.tenant();
      const { bavail, bsize } = statfsSync(folder);
      writeFileSync(join(folder, 'ballast'), Buffer.alloc(bavail * bsize));
      await server.call('POST', '/tokens', { key, body: { data: 'x' } });
    };
    try {
      return await around(await sqlite.createMigrated(folder), {}, fill, 1 << 20);
    } finally {
      unmount(folder);
      rmSync(folder, { recursive: true });
    }
  });
});

firesWhen('a request needs a table that is gone', 'InternalErrors', () =>
  around(sqlite, {}, async (server) => {
    const { key } = await server.tenant();
    await hideTable(server.config.databaseUrl, 'token_contents');
    const headers = { 'SVC-API-KEY': key, 'Content-Type': 'application/json' };
    const response = await fetch(`${server.url}/tokens`, { method: 'POST', headers, body: '{"data":"x"}' });
    expect(response.status).toBe(500);
  }),
);

firesWhen('another program prevents deletions', 'SweepStopped', () =>
  around(sqlite, {}, async (server) => {
    const { key } = await server.tenant();
    const body = { data: 'x', expires_at: new Date(server.clock.now() + 1000).toISOString() };
    expect((await server.call('POST', '/tokens', { key, body })).status).toBe(201);
    const trigger = `create trigger keep before delete on tokens begin select raise(abort, 'kept'); end`;
    await runSql(server.config.databaseUrl, trigger);
    server.clock.advance(3_600_000);
  }),
);

firesWhen('no entries can be sealed', 'AuditChainBehind', () =>
  around(sqlite, {}, async ({ app, clock, config, tenant }) => {
    const { id: tenantId } = await tenant();
    await failInserts(config.databaseUrl, 'audit_segments');
    const entry = { ...byOperator, at: clock.now(), tenantId, operation: 'token.read' };
    await app.store.audit.write(Array.from({ length: 10_000 }, () => entry));
  }),
);

const sink = (fields: object) => ({ SALLYPORT_SINK: JSON.stringify({ ...fields, allow_private: true }) });

firesWhen('a sink is down for an hour', 'AuditNotDelivered', () =>
  around(sqlite, sink({ type: 'otlp', url: `http://127.0.0.1:${freePort()}` }), async (server) => {
    await server.tenant();
    for (let minutes = 0; minutes < 60; minutes += 5) {
      await server.flush();
      server.clock.advance(300_000);
    }
  }),
);

firesWhen('a sink rejects entries', 'AuditRejected', async () => {
  const receiver = openOtlpReceiver();
  const rejected = { partialSuccess: { rejectedLogRecords: '1', errorMessage: 'too large' } };
  try {
    return await around(sqlite, sink({ type: 'otlp', url: receiver.url }), (server) => {
      receiver.setAnswer(() => Response.json(rejected));
      return server.tenant();
    });
  } finally {
    await receiver.close();
  }
});

firesWhen('an application expires in six days', 'ExpiringSoon', () =>
  around(sqlite, {}, async (server) => {
    const { key } = await server.tenant();
    await server.application(key, {
      expires_at: new Date(server.clock.now() + 6 * 86_400_000).toISOString(),
    });
  }),
);

firesWhen(
  'a client has a wrong key',
  'FailedAuthentications',
  () =>
    around(sqlite, {}, async (server) => {
      for (let count = 0; count < 40; count++) await server.call('GET', '/tokens', { key: 'wrong' });
    }),
  true,
);

firesWhen('the clock of the machine is five seconds ahead', 'ClockOff', async () => {
  const folder = temporaryFolder();
  const preload = join(folder, 'clock.ts');
  const ahead = (seconds: number) =>
    writeFileSync(preload, `const real = Date.now; Date.now = () => real() + ${seconds * 1000};`);
  const [bun = '', ...rest] = program;
  const DATABASE_URL = await postgres.createMigrated(folder);
  const settings = { DATABASE_URL, SALLYPORT_MASTER_KEY: Buffer.alloc(32, 7).toString('base64') };
  const scrape = async () => {
    const [before] = await aroundProcess(settings, [bun, '--preload', preload, ...rest], async () => '');
    return before;
  };
  try {
    ahead(0);
    const before = await scrape();
    ahead(5);
    return [before, await scrape()];
  } finally {
    rmSync(folder, { recursive: true });
  }
});

firesWhen('the clock of the machine is set', 'ClockJumped', () =>
  around(sqlite, {}, async ({ clock }) => clock.jump(5000)),
);

firesWhen('an emergency key is used', 'BreakGlass', async () => {
  const provider = new TestProvider();
  const settings = { ...TestProvider.settings(provider), SALLYPORT_CONSOLE_KEYS: 'off' };
  try {
    return await around(sqlite, settings, async (server) => {
      setRealTime(server);
      const { key } = await (await openSignInFixture(server, provider)).application();
      await server.call('GET', '/applications/key', { key });
    });
  } finally {
    await provider.close();
  }
});

firesWhen('a destination repeats the data of a token', 'DestinationEchoed', async () => {
  const receiver = await openReceiver();
  receiver.answer((socket, request) => socket.write(json({ echo: request })));
  const settings = { SALLYPORT_DESTINATION_NETWORKS: '127.0.0.1' };
  return around(sqlite, settings, async (server) => {
    const { key } = await server.tenant();
    const post = async (path: string, body: object) => (await server.call('POST', path, { key, body })).body;
    await post('/tokens', { id: 'card', data: '4242424242424242' });
    const { addressOrigin: origin, ca } = receiver;
    const requests = [{ method: 'POST', path: '/charge', placeholders: [{ at: '/card' }], reply: [''] }];
    const user = await createUser(post, { origin, ca, requests });
    const body = { card: '{{ token: card }}' };
    const { status } = await server.call('POST', '/proxy/payments/charge', { key: user, body });
    expect(status).toBe(502);
  });
});

firesWhen('the connections of PostgreSQL are in use', 'ConnectionsExhausted', async () => {
  const database = await startPostgres({ max_connections: '20' });
  const others = Array.from({ length: 14 }, () => new SQL(database.url, { max: 1 }));
  try {
    return await around(database.url, {}, () => Promise.all(others.map((each) => each.unsafe('select 1'))));
  } finally {
    await Promise.all(others.map((each) => each.close()));
    await database.stop();
  }
});

firesWhen('clients use the file descriptors of the process', 'FileDescriptorsExhausted', () => {
  const limited = ['sh', '-c', 'ulimit -n 160; exec "$@"', 'sh', ...program];
  return aroundProcess({}, limited, async (service, scrape) => {
    const open = (text: string) => Number(/^process_open_fds (\d+)$/m.exec(text)?.[1]);
    let text = await scrape();
    const { hostname, port } = new URL(service.url);
    const sockets = Array.from({ length: 140 - open(text) }, () => connect(Number(port), hostname));
    await until('the connections are open', async () => {
      text = await scrape();
      return open(text) > 0.8 * 160;
    });
    for (const socket of sockets) socket.destroy();
    return text;
  });
});

firesWhen('a newer version migrates the database', 'SchemaNewer', () =>
  around(sqlite, {}, ({ config }) =>
    runSql(config.databaseUrl, "insert into schema_versions (version, name, hash) values (999, 'new', 'x')"),
  ),
);

firesWhen('the folder of the witness is gone', 'NoWitness', async () => {
  const folder = temporaryFolder();
  const SALLYPORT_WITNESS = join(folder, 'witness');
  writeFileSync(SALLYPORT_WITNESS, '');
  return around(postgres, { SALLYPORT_WITNESS }, async () => rmSync(folder, { recursive: true }));
});

firesWhen('another node has an address that only it reaches', 'AddressUnreachable', () =>
  around(postgres, {}, async ({ config }) => {
    const other = await openTestServer(config.databaseUrl, {
      PORT: String(freePort()),
      SALLYPORT_NODE_URL: `http://127.0.0.1:${freePort()}`,
    });
    // A node that is killed leaves its record.
    other.app.maintenance.nodes.remove = async () => {};
    await other.close();
  }),
);

firesWhen('the process may use too little memory', 'MemoryShort', async () => {
  const [before] = await around(sqlite, {}, async () => {});
  return [before, (await around(sqlite, { SALLYPORT_MEMORY: String(2 ** 27) }, async () => {}))[1]];
});

test('every alert has a cause above', () => {
  const alerts = Array.from(readFileSync(alertsFile, 'utf8').matchAll(/- alert: (\w+)/g), ([, name]) => name);
  expect([...tested].sort()).toEqual(alerts.sort() as string[]);
});
