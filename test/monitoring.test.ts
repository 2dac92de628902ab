/** Alert rules and dashboard. monitoring.slow.test.ts runs the rules; metrics.test.ts checks their metrics. */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { YAML } from 'bun';

const root = join(import.meta.dirname, '..');
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

describe('the alert rules', () => {
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

test('every query of the dashboard filters by job', () => {
  const { panels } = JSON.parse(read('docs/operations/grafana.json')) as Dashboard;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  for (const { expr } of panels.flatMap(({ targets }) => targets)) {
    const metrics = expr.match(/\b(sallyport|process)_\w+/g) ?? [];
    expect(metrics.length).toBeGreaterThan(0);
    for (const name of metrics) expect(expr).toContain(`${name}{job=~"$job"`);
  }
});
