/** Alert rules and dashboard. Their metrics are checked in metrics.test.ts. */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { YAML } from 'bun';
import { isMissing } from './support/skip.ts';
import { openTestServer, sqlite } from './support/test-server.ts';

const root = join(import.meta.dirname, '..');
const alertsFile = join(root, 'deploy/prometheus/alerts.yaml');
const read = (name: string) => readFileSync(join(root, name), 'utf8');

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly runbook_url: string };
}
interface Target {
  readonly expr: string;
}
interface Dashboard {
  readonly panels: readonly { readonly id: number; readonly targets: readonly Target[] }[];
}

const { groups } = YAML.parse(read('deploy/prometheus/alerts.yaml')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.map(({ alert }) => alert);

const noPromtool = isMissing(Bun.which('promtool') !== null, 'tests of the alert rules: no promtool found');
function promtool(args: string[], input = ''): { code: number; output: string } {
  const { exitCode, stdout, stderr } = Bun.spawnSync(['promtool', ...args], { stdin: Buffer.from(input) });
  return { code: exitCode, output: `${stdout}${stderr}` };
}

describe('the alert rules', () => {
  test.skipIf(noPromtool)('are valid, and fire exactly when their tests say', () => {
    expect(promtool(['check', 'rules', alertsFile])).toMatchObject({ code: 0 });
    const tests = alertsFile.replace('.yaml', '.test.yaml');
    expect(promtool(['test', 'rules', tests])).toMatchObject({ code: 0 });
  });

  test('all have a test in which they fire, and a row in the documentation', () => {
    const tests = YAML.parse(read('deploy/prometheus/alerts.test.yaml')) as {
      tests: { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }[];
    };
    const cases = tests.tests.flatMap(({ alert_rule_test }) => alert_rule_test);
    const firing = cases.filter(({ exp_alerts }) => exp_alerts.length > 0);
    expect([...new Set(firing.map(({ alertname }) => alertname))].sort()).toEqual([...alerts].sort());
    const documented = read('docs/operations/monitoring.md').matchAll(/^\| `(Sallyport\w+)` \|/gm);
    expect(Array.from(documented, ([, name]) => name)).toEqual(alerts);
  });

  test('link to a section of the runbooks each, and every section has an alert', () => {
    const page = 'docs/operations/runbooks.md';
    const links = rules.map(({ annotations }) => annotations.runbook_url);
    expect(links).toEqual(alerts.map((alert) => `${page}#${alert.toLowerCase()}`));
    expect(Array.from(read(page).matchAll(/^## (.+)$/gm), ([, heading]) => heading)).toEqual(alerts);
  });
});

test.skipIf(noPromtool)('promtool accepts the metrics', async () => {
  const server = await openTestServer(sqlite, { SALLYPORT_METRICS_PORT: '0' });
  await server.call('GET', '/livez');
  const text = await (await fetch(server.app.metricsUrl as string)).text();
  await server.close();
  expect(promtool(['check', 'metrics'], text)).toEqual({ code: 0, output: '' });
});

test('every query of the dashboard filters by job', () => {
  const { panels } = JSON.parse(read('docs/operations/grafana.json')) as Dashboard;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  for (const { expr } of panels.flatMap(({ targets }) => targets)) {
    const metrics = expr.match(/\b(sallyport|process)_\w+/g) ?? [];
    expect(metrics.length).toBeGreaterThan(0);
    for (const name of metrics) expect(expr).toContain(`${name}{job=~"$job"`);
  }
});
