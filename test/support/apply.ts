/** Runs `sallyport apply` with a file, for a new tenant. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ShellOptions, type ShellResult, shell } from './shell.ts';
import type { TestServer } from './test-server.ts';

export interface ApplyFixture {
  readonly folder: string;
  /** The first management key of the tenant. */
  readonly key: string;
  /** Writes the text to `access.yaml` and applies it. */
  apply(yaml: string, options?: string[], shellOptions?: ShellOptions): Promise<ShellResult>;
  /** All applications of the tenant by name. */
  applications(): Promise<Record<string, { id: string; [field: string]: unknown }>>;
  remove(): void;
}

export async function openApplyFixture(server: TestServer): Promise<ApplyFixture> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-apply-'));
  const { key } = await server.tenant();
  return {
    folder,
    key,
    apply: (yaml, options = [], shellOptions = {}) => {
      const file = join(folder, 'access.yaml');
      writeFileSync(file, yaml);
      const env = { SALLYPORT_URL: server.url, SALLYPORT_KEY: key };
      return shell(['apply', file, ...options], { ...shellOptions, env });
    },
    applications: async () => {
      const { body } = await server.call('GET', '/applications?size=100', { key });
      return Object.fromEntries(body.data.map((one: { name: string }) => [one.name, one]));
    },
    remove: () => rmSync(folder, { recursive: true }),
  };
}
