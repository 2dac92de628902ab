/** Checks the files in deploy/ against the program, without running them. */

import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments, parseDocument } from 'yaml';
import { z } from 'zod';
import { allCommands } from '../src/cli/commands.ts';
import { settings } from '../src/config/settings.ts';
import { maxTimeout } from '../src/domain/destination.ts';
import { routes } from '../src/http/routes.ts';
import { temporaryFolder } from './support/cleanup.ts';
import { isMissing } from './support/skip.ts';

const commands = await allCommands();

const folder = join(import.meta.dirname, '../deploy');
const read = (path: string) => readFileSync(join(folder, path), 'utf8');
const variables = Object.values(settings).map(({ variable }) => variable);
const paths = routes.map(({ path }) => path);

/** Parses a file with exactly one document, without warnings. */
function yaml(path: string): unknown {
  const documents = parseAllDocuments(read(path), { strict: true, uniqueKeys: true });
  expect(documents).toHaveLength(1);
  const [document] = documents as [(typeof documents)[number]];
  expect([...document.errors, ...document.warnings]).toEqual([]);
  return document.toJS();
}

const noKubectl = isMissing(Bun.which('kubectl') !== null, 'rendering of the manifests: no kubectl found');

describe('the image', () => {
  const lines = read('Dockerfile').split('\n');
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM ')));
  const having = (word: string) =>
    last.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1));

  test('runs only the program, as an unprivileged user', () => {
    expect(having('RUN')).toEqual([]);
    expect(having('USER')).toEqual(['65532:65532']);
    expect(JSON.parse(having('ENTRYPOINT')[0] as string)).toEqual(['/usr/local/bin/sallyport']);
    const [command] = JSON.parse(having('CMD')[0] as string);
    expect(commands.map(({ usage }) => usage)).toContain(command);
  });

  test('uses the health command as its health check', () => {
    const [, check] = /CMD (\[.*\])$/.exec(having('HEALTHCHECK')[0] as string)!;
    expect(JSON.parse(check as string)).toEqual(['/usr/local/bin/sallyport', 'health']);
    expect(commands.map(({ usage }) => usage)).toContain('health');
  });

  test('sets only known settings, and no secret', () => {
    const names = Array.from(
      having('ENV')
        .join(' ')
        .matchAll(/([A-Z_]+)=/g),
      (match) => match[1] as string,
    );
    expect(names.length).toBeGreaterThan(2);
    expect(names.filter((name) => !variables.includes(name))).toEqual([]);
  });

  test('has a build context of exactly the files that it copies', () => {
    const copied = lines
      .filter((line) => line.startsWith('COPY ') && !line.includes('--from'))
      .flatMap((line) => line.split(' ').slice(1, -1));
    const sent = read('Dockerfile.dockerignore').split('\n');
    expect(sent[0]).toBe('*');
    const allowed = sent.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    expect(
      copied.filter((path) => !allowed.some((one) => path === one || path.startsWith(`${one}/`))),
    ).toEqual([]);
  });
});

test('the compose file starts the service with least privileges', () => {
  const Compose = z.strictObject({
    name: z.literal('sallyport'),
    services: z.strictObject({
      sallyport: z.strictObject({
        build: z.strictObject({ context: z.literal('..'), dockerfile: z.literal('deploy/Dockerfile') }),
        depends_on: z.strictObject({ database: z.strictObject({ condition: z.literal('service_healthy') }) }),
        environment: z.partialRecord(z.enum(variables), z.string()),
        ports: z.tuple([z.string().startsWith('127.0.0.1:')]),
        volumes: z.tuple([z.literal('sallyport:/data')]),
        read_only: z.literal(true),
        tmpfs: z.tuple([z.literal('/tmp')]),
        cap_drop: z.tuple([z.literal('ALL')]),
        security_opt: z.tuple([z.literal('no-new-privileges:true')]),
        restart: z.string(),
        stop_grace_period: z.literal('80s'),
      }),
      database: z.looseObject({ image: z.string().regex(/^postgres:\d+$/), healthcheck: z.looseObject({}) }),
    }),
    volumes: z.strictObject({ sallyport: z.null(), database: z.null() }),
  });
  const { services } = Compose.parse(yaml('compose.yaml')) as {
    services: { sallyport: { environment: object } };
  };
  const { SALLYPORT_REQUIRE_EXISTING, ...secrets } = services.sallyport.environment as Record<string, string>;
  expect(SALLYPORT_REQUIRE_EXISTING).toBe('true');
  expect(Object.values(secrets).every((value) => /\$\{\w+:\?/.test(value))).toBe(true);
});

describe('in Kubernetes', () => {
  const files = readdirSync(join(folder, 'kubernetes')).filter((name) => name.endsWith('.yaml'));
  const readText = (path: string) => read(join('kubernetes', path));
  // biome-ignore lint/suspicious/noExplicitAny: manifests have no type
  const readYaml = (path: string): any => yaml(join('kubernetes', path));
  const labels = { 'app.kubernetes.io/name': 'sallyport' };
  // biome-ignore lint/suspicious/noExplicitAny: manifests have no type
  const of = (kind: string): any =>
    files
      .filter((name) => name !== 'secret.example.yaml')
      .map((name) => readYaml(name))
      .find((one) => one.kind === kind);
  const { spec } = of('Deployment');
  const pod = spec.template.spec;
  const [container] = pod.containers;

  test('the kustomization lists every manifest except the example', () => {
    const applied = of('Kustomization').resources as string[];
    expect(files.filter((name) => !applied.includes(name)).toSorted()).toEqual([
      'kustomization.yaml',
      'secret.example.yaml',
    ]);
    expect(applied.filter((name) => !files.includes(name))).toEqual([]);
  });

  test('labels, ports, secrets and volumes match', () => {
    for (const selector of [spec.selector.matchLabels, of('Service').spec.selector])
      expect(selector).toEqual(labels);
    expect(of('PodDisruptionBudget').spec.selector.matchLabels).toEqual(labels);
    expect(spec.template.metadata.labels).toEqual(labels);
    expect(of('Service').spec.ports[0].targetPort).toBe(container.ports[0].name);
    const [database, masterKey] = parseAllDocuments(readText('secret.example.yaml')).map((one) => one.toJS());
    const { secretKeyRef } = container.env[0].valueFrom;
    const [mounted] = pod.volumes.filter((volume: { secret?: object }) => volume.secret);
    expect([secretKeyRef.name, mounted.secret.secretName]).toEqual([
      database.metadata.name,
      masterKey.metadata.name,
    ]);
    expect(Object.keys(database.stringData)).toEqual([secretKeyRef.key]);
    expect(Object.keys(masterKey.stringData)).toEqual([mounted.secret.items[0].key]);
    const names = pod.volumes.map(({ name }: { name: string }) => name);
    expect(container.volumeMounts.map(({ name }: { name: string }) => name)).toEqual(names);
    const [file] = container.env.filter(({ name }: { name: string }) => name === 'SALLYPORT_MASTER_KEY_FILE');
    expect(file.value).toBe(`${container.volumeMounts[0].mountPath}/${mounted.secret.items[0].path}`);
  });

  test('the address of a pod and its port are those at which other pods ask it', () => {
    const env = container.env as { name: string; value?: string; valueFrom?: object }[];
    const [ip, url] = ['POD_IP', 'SALLYPORT_NODE_URL'].map((name) => env.find((one) => one.name === name));
    expect(ip?.valueFrom).toEqual({ fieldRef: { fieldPath: 'status.podIP' } });
    expect(url?.value).toBe(`http://$(POD_IP):${container.ports[0].containerPort}`);
  });

  test('probes use existing endpoints, and a lost database never restarts a pod', () => {
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'])
      expect(paths).toContain(container[probe].httpGet.path);
    expect(container.livenessProbe.httpGet.path).toBe('/livez');
    expect(container.readinessProbe.httpGet.path).toBe('/readyz');
  });

  test('a job migrates with the image, secret and privileges of the service', () => {
    const job = readYaml('migrate/job.yaml').spec.template.spec;
    const [migration] = job.containers;
    expect(migration.args).toEqual(['migrate']);
    expect(commands.map(({ usage }) => usage)).toContain('migrate');
    const same = ['image', 'securityContext', 'resources'] as const;
    for (const field of same) expect(migration[field]).toEqual(container[field]);
    const existing = (value: string) => ({ name: 'SALLYPORT_REQUIRE_EXISTING', value });
    expect(migration.env).toEqual([container.env[0], existing('true')]);
    const { resources, patches } = readYaml('create/kustomization.yaml');
    const [{ op, path, value }] = parseDocument(patches[0].patch).toJS();
    expect([resources, op, path]).toEqual([
      ['../migrate'],
      'replace',
      '/spec/template/spec/containers/0/env/1',
    ]);
    expect(value).toEqual(existing('false'));
    expect(pod.securityContext).toEqual(job.securityContext);
    expect(job.automountServiceAccountToken).toBe(false);
  });

  test('the Deployment and the migration use the image that is set in one place, by its digest', () => {
    const [image] = readYaml('image/kustomization.yaml').images;
    expect(image.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect([of('Kustomization').components, readYaml('migrate/kustomization.yaml').components]).toEqual([
      ['image'],
      ['../image'],
    ]);
    expect(container.image).toBe(image.name);
  });

  test.skipIf(noKubectl)('kubectl renders the Deployment and the migration with that image', () => {
    const [image] = readYaml('image/kustomization.yaml').images;
    for (const path of ['kubernetes', 'kubernetes/migrate']) {
      const { stdout } = Bun.spawnSync(['kubectl', 'kustomize', join(folder, path)]);
      const images = Array.from(String(stdout).matchAll(/ image: (.*)/g), ([, name]) => name);
      expect(images).toEqual([`${image.newName}@${image.digest}`]);
    }
  });

  test('disruptions and updates leave running nodes', () => {
    expect(spec.replicas - of('PodDisruptionBudget').spec.maxUnavailable).toBeGreaterThanOrEqual(2);
    expect(spec.strategy.rollingUpdate.maxUnavailable).toBe(0);
    const [drain] = container.env.filter(({ name }: { name: string }) => name === 'SALLYPORT_DRAIN');
    const { periodSeconds, failureThreshold } = container.readinessProbe;
    expect(Number(drain.value)).toBeGreaterThanOrEqual(periodSeconds * failureThreshold);
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(Number(drain.value) + maxTimeout + 10);
  });

  test('the container has least privileges and only known settings', () => {
    expect(pod.automountServiceAccountToken).toBe(false);
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 65532 });
    expect(pod.securityContext.seccompProfile.type).toBe('RuntimeDefault');
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    const names = container.env.map(({ name }: { name: string }) => name);
    expect(names.filter((name: string) => !variables.includes(name))).toEqual(['POD_IP']);
  });

  test('pods can only be reached on the port of the service, which is not the port of the metrics', () => {
    const policy = of('NetworkPolicy').spec;
    expect(policy.podSelector.matchLabels).toEqual(labels);
    expect(policy.ingress).toEqual([{ ports: [{ port: container.ports[0].name }] }]);
    expect(container.ports[1].name).toBe('metrics');
  });
});

describe('the systemd unit', () => {
  const unit = read('sallyport.service');

  test('a killed worker does not stop the service', () => {
    expect(unit).toMatch(/^OOMPolicy=continue$/m);
  });

  test('restarts a service that hangs', () => {
    expect(unit).toMatch(
      /^Type=notify\nNotifyAccess=all\n(.+\n)*WatchdogSec=\d+\n(.+\n)*Restart=on-failure$/m,
    );
  });
  const analyze = (...args: string[]) => {
    const { exitCode, stdout, stderr } = Bun.spawnSync(['systemd-analyze', ...args]);
    return { code: exitCode, output: `${stdout}${stderr}` };
  };

  test('starts the service with known settings', () => {
    const [, command] = /^ExecStart=\/usr\/local\/bin\/sallyport (\w+)$/m.exec(unit)!;
    expect(commands.map(({ usage }) => usage)).toContain(command as string);
    const named = Array.from(unit.matchAll(/^Environment=(\w+)=/gm), (match) => match[1] as string);
    expect(named.filter((name) => !variables.includes(name))).toEqual([]);
  });

  const noSystemd = isMissing(
    Bun.which('systemd-analyze') !== null,
    'test of the systemd unit: no systemd-analyze found',
  );
  test.skipIf(noSystemd)('passes systemd-analyze with a low exposure level', () => {
    const folder = temporaryFolder();
    const path = join(folder, 'sallyport.service');
    const valid = unit.replace('/usr/local/bin/sallyport', process.execPath);
    // systemd-analyze also warns about other installed units.
    const warnings = (text: string) => {
      writeFileSync(path, text);
      return analyze('verify', path)
        .output.split('\n')
        .filter((line) => line.includes('sallyport.service'));
    };
    expect(warnings(`${valid}\n[Service]\nNonsense=1\n`)).toEqual([expect.stringContaining('Nonsense')]);
    expect(warnings(valid)).toEqual([]);
    const { code, output } = analyze('security', '--offline=true', '--threshold=20', path);
    rmSync(folder, { recursive: true });
    expect([code, output]).toEqual([0, expect.stringMatching(/exposure level .*: [01]\.\d OK/)]);
  });
});

test('all deployments fail on an empty database instead of creating a new one', () => {
  const setTrue = /^(Environment=|ENV |\s*)SALLYPORT_REQUIRE_EXISTING(=|: )"?true"?$/m;
  for (const file of ['sallyport.service', 'Dockerfile', 'compose.yaml']) expect(read(file)).toMatch(setTrue);
  for (const file of ['kubernetes/deployment.yaml', 'helm/sallyport/templates/deployment.yaml'])
    expect(read(file)).toMatch(/- name: SALLYPORT_REQUIRE_EXISTING\n\s+value: "true"\n/);
});
