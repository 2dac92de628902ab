/** The Helm chart, rendered and compared with the manifests in deploy/kubernetes. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { YAML } from 'bun';
import manifest from '../package.json' with { type: 'json' };
import {
  chart,
  type KubernetesObject,
  lintChart,
  noHelm,
  renderChart,
  schemaErrors,
} from './support/helm-chart.ts';

const deploy = join(import.meta.dirname, '../deploy');
const read = (path: string) => readFileSync(join(deploy, path), 'utf8');
const parse = (path: string) => YAML.parse(read(path)) as KubernetesObject;
const kinds = (objects: KubernetesObject[]) => objects.map(({ kind }) => kind as string).sort();
const find = (objects: KubernetesObject[], kind: string) =>
  objects.find((object) => object.kind === kind) as KubernetesObject;

const repository = 'registry.example.com/sallyport';
const examples = readdirSync(join(chart, 'ci'));

/** Every mount has a volume, every volume is mounted, and no variable is set twice. */
function expectMountedVolumes(objects: KubernetesObject[]): void {
  for (const { spec } of objects.filter(({ kind }) => kind === 'Deployment' || kind === 'Job')) {
    const { containers, volumes } = spec.template.spec;
    const names = (list: KubernetesObject[]) => list.map(({ name }) => name as string);
    expect(names(containers[0].volumeMounts).sort()).toEqual(names(volumes).sort());
    expect(new Set(names(containers[0].env)).size).toBe(containers[0].env.length);
  }
}

test('the schemas reject a missing, a wrong and an unknown field', async () => {
  const budget = parse('kubernetes/disruption-budget.yaml');
  const [port] = parse('kubernetes/service.yaml').spec.ports;
  const errors = async (spec: object) => (await schemaErrors([{ ...budget, spec }])).join();
  expect(await errors(budget.spec)).toBe('');
  expect(await errors({ ...budget.spec, maxUnavailable: [] })).toContain('maxUnavailable');
  expect(await errors({ ...budget.spec, maxUnavailble: 1 })).toContain('maxUnavailble');
  const { name: _, port: __, ...incomplete } = port;
  const service = { ...parse('kubernetes/service.yaml'), spec: { ports: [incomplete] } };
  expect((await schemaErrors([service])).join()).toContain('port');
});

test('the manifests are valid by the schemas of Kubernetes', async () => {
  const files = readdirSync(join(deploy, 'kubernetes'), { recursive: true }) as string[];
  const texts = files
    .filter((file) => file.endsWith('.yaml') && !file.endsWith('kustomization.yaml'))
    .flatMap((file) => read(`kubernetes/${file}`).split(/^---$/m));
  expect(texts.length).toBeGreaterThan(5);
  expect(await schemaErrors(texts.map((text) => YAML.parse(text) as KubernetesObject))).toEqual([]);
});

test('the chart has the version of the program and the same alert rules', () => {
  const { version, appVersion } = parse('helm/sallyport/Chart.yaml');
  expect([version, appVersion]).toEqual([manifest.version, manifest.version]);
  expect(readFileSync(join(chart, 'files/alerts.yaml'), 'utf8')).toBe(read('prometheus/alerts.yaml'));
});

describe.skipIf(noHelm)('the rendered Helm chart', () => {
  let byDefault: KubernetesObject[];
  beforeAll(() => {
    byDefault = renderChart({ image: { repository } });
  });

  test('passes helm lint, where Helm is installed', () => {
    expect(lintChart()?.code ?? 0).toBe(0);
  });

  test('runs the same pods as the manifests', () => {
    expect(kinds(byDefault)).toEqual([
      'Deployment',
      'Job',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'Service',
    ]);
    const rendered = find(byDefault, 'Deployment').spec;
    const expected = parse('kubernetes/deployment.yaml').spec;
    const { imagePullPolicy, ...container } = rendered.template.spec.containers[0];
    expect(imagePullPolicy).toBe('IfNotPresent');
    const image = `${repository}:${manifest.version}`;
    expect(container).toEqual({ ...expected.template.spec.containers[0], image });
    expect([rendered.replicas, rendered.strategy]).toEqual([expected.replicas, expected.strategy]);
    for (const field of ['securityContext', 'volumes', 'terminationGracePeriodSeconds', 'enableServiceLinks'])
      expect([field, rendered.template.spec[field]]).toEqual([field, expected.template.spec[field]]);
    const spread = (constraints: KubernetesObject[]) => constraints.map(({ topologyKey }) => topologyKey);
    const zones = spread(expected.template.spec.topologySpreadConstraints);
    expect(spread(rendered.template.spec.topologySpreadConstraints)).toEqual(zones);
    expect(zones).toEqual(['kubernetes.io/hostname', 'topology.kubernetes.io/zone']);
    const policy = find(byDefault, 'NetworkPolicy').spec;
    expect({ ...policy, podSelector: undefined }).toEqual({
      ...parse('kubernetes/network-policy.yaml').spec,
      podSelector: undefined,
    });
    const job = find(byDefault, 'Job').spec.template.spec;
    const { imagePullPolicy: _, ...migration } = job.containers[0];
    const [expectedJob] = parse('kubernetes/migrate/job.yaml').spec.template.spec.containers;
    const env = expectedJob.env.map((one: KubernetesObject) =>
      one.name === 'SALLYPORT_REQUIRE_EXISTING' ? { ...one, value: 'false' } : one,
    );
    expect(migration).toEqual({ ...expectedJob, image, env });
  });

  test('needs an image', () => {
    expect(() => renderChart()).toThrow('image.repository is not set');
  });

  test.each(examples)('is valid by the schemas of Kubernetes with ci/%s', async (file) => {
    const objects = renderChart(parse(`helm/sallyport/ci/${file}`));
    expect(objects.length).toBeGreaterThan(3);
    expect(await schemaErrors(objects)).toEqual([]);
    expectMountedVolumes(objects);
  });

  test('has files and variables from Secrets, also in the migration', () => {
    const objects = renderChart(parse('helm/sallyport/ci/private-ca-values.yaml'));
    for (const kind of ['Deployment', 'Job']) {
      const { containers, volumes } = find(objects, kind).spec.template.spec;
      const mounts = containers[0].volumeMounts.map(({ name }: KubernetesObject) => name);
      expect(mounts).toEqual(expect.arrayContaining(['ca', 'pgpass']));
      expect(volumes).toContainEqual({ name: 'ca', configMap: { name: 'postgres-ca' } });
      const urls = containers[0].env.filter(({ name }: KubernetesObject) => name === 'DATABASE_URL');
      expect(urls).toHaveLength(kind === 'Job' ? 0 : 1);
    }
  });

  test.each([
    ['pods', { replicas: 9 }],
    ['pods of the autoscaler', { autoscaling: { enabled: true, maxReplicas: 9 } }],
    ['workers', { settings: { SALLYPORT_WORKERS: 3 } }],
    ['connections per process', { settings: { SALLYPORT_DATABASE_CONNECTIONS: '25' } }],
  ])('fails if PostgreSQL does not accept the connections of its %s', (_, values) => {
    const render = (database: object) => renderChart({ image: { repository }, ...values, database });
    expect(() => render({})).toThrow(/can open 1\d\d connections, but database.maxConnections is 97/);
    expect(render({ maxConnections: 200 }).length).toBeGreaterThan(3);
  });

  test('selects its own pods everywhere, and the Service does not offer metrics', () => {
    const { spec } = find(byDefault, 'Deployment');
    const labels = spec.selector.matchLabels;
    expect(spec.template.metadata.labels).toMatchObject(labels);
    expect(find(byDefault, 'Service').spec.selector).toEqual(labels);
    expect(find(byDefault, 'Service').spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
    expect(find(byDefault, 'PodDisruptionBudget').spec.selector.matchLabels).toEqual(labels);
    expect(find(byDefault, 'NetworkPolicy').spec).toEqual({
      podSelector: { matchLabels: labels },
      policyTypes: ['Ingress'],
      ingress: [{ ports: [{ port: 'http' }] }],
    });
    expect(find(byDefault, 'Job').spec.template.metadata.labels).not.toMatchObject(labels);
  });

  test('follows its values', () => {
    const from = [{ namespaceSelector: { matchLabels: { name: 'monitoring' } } }];
    const egress = [{ to: [{ ipBlock: { cidr: '10.0.0.0/8' } }] }];
    const objects = renderChart({
      image: { repository, digest: 'sha256:abc' },
      settings: { SALLYPORT_TRUSTED_PROXIES: '10.0.0.0/8', SALLYPORT_WORKERS: 2 },
      drainSeconds: 40,
      autoscaling: { enabled: true, maxReplicas: 20 },
      database: { maxConnections: 500 },
      networkPolicy: { metricsFrom: from, egress },
      serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
      prometheusRule: { enabled: true, runbookUrl: 'https://docs.example.com/runbooks' },
      migrationJob: { enabled: false },
    });
    expect(kinds(objects)).not.toContain('Job');
    const { spec } = find(objects, 'Deployment');
    expect(spec).not.toHaveProperty('replicas');
    const [container] = spec.template.spec.containers;
    expect(container.image).toBe('registry.example.com/sallyport@sha256:abc');
    expect(container.env).toContainEqual({ name: 'SALLYPORT_WORKERS', value: '2' });
    expect(container.env).toContainEqual({ name: 'SALLYPORT_DRAIN', value: '40' });
    expect(spec.template.spec.terminationGracePeriodSeconds).toBe(115);
    expect(find(objects, 'HorizontalPodAutoscaler').spec).toMatchObject({
      scaleTargetRef: { kind: 'Deployment', name: find(objects, 'Deployment').metadata.name },
      minReplicas: 3,
      maxReplicas: 20,
    });
    expect(find(objects, 'NetworkPolicy').spec).toMatchObject({
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{}, { ports: [{ port: 'metrics' }], from }],
      egress,
    });
    const rules = JSON.stringify(find(objects, 'PrometheusRule').spec);
    expect(
      JSON.parse(rules.replaceAll('https://docs.example.com/runbooks', 'docs/operations/runbooks.md')),
    ).toEqual(parse('prometheus/alerts.yaml'));
    expect(rules).toContain('"https://docs.example.com/runbooks#sallyportdown"');
    const monitor = find(objects, 'ServiceMonitor');
    expect(monitor.metadata.labels.release).toBe('prometheus');
    const selected = objects.filter(
      ({ kind, metadata }) =>
        kind === 'Service' &&
        Object.entries(monitor.spec.selector.matchLabels).every(
          ([name, value]) => metadata.labels[name] === value,
        ),
    );
    expect(selected.map(({ metadata }) => metadata.name)).toEqual(['vault-sallyport-metrics']);
    expect(selected[0]?.spec.ports[0].name).toBe(monitor.spec.endpoints[0].port);
  });
});
