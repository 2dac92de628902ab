/** Alert rules and metrics as Prometheus reads them. */
import { expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQL } from 'bun';
import { freePort, startPostgres } from './support/postgres.ts';
import { program, startService } from './support/service.ts';
import { isMissing } from './support/skip.ts';
import { openTestServer, sqlite } from './support/test-server.ts';
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

/** Whether the alert fires if all scrapes of 20 minutes have the values of this one. */
function fires(alert: string, scrape: string): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-alerts-'));
  const samples = Array.from(scrape.matchAll(/^(\w+?)(?:\{(.*)\})? (\S+)$/gm)).filter(
    ([, name]) => !/_(bucket|sum|count)$/.test(name as string),
  );
  const test = {
    interval: '30s',
    input_series: samples.map(([, name, labels, value]) => ({
      series: `${name}{${labels ? `${labels},` : ''}job="s",instance="a"}`,
      values: `${value}x60`,
    })),
    promql_expr_test: [
      {
        expr: `count(ALERTS{alertname="${alert}",alertstate="firing"})`,
        eval_time: '20m',
        exp_samples: [{ labels: '{}', value: 1 }],
      },
    ],
  };
  const file = join(folder, 'test.json');
  writeFileSync(
    file,
    JSON.stringify({ rule_files: [alertsFile], evaluation_interval: '30s', tests: [test] }),
  );
  const { code } = promtool(['test', 'rules', file]);
  rmSync(folder, { recursive: true });
  return code === 0;
}

test.skipIf(noPromtool)('an alert fires while clients use the file descriptors of the process', async () => {
  const port = freePort();
  const limited = ['sh', '-c', 'ulimit -n 160; exec "$@"', 'sh', ...program];
  const service = await startService({ SALLYPORT_METRICS_PORT: String(port) }, limited);
  const scrape = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const open = (text: string) => Number(/^process_open_fds (\d+)$/m.exec(text)?.[1]);
  const before = await scrape();
  const { hostname, port: ownPort } = new URL(service.url);
  const sockets = Array.from({ length: 140 - open(before) }, () => connect(Number(ownPort), hostname));
  let during = before;
  await until('the connections are open', async () => {
    during = await scrape();
    return open(during) > 0.8 * 160;
  });
  for (const socket of sockets) socket.destroy();
  await service.close();
  const alert = 'SallyportFileDescriptorsExhausted';
  expect([fires(alert, before), fires(alert, during)]).toEqual([false, true]);
});

test.skipIf(noPromtool)('an alert fires while the connections of PostgreSQL are in use', async () => {
  const database = await startPostgres({ max_connections: '20' });
  const server = await openTestServer(database.url, { SALLYPORT_METRICS_PORT: '0' });
  const scrape = async () => (await fetch(server.app.metricsUrl as string)).text();
  const before = await scrape();
  const others = Array.from({ length: 14 }, () => new SQL(database.url, { max: 1 }));
  await Promise.all(others.map((each) => each.unsafe('select 1')));
  // The background job reads the gauges.
  await server.flush();
  const during = await scrape();
  await Promise.all(others.map((each) => each.close()));
  await server.close();
  await database.stop();
  const alert = 'SallyportConnectionsExhausted';
  expect([fires(alert, before), fires(alert, during)]).toEqual([false, true]);
});
