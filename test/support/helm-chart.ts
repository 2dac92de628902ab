/** Renders the Helm chart with Helm. Without Helm, uses Go and the packages of Debian that Helm is made of. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { YAML } from 'bun';
import { isMissing } from './skip.ts';

export const chart = join(import.meta.dirname, '../../deploy/helm/sallyport');
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
