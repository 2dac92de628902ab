/**
 * Renders the Helm chart with Helm. Without Helm, uses Go and the packages of Debian that Helm is made of. Checks
 * Kubernetes objects against their schemas.
 */
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { YAML } from 'bun';
import { isMissing } from './skip.ts';

const root = join(import.meta.dirname, '../..');
export const chart = join(root, 'deploy/helm/sallyport');
const renderer = join(import.meta.dirname, 'helm/render.go');
const goPath = '/usr/share/gocode';

const helm = Bun.which('helm');
const go =
  existsSync(join(goPath, 'src/github.com/Masterminds/sprig')) &&
  existsSync(join(goPath, 'src/github.com/ghodss/yaml'))
    ? Bun.which('go')
    : null;

export const noHelm = isMissing(
  helm !== null || go !== null,
  'tests of the rendered Helm chart: found neither helm nor go with its packages sprig and yaml',
);

// biome-ignore lint/suspicious/noExplicitAny: objects of many kinds
export type KubernetesObject = Record<string, any>;

/** The objects that the chart creates with these values. Throws the error of a template. */
export function renderChart(values: object = {}): KubernetesObject[] {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-helm-'));
  try {
    const file = join(folder, 'values.json');
    writeFileSync(file, JSON.stringify(values));
    const command = helm
      ? [helm, 'template', 'vault', chart, '--values', file]
      : [go as string, 'run', renderer, chart, file];
    const env = {
      ...process.env,
      GO111MODULE: 'off',
      GOPATH: goPath,
      GOFLAGS: '',
      GOCACHE: join(tmpdir(), 'go-cache'),
      HOME: folder,
    };
    const { exitCode, stdout, stderr } = Bun.spawnSync(command, { env });
    if (exitCode !== 0) throw new Error(String(stderr));
    return String(stdout)
      .split(/^---$/m)
      .map((text) => YAML.parse(text) as KubernetesObject | null)
      .filter((object) => object !== null);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The packages with the JSON schemas and the types of the API, and the folder in them, by API group and version. */
const packages: Record<string, string> = {
  v1: 'kubernetes-models/v1',
  'apps/v1': 'kubernetes-models/apps/v1',
  'autoscaling/v2': 'kubernetes-models/autoscaling/v2',
  'batch/v1': 'kubernetes-models/batch/v1',
  'networking.k8s.io/v1': 'kubernetes-models/networking.k8s.io/v1',
  'policy/v1': 'kubernetes-models/policy/v1',
  'monitoring.coreos.com/v1': '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
};

/**
 * Checks objects against the JSON schemas of Kubernetes. The schemas permit unknown fields, which the API server drops,
 * so `tsc` also compares the objects with the types. Returns the errors.
 */
export async function schemaErrors(objects: readonly KubernetesObject[]): Promise<string[]> {
  const errors: string[] = [];
  for (const object of objects) {
    const { [object.kind]: Model } = await import(modelOf(object));
    try {
      new Model(object).validate();
    } catch (error) {
      errors.push(`${object.kind}: ${(error as Error).message}`);
    }
  }
  return [...errors, ...typeErrors(objects)];
}

function modelOf({ apiVersion, kind }: KubernetesObject): string {
  const path = packages[apiVersion];
  if (!path) throw new Error(`no schemas for ${apiVersion}`);
  return `${path}/${kind}`;
}

/** Unknown fields are errors for the type checker only in literals. */
function typeErrors(objects: readonly KubernetesObject[]): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-types-'));
  try {
    const lines = objects.map(
      (object, index) =>
        `import type { I${object.kind} as T${index} } from '${modelOf(object)}';\n` +
        `export const object${index}: T${index} = ${JSON.stringify(object)};`,
    );
    writeFileSync(join(folder, 'objects.ts'), lines.join('\n'));
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    const options = [
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--module',
      'esnext',
      '--moduleResolution',
      'bundler',
    ];
    const { stdout } = Bun.spawnSync([join(root, 'node_modules/.bin/tsc'), ...options, 'objects.ts'], {
      cwd: folder,
    });
    return String(stdout)
      .split('\n')
      .filter((line) => line.startsWith('objects.ts'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Undefined if Helm is not installed. */
export function lintChart(): { code: number; output: string } | undefined {
  if (!helm) return undefined;
  const { exitCode, stdout, stderr } = Bun.spawnSync([
    helm,
    'lint',
    '--strict',
    chart,
    '--set',
    'image.repository=registry.example.com/sallyport',
  ]);
  return { code: exitCode, output: `${stdout}${stderr}` };
}
