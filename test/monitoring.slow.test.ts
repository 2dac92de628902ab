/** Alert rules and metrics as Prometheus reads them. */
import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { isMissing } from './support/skip.ts';
import { openTestServer, sqlite } from './support/test-server.ts';

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
