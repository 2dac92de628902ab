/** The Helm chart, rendered and compared with the manifests in deploy/kubernetes. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { YAML } from 'bun';
import manifest from '../package.json' with { type: 'json' };
import { chart, type KubernetesObject, lintChart, noHelm, renderChart } from './support/helm-chart.ts';

const deploy = join(import.meta.dirname, '../deploy');
const read = (path: string) => readFileSync(join(deploy, path), 'utf8');
const parse = (path: string) => YAML.parse(read(path)) as KubernetesObject;
const kinds = (objects: KubernetesObject[]) => objects.map(({ kind }) => kind as string).sort();
const find = (objects: KubernetesObject[], kind: string) =>
  objects.find((object) => object.kind === kind) as KubernetesObject;

const repository = 'registry.example.com/sallyport';

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
    const job = find(byDefault, 'Job').spec.template.spec;
    const { imagePullPolicy: _, ...migration } = job.containers[0];
    const [expectedJob] = parse('kubernetes/migrate/job.yaml').spec.template.spec.containers;
    expect(migration).toEqual({ ...expectedJob, image });
  });

  test('needs an image', () => {
    expect(() => renderChart()).toThrow('image.repository is not set');
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
      networkPolicy: { metricsFrom: from, egress },
      serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
      prometheusRule: { enabled: true },
      migrationJob: { enabled: false },
    });
    expect(kinds(objects)).not.toContain('Job');
    const { spec } = find(objects, 'Deployment');
    expect(spec).not.toHaveProperty('replicas');
    const [container] = spec.template.spec.containers;
    expect(container.image).toBe('registry.example.com/sallyport@sha256:abc');
    expect(container.env).toContainEqual({ name: 'SALLYPORT_WORKERS', value: '2' });
    expect(container.env).toContainEqual({ name: 'SALLYPORT_DRAIN', value: '40' });
    expect(spec.template.spec.terminationGracePeriodSeconds).toBe(70);
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
    expect(find(objects, 'PrometheusRule').spec).toEqual(parse('prometheus/alerts.yaml'));
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
